"""Is every run on exactly one page, and does a page cost the same wherever it is?"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

import nottwice as nt
from nottwice.errors import UsageError
from nottwice.guard.ledger import Ledger
from nottwice.store.interface import Store
from nottwice.views.pages import RunFilter, page_of_runs
from tests.cli.workplace import Workplace
from tests.views.loads import Loads, many_runs


def ids(ledger: Ledger, **wanted: str) -> list[str]:
    """All pages, one after the other."""
    found: list[str] = []
    after = ""
    while True:
        page = page_of_runs(ledger, RunFilter(after=after, **wanted), rows=2)
        found += [row.run.run_id for row in page.rows]
        if page.next is None:
            return found
        after = page.next


def test_every_run_is_on_one_page(killed: Workplace) -> None:
    with Ledger(killed.store, create=False) as ledger:
        whole = page_of_runs(ledger, RunFilter())
        assert whole.next is None
        assert ids(ledger) == [row.run.run_id for row in whole.rows]
        assert len(whole.rows) == 5
        assert ids(ledger, state="waiting", prefix="ticket-") == ["ticket-9", "ticket-8"]
        assert ids(ledger, state="interrupted") == ["ticket-7"]
        assert ids(ledger, since="30d") == ids(ledger)
        assert ids(ledger, graph="none") == []


def test_a_row_says_why_a_run_does_not_continue(killed: Workplace, graph_runs: Workplace) -> None:
    with Ledger(killed.store, create=False) as ledger:
        rows = {row.run.run_id: row.reason for row in page_of_runs(ledger, RunFilter()).rows}
    assert rows["ticket-8"].startswith("in doubt: review ")
    assert rows["done-1"] == ""
    assert rows["ticket-7"].startswith("its process died: pid ")
    with Ledger(graph_runs.store, create=False) as ledger:
        rows = {row.run.run_id: row.reason for row in page_of_runs(ledger, RunFilter()).rows}
    assert rows["failed-1"].startswith("RuntimeError: the van")
    assert rows["listen-1"] == "event news"


def test_a_run_that_waits_says_for_what_also_if_an_error_made_it_wait(tmp_path: Path) -> None:
    with nt.Ledger(tmp_path / "agent.db") as ledger:
        many_runs(ledger, completed=0, in_doubt=1)
        (review,) = ledger.store.open_reviews("open-0")
        (row,) = page_of_runs(ledger, RunFilter()).rows
        assert row.run.failure is not None
        assert row.reason == f"in doubt: review {review.review_id}"


@pytest.mark.parametrize(
    "wanted",
    [
        RunFilter(state="odd"),
        RunFilter(since="odd"),
        RunFilter(tag="odd"),
        RunFilter(after="odd"),
        RunFilter(after="9" * 400 + " x"),
        RunFilter(after="12 "),
    ],
)
def test_an_odd_filter_is_an_error_and_not_an_empty_list(
    wanted: RunFilter, killed: Workplace
) -> None:
    with Ledger(killed.store, create=False) as ledger, pytest.raises(UsageError):
        page_of_runs(ledger, wanted)


def test_the_last_page_loads_no_more_than_the_first() -> None:
    with Ledger(":memory:") as ledger:
        many_runs(ledger, completed=450, in_doubt=0)
        first = page_of_runs(ledger, RunFilter())
        mark = first.next
        for _ in range(7):
            assert mark is not None
            mark = page_of_runs(ledger, RunFilter(after=mark)).next
        loads = Loads(ledger.store)
        last = page_of_runs(Ledger(cast(Store, loads)), RunFilter(after=mark or ""))
        assert len(last.rows) == 50
        assert last.next is None
        assert loads.runs_loaded <= 200
