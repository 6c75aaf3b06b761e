"""The real clocks of a process put off calls in one thread, started when it is first needed."""

from __future__ import annotations

import threading

from nottwice.engine.clock import SystemClock


def test_all_clocks_put_off_calls_in_the_same_thread() -> None:
    ran: list[int] = []
    over = threading.Event()

    def work() -> None:
        ran.append(threading.get_ident())
        if len(ran) == 2:
            over.set()

    for clock in (SystemClock(), SystemClock()):
        clock.later(0.0, work)
    assert over.wait(10)
    assert len(set(ran)) == 1
    assert ran[0] != threading.get_ident()
