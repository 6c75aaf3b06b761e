"""Does an open page hear a beat, and a change, and cost little?"""

from __future__ import annotations

import asyncio
import json
from typing import cast

from nottwice.engine.clock import SystemClock
from nottwice.errors import StoreError
from nottwice.guard.ledger import Ledger
from nottwice.reviews.inbox import Reviews
from nottwice.store.interface import Store
from nottwice.web.live import Pulses, _beats
from tests.views.loads import Loads


class Hands(SystemClock):
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.at = 1_800_000_000.0
        self.paused: list[float] = []

    def now(self) -> float:
        return self.at

    async def pause_async(self, seconds: float) -> None:
        self.paused.append(seconds)
        self.at += seconds


def test_each_beat_says_when_the_ledger_was_read_and_a_change_has_another_mark(
    ledger: Ledger, doubt: str
) -> None:
    clock = Hands()
    watched = Ledger(ledger.store, clock=clock)

    async def hear() -> list[dict[str, object]]:
        beats = _beats(clock, Pulses(watched), None)
        found = [await anext(beats), await anext(beats)]
        Reviews(ledger).decide(doubt, "abort", by="ann", why="stop")
        found.append(await anext(beats))
        assert all(one.startswith("event: beat\ndata: ") for one in found)
        return [json.loads(one.partition("data: ")[2]) for one in found]

    first, second, third = asyncio.run(hear())
    assert first["at"] == "2027-01-15T08:00:00.000000Z"
    assert second["at"] == "2027-01-15T08:00:02.000000Z"
    assert first["mark"] == second["mark"] != third["mark"]
    assert (first["open"], third["open"]) == (3, 2)
    assert clock.paused == [2.0, 2.0]


def test_many_open_pages_cost_one_read(ledger: Ledger) -> None:
    clock, loads = Hands(), Loads(ledger.store)
    pulses = Pulses(Ledger(cast(Store, loads), clock=clock))
    for _ in range(50):
        pulses.feel(None)
    assert loads.runs_loaded == 1
    clock.at += 2
    pulses.feel(None)
    assert loads.runs_loaded == 2
    clock.at -= 3600
    pulses.feel(None)
    assert loads.runs_loaded == 3


def test_a_ledger_that_cannot_be_read_gives_no_beat(ledger: Ledger) -> None:
    class Broken(Pulses):
        def feel(self, run_id: str | None) -> object:  # type: ignore[override]
            raise StoreError("The disk is gone.")

    async def hear() -> str:
        return await anext(_beats(Hands(), Broken(ledger), None))

    assert asyncio.run(hear()) == 'event: trouble\ndata: {"message": "The disk is gone."}\n\n'
