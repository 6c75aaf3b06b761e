"""The real clock puts off calls in one thread for each clock, started when it is first needed."""

from __future__ import annotations

import threading

from nottwice.engine.clock import SystemClock


def test_each_clock_puts_off_calls_in_a_thread_of_its_own() -> None:
    ran: dict[str, int] = {}
    over = threading.Barrier(3, timeout=10)

    def work(name: str) -> None:
        ran[name] = threading.get_ident()
        over.wait()

    clocks = {"one": SystemClock(), "other": SystemClock()}
    for name, clock in clocks.items():
        # Both wait for each other, so a single thread for both would never end.
        clock.later(0.0, lambda name=name: work(name))  # type: ignore[misc]
    over.wait()
    assert len({threading.get_ident(), *ran.values()}) == 3
