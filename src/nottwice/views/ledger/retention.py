"""What would `nottwice gc` remove, now or at a later day, and how long is everything kept?

Nothing is removed here. Promise kept here: P360.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated

from nottwice.engine.clock import Clock
from nottwice.engine.upkeep.retention import Sweep, remove_expired
from nottwice.guard import registry
from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.model.runs.retention import Retention
from nottwice.views.outcomes import RemovalView, removal_view
from nottwice.views.shape import LEDGER, Timestamp

MOST_FAMILIES = 500
"""How many ended runs are looked at, each with those that it has spawned."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class RetentionView:
    """What would be removed at a moment."""

    ledger: Annotated[str, LEDGER]
    at: Annotated[Timestamp, "the moment: now, or later"]
    periods: Annotated[dict[str, float], "how many seconds each kind of row is kept"]
    removal: Annotated[RemovalView, "what `gc --dry-run --unknown-tools` would say at that moment"]
    is_complete: Annotated[bool, "false if more runs have ended than were looked at"]
    now: float


def look_at_retention(
    ledger: Ledger, *, after_seconds: float = 0.0, most: int = MOST_FAMILIES
) -> RetentionView:
    """What `gc` with its usual periods would remove ``after_seconds`` from now.

    Tools that are not declared in this process are judged by their class, because their ``keep=``
    is not known here.
    """
    now, usual = ledger.clock.now(), Retention()
    clock = _Later(ledger.clock, after_seconds)
    removed = remove_expired(
        Sweep(
            store=ledger.store,
            clock=clock,
            find_tool=registry.find_tool,
            retention=usual,
            by="the page",
            dry_run=True,
            unknown_tools=True,
            most_families=most,
        )
    )
    periods = {field.name: usual.seconds_of(field.name) for field in dataclasses.fields(usual)}
    return RetentionView(
        ledger=ledger.location,
        at=Timestamp(clock.now()),
        periods=periods,
        removal=removal_view(ledger, removed),
        is_complete=removed.is_complete,
        now=now,
    )


class _Later:
    """The same clock, some time from now."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds

    def now(self) -> float:
        return self._clock.now() + self._seconds

    def pause(self, seconds: float) -> None:
        self._clock.pause(seconds)

    async def pause_async(self, seconds: float) -> None:
        await self._clock.pause_async(seconds)

    def random_unit(self) -> float:
        return self._clock.random_unit()

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self._clock.later(seconds, call)
