"""Does the page say what `gc` would remove, and remove nothing?"""

from __future__ import annotations

from pathlib import Path

import nottwice as nt
from nottwice.guard.ledger import Ledger
from nottwice.guard.upkeep.retention import remove_expired
from nottwice.views.ledger.retention import look_at_retention
from tests.fakes import FakeClock

DAY = 86400.0


@nt.tool("pure", name="retention_read")
def read() -> int:
    return 7


@nt.tool("unsafe_on_replay", name="retention_send")
def send() -> int:
    return 8


def filled(path: Path, clock: FakeClock, runs: int = 3) -> Ledger:
    ledger = Ledger(path, clock=clock)
    for number in range(runs):
        with ledger.run(f"run-{number}"):
            read()
            send()
    return ledger


def test_it_says_what_gc_would_remove_on_that_day(tmp_path: Path) -> None:
    """P360."""
    clock = FakeClock()
    with filled(tmp_path / "a.db", clock) as ledger:
        told = [look_at_retention(ledger, after_seconds=days * DAY) for days in (0, 61, 366)]
        assert [one.removal.removed["calls"] for one in told] == [0, 3, 6]
        assert [one.removal.removed["runs"] for one in told] == [0, 3, 3]
        first = told[1].removal.removed_runs[0]
        assert (first.calls, first.calls_left) == (1, 1)
        assert first.due_at is not None
        assert all(one.is_complete for one in told)
        assert told[0].periods["unsafe"] == 365 * DAY
        # Nothing was removed, and gc does on that day what was told.
        assert ledger.store.count_calls("run-0") == 2
        clock.advance(61 * DAY)
        removed = remove_expired(ledger, dry_run=True, unknown_tools=True)
        assert (removed.runs, removed.calls) == (3, 3)


def test_a_long_list_is_cut_and_says_so(tmp_path: Path) -> None:
    with filled(tmp_path / "a.db", FakeClock()) as ledger:
        few = look_at_retention(ledger, after_seconds=400 * DAY, most=2)
        all_of_them = look_at_retention(ledger, after_seconds=400 * DAY, most=3)
    assert (few.removal.families, few.is_complete) == (2, False)
    assert (all_of_them.removal.families, all_of_them.is_complete) == (3, True)
