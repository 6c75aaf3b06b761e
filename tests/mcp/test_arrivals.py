"""Which occurrences of a call are over is durable, on every database (P270)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.errors import UsageError
from nottwice.mcp.arrivals import Arrivals, Over
from nottwice.store.sql_store import SqlStore
from tests.langchain.conftest import open_store, place

__all__ = ["place"]


@pytest.fixture
def store(place: str) -> Iterator[SqlStore]:
    opened = open_store(place)
    yield opened
    opened.close()


def test_the_first_occurrence_is_the_first_that_is_not_over(store: SqlStore, place: str) -> None:
    arrivals = Arrivals(store)
    assert arrivals.find("a") == Over()
    arrivals.end([("a", 0, 0), ("a", 0, 2), ("b", 0, 0)])
    assert arrivals.find("a") == Over(0, 1, (2,))
    assert arrivals.find("a").first_open() == 1
    assert arrivals.find("a").first_open({1}) == 3
    arrivals.end([("a", 0, 1)])
    arrivals.end([("a", 0, 1)])
    other = open_store(place)
    assert Arrivals(other).find("a") == Over(0, 3)
    assert Arrivals(other).find("b") == Over(0, 1)
    other.close()


def test_a_removed_run_begins_again_once(store: SqlStore) -> None:
    arrivals = Arrivals(store)
    arrivals.end([("a", 0, 0)])
    arrivals.renew("a", 0)
    arrivals.renew("a", 0)
    assert arrivals.find("a") == Over(1)
    arrivals.end([("a", 0, 7)])
    assert arrivals.find("a") == Over(1), "it was an answer of the removed run"


def test_a_ledger_that_cannot_keep_them_is_refused(tmp_path: Path) -> None:
    with nt.Ledger(":memory:") as ledger, pytest.raises(UsageError, match="SQLite"):
        Arrivals(ledger.store)
