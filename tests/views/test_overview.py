"""Does the overview count everything, and load only what it shows?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

import nottwice as nt
from nottwice.guard.ledger import Ledger
from nottwice.store.interface import Store
from nottwice.views.overview import MOST_LOADED, look_over
from tests.cli.workplace import Workplace
from tests.views.loads import Loads, many_runs


@pytest.fixture
def ledger(killed: Workplace) -> Iterator[Ledger]:
    with Ledger(killed.store, create=False) as opened:
        yield opened


def test_the_overview_counts_runs_reviews_and_doubts(ledger: Ledger) -> None:
    overview = look_over(ledger)
    assert overview.runs == {
        "queued": 0,
        "running": 0,
        "interrupted": 1,
        "waiting": 3,
        "idle": 0,
        "completed": 1,
        "failed": 0,
        "aborted": 0,
        "removed": 0,
    }
    assert (overview.reviews["open"], len(overview.cases)) == (3, 3)
    assert overview.reviews["decided"] == 0
    assert overview.more == 0
    assert overview.calls_in_doubt == 4
    assert [run.run_id for run in overview.interrupted] == ["ticket-7"]


def test_runs_that_are_over_or_wait_are_counted_and_not_loaded(tmp_path: Path) -> None:
    """P171."""
    with nt.Ledger(tmp_path / "agent.db") as ledger:
        many_runs(ledger, completed=60, in_doubt=MOST_LOADED + 3)
        loads = Loads(ledger.store)
        overview = look_over(Ledger(cast(Store, loads), clock=ledger.clock))
    open_ones = MOST_LOADED + 3
    assert (overview.runs["completed"], overview.runs["waiting"]) == (60, open_ones)
    assert (overview.calls_in_doubt, overview.waiting["review"]) == (open_ones, open_ones)
    assert (overview.reviews["open"], len(overview.cases)) == (open_ones, MOST_LOADED)
    assert overview.more == 3
    assert (loads.runs_loaded, loads.calls_loaded) == (0, MOST_LOADED)
