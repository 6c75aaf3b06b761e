"""A call that waits hears that its host has cancelled it (P304)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

import nottwice as nt
from nottwice.adapters import declare
from nottwice.errors import ReplayUnsafeError
from nottwice.hosts.watched import LOOK_SECONDS, WatchedClock, WatchedDriver, watched
from tests.fakes import FakeClock, Host, dying, unwanted

SEND = declare(
    "mail/send", replay="unsafe_on_replay", verify=lambda call: nt.still_running(), settles="1s"
)


class Cancelled(BaseException):
    """What a host raises in a workflow that is cancelled."""


class Looks:
    """A host that cancels the call when it was asked so often."""

    def __init__(self, until: int) -> None:
        self.left = until

    def __call__(self) -> BaseException | None:
        self.left -= 1
        return Cancelled() if self.left <= 0 else None


def test_a_pause_is_as_long_as_it_should_be_and_asks_every_second() -> None:
    clock, looks = FakeClock(), Looks(100)
    before = clock.now()
    WatchedClock(clock, looks).pause(2.5)
    asyncio.run(WatchedClock(clock, looks).pause_async(2.5))
    assert clock.now() == before + 5.0
    assert looks.left == 94
    assert max(clock.pauses) == LOOK_SECONDS


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_that_is_cancelled_while_it_waits_asks_no_person_and_can_be_made_again(
    is_async: bool,
) -> None:
    host = Host()
    with host.process() as ledger:
        ledger.once("order-7", "send", SEND, {}, dying(ledger))
    with host.process() as ledger:
        began, heard = host.clock.now(), watched(ledger, Looks(4))
        with pytest.raises(Cancelled):
            if is_async:
                asyncio.run(heard.aonce("order-7", "send", SEND, {}, unwanted))
            else:
                heard.once("order-7", "send", SEND, {}, unwanted)
        assert host.clock.now() < began + 4 * LOOK_SECONDS
        assert host.open_reviews == []
        # The run was released: another call finds the doubt as it was.
        with pytest.raises(ReplayUnsafeError):
            ledger.once("order-7", "send", SEND, {}, unwanted)


class Hanging:
    """A ``verify`` that answers when it may, and says so."""

    def __init__(self) -> None:
        self.may_end, self.entered, self.asked = threading.Event(), threading.Event(), 0

    def __call__(self, call: nt.Call) -> nt.Verification:
        self.asked += 1
        self.entered.set()
        assert self.may_end.wait(20)
        return nt.happened("found")


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    verify = Hanging()
    try:
        yield verify
    finally:
        verify.may_end.set()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_that_is_cancelled_while_verify_runs_leaves_it_and_records_nothing(
    hanging: Hanging, is_async: bool
) -> None:
    """P304. The host hears of the call while verify runs, and what verify says later is dropped."""
    host, looks = Host(), Looks(4)
    spec = declare("mail/hang", replay="unsafe_on_replay", verify=hanging, verify_limit="1h")
    with host.process() as ledger:
        ledger.once("order-7", "send", spec, {}, dying(ledger))
    with host.process() as ledger:
        before = host.calls
        look = lambda: looks() if hanging.entered.wait(20) else None  # noqa: E731
        heard = ledger.driven_by(WatchedDriver(ledger.host.driver, look, every=0.001), host.clock)
        with pytest.raises(Cancelled):
            if is_async:
                asyncio.run(heard.aonce("order-7", "send", spec, {}, unwanted))
            else:
                heard.once("order-7", "send", spec, {}, unwanted)
        assert (looks.left, hanging.asked) == (0, 1)
        hanging.may_end.set()
        assert (host.calls, host.open_reviews) == (before, [])
        assert ledger.run_record("order-7/send").status == "running"
        # The run was released, and the next call asks for itself.
        assert ledger.once("order-7", "send", spec, {}, unwanted).value == "found"
        assert hanging.asked == 2


def test_a_host_is_asked_while_verify_runs() -> None:
    """P304. ``watched`` watches the pauses of a call, and its hooks."""
    host, looked = Host(), threading.Event()

    def look() -> BaseException | None:
        looked.set()
        return None

    def verify(call: nt.Call) -> nt.Verification:
        return nt.happened("heard") if looked.wait(20) else nt.cannot_tell()

    spec = declare("mail/heard", replay="unsafe_on_replay", verify=verify, verify_limit="1h")
    with host.process() as ledger:
        ledger.once("order-7", "send", spec, {}, dying(ledger))
    with host.process() as ledger:
        made = watched(ledger, look).once("order-7", "send", spec, {}, unwanted)
        assert made.value == "heard"


@pytest.mark.parametrize("is_async", [False, True])
def test_an_answer_or_an_error_of_a_watched_hook_arrives(is_async: bool) -> None:
    """The negative control: a host that cancels nothing changes nothing."""
    host = Host()
    found = declare("mail/found", replay="unsafe_on_replay", verify=lambda call: nt.happened(7))

    def refuse(call: nt.Call) -> nt.Verification:
        raise OSError("no route")

    broken = declare("mail/broken", replay="unsafe_on_replay", verify=refuse)
    for name, spec in (("found", found), ("broken", broken)):
        with host.process() as ledger:
            ledger.once("order-7", name, spec, {}, dying(ledger))
    with host.process() as ledger:
        heard = watched(ledger, Looks(1000))
        if is_async:
            made = asyncio.run(heard.aonce("order-7", "found", found, {}, unwanted))
        else:
            made = heard.once("order-7", "found", found, {}, unwanted)
        assert made.value == 7
        with pytest.raises(ReplayUnsafeError, match="OSError: no route"):
            heard.once("order-7", "broken", broken, {}, unwanted, settle_timeout="1ms")
