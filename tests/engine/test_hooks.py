"""A hook that only looks is asked within a time, and left when its caller is cancelled (P304)."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from types import FrameType
from typing import Any

import pytest

import nottwice as nt
from nottwice.adapters import ToolSpec, declare
from nottwice.engine import hooks
from nottwice.errors import ReplayUnsafeError
from tests.fakes import Host, dying, unwanted


@pytest.fixture
def may_end() -> Iterator[threading.Event]:
    """When a hook that hangs may end: at the latest after its test."""
    event = threading.Event()
    try:
        yield event
    finally:
        event.set()


def in_doubt(host: Host, verify: Any) -> ToolSpec:
    """A call of a tool with this hook that a killed process has left in doubt."""
    spec = declare("pay/hang", replay="unsafe_on_replay", verify=verify, verify_limit="1h")
    with host.process() as ledger:
        ledger.once("g", "1", spec, {}, dying(ledger))
    return spec


def test_a_cancelled_caller_leaves_a_verify_in_a_thread_immediately(
    host: Host, may_end: threading.Event
) -> None:
    """P304. The run is released while verify still hangs. Nothing is recorded, no person asked."""
    entered, ended = threading.Event(), threading.Event()

    def verify(call: nt.Call) -> nt.Verification:
        entered.set()
        may_end.wait(20)
        ended.set()
        return nt.happened("too late")

    spec = in_doubt(host, verify)
    before = host.calls

    async def work(ledger: nt.Ledger) -> None:
        caller = asyncio.ensure_future(ledger.aonce("g", "1", spec, {}, unwanted))
        while not entered.is_set():
            await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        while ledger.store.load_run("g/1").holder_id is not None:  # type: ignore[union-attr]
            await asyncio.sleep(0)
        assert not ended.is_set()

    with host.process() as ledger:
        asyncio.run(work(ledger))
        may_end.set()
        assert (host.calls, host.open_reviews) == (before, [])


def waits_for_a_result(thread: int) -> bool:
    """Whether a thread is inside ``Future.result``: an interrupt before that is another case."""
    frame: FrameType | None = sys._current_frames()[thread]
    while frame is not None and frame.f_code is not Future.result.__code__:
        frame = frame.f_back
    return frame is not None


def test_an_interrupt_while_verify_runs_is_raised_and_asks_no_person(
    host: Host, may_end: threading.Event
) -> None:
    """P304. Celery raises its soft time limit in the same way, with a signal."""

    def verify(call: nt.Call) -> nt.Verification:
        main = threading.main_thread().ident
        assert main is not None
        while not waits_for_a_result(main):
            pass
        signal.pthread_kill(main, signal.SIGINT)
        assert may_end.wait(20)
        return nt.happened("too late")

    spec = in_doubt(host, verify)
    before = host.calls
    with host.process() as ledger:
        with pytest.raises(KeyboardInterrupt):
            ledger.once("g", "1", spec, {}, unwanted, settle_timeout="1ms")
        assert (host.calls, host.open_reviews) == (before, [])
        assert ledger.run_record("g/1").status == "running"


@pytest.mark.parametrize("kind", ["thread", "loop", "stubborn"])
def test_a_verify_that_hangs_does_not_outlast_the_host(
    host: Host, may_end: threading.Event, kind: str
) -> None:
    """P304. Also in an event loop, and if the hook does not end when it is cancelled."""

    def verify(call: nt.Call) -> nt.Verification:
        assert may_end.wait(20)
        return nt.happened("too late")

    async def stubborn(call: nt.Call) -> nt.Verification:
        while not may_end.is_set():
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                continue
        return nt.happened("too late")

    spec = in_doubt(host, stubborn if kind == "stubborn" else verify)

    async def work(ledger: nt.Ledger) -> None:
        with pytest.raises(nt.RunWaits):
            await ledger.aonce("g", "1", spec, {}, unwanted, within="20ms")
        assert not may_end.is_set()
        may_end.set()

    before = host.calls
    with host.process() as ledger:
        if kind == "thread":
            with pytest.raises(nt.RunWaits, match="in the time that its host had left"):
                ledger.once("g", "1", spec, {}, unwanted, within="20ms")
        else:
            asyncio.run(work(ledger))
        assert (host.calls, host.open_reviews) == (before, [])
        assert ledger.run_record("g/1").status == "running"


def test_a_person_is_asked_if_no_host_has_time_enough_for_verify(
    host: Host, may_end: threading.Event
) -> None:
    """P304. A verify that needs longer than every host has is not asked forever."""

    def verify(call: nt.Call) -> nt.Verification:
        assert may_end.wait(20)
        return nt.happened("too late")

    spec = in_doubt(host, verify)
    with host.process() as ledger:
        for _ in range(3):
            with pytest.raises(nt.RunWaits):
                ledger.once("g", "1", spec, {}, unwanted, within="20ms", settle_timeout="25s")
            host.clock.advance(10.0)
        with pytest.raises(ReplayUnsafeError, match="in the time that its host had left"):
            ledger.once("g", "1", spec, {}, unwanted, within="20ms", settle_timeout="25s")


def test_a_plain_hook_that_returns_a_coroutine_is_told_to_be_async() -> None:
    async def look() -> int:
        return 7

    outcome = hooks.ask(hooks.Hook(lambda: look(), is_async=False), 60)
    assert "declare the function with async def" in str(outcome.error)
    assert hooks.ask(hooks.Hook(look, is_async=True), 60).value == 7
