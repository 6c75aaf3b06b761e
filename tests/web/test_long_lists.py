"""Do the pages read as much in a ledger of 5,000 runs as in one of 300?

Counted are the statements that SQLite runs and the rows that they return. Their plans are checked,
too, because a statement that returns little may still read a whole table.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import ApprovalNeeded
from nottwice.guard.ledger import Ledger
from nottwice.model.run import RunRecord, RunStatus
from nottwice.store.interface import Claim, Commit
from tests.web.visiting import Visit

PAGES = ("/runs", "/runs?state=completed", "/runs?prefix=old-", "/", "/ledger")
# A ledger reads runs in pages of 200, so the short one has more than that.
FEW, MANY = 300, 5_000
WEEK = 7 * 86400.0


@nt.tool("unsafe_on_replay", name="long_lists_pay", approve=True)
def pay(number: int) -> int:
    return number


class Statements:
    """What SQLite was asked since the last look."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def connect(self, *given: Any, **named: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = _connect(*given, **named)
        made.set_trace_callback(self.texts.append)
        return made


_connect = sqlite3.connect


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Statements:
    statements = Statements()
    monkeypatch.setattr(sqlite3, "connect", statements.connect)
    return statements


def fill(path: Path, runs: int) -> None:
    """Runs of last week, and of today five that are done and three that ask for an approval."""
    with Ledger(path) as ledger:
        store, now = ledger.store, ledger.clock.now()
        soon = []
        for number in range(runs):
            at = now - WEEK + number
            run = RunRecord(f"old-{number:06}", RunStatus.COMPLETED, 1, None, at, at)
            soon.append(store.commit_soon(Commit(run.workflow_id, claim=Claim(run))))
        for one in soon:
            one.result()
        for number in range(5):
            with ledger.run(f"done-{number}"):
                pass
        for number in range(3):
            with pytest.raises(ApprovalNeeded), ledger.run(f"asks-{number}"):
                pay(number)


def read_pages(path: Path, asked: Statements) -> dict[str, list[str]]:
    """The statements that read something, by page."""
    found = {}
    with Ledger(path, create=False) as ledger:
        visit = Visit(ledger)
        visit.text("/")
        for page in PAGES:
            asked.texts.clear()
            visit.text(page)
            found[page] = [text for text in asked.texts if re.match(r"\s*(SELECT|WITH)\b", text)]
    return found


def test_a_page_reads_as_much_in_a_long_ledger_as_in_a_short_one(
    tmp_path: Path, asked: Statements
) -> None:
    short, long = tmp_path / "short.db", tmp_path / "long.db"
    fill(short, FEW)
    fill(long, MANY)
    few, many = read_pages(short, asked), read_pages(long, asked)
    for page in PAGES:
        assert len(few[page]) == len(many[page]) > 0, page
        assert rows_of(short, few[page]) == rows_of(long, many[page]), page
        assert full_scans(long, many[page]) == [], page


def rows_of(path: Path, statements: list[str]) -> list[int]:
    with closing(_connect(path)) as connection:
        return [len(connection.execute(text).fetchall()) for text in statements]


def full_scans(path: Path, statements: list[str]) -> list[str]:
    """The steps that read each row of the runs. Counting in an index alone reads none of them."""
    with closing(_connect(path)) as connection:
        plans = [connection.execute(f"EXPLAIN QUERY PLAN {text}").fetchall() for text in statements]
    steps = [step[3] for plan in plans for step in plan]
    return [one for one in steps if re.match(r"SCAN nottwice_runs(?!.*COVERING INDEX)", one)]
