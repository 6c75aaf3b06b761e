"""A call that waits hears that its host has cancelled it (P304)."""

from __future__ import annotations

import asyncio

import pytest

import nottwice as nt
from nottwice.adapters import declare
from nottwice.errors import ReplayUnsafeError
from nottwice.hosts.watched import LOOK_SECONDS, WatchedClock
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
        began, watched = host.clock.now(), ledger.with_clock(WatchedClock(host.clock, Looks(4)))
        with pytest.raises(Cancelled):
            if is_async:
                asyncio.run(watched.aonce("order-7", "send", SEND, {}, unwanted))
            else:
                watched.once("order-7", "send", SEND, {}, unwanted)
        assert host.clock.now() < began + 4 * LOOK_SECONDS
        assert host.open_reviews == []
        # The run was released: another call finds the doubt as it was.
        with pytest.raises(ReplayUnsafeError):
            ledger.once("order-7", "send", SEND, {}, unwanted)
