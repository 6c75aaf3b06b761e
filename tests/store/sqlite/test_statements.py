"""Are lists of runs answered by an index, so that a million runs are no slower than a thousand?"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nottwice.store.sqlite.schema import bring_forward
from nottwice.store.sqlite.statements import SQL

ASKED = {
    "limit": 50,
    "prefix": "ticket-",
    "graph": "refund",
    "status": "waiting",
    "before_at": 7,
    "before_id": "run",
    "now": 7,
}
CHOICES = [[], ["_with_prefix"], ["_of_graph"]]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as connection:
        bring_forward(connection, "here")
        yield connection


def plan(ledger: sqlite3.Connection, sql: str) -> list[str]:
    return [row[3] for row in ledger.execute("EXPLAIN QUERY PLAN " + sql, ASKED)]


@pytest.mark.parametrize(
    "choice",
    [
        [],
        ["_of_status"],
        ["_of_status", "_only_queued"],
        ["_before"],
        ["_of_status", "_before"],
        ["_of_status", "_with_prefix", "_of_graph"],
    ],
    ids=str,
)
def test_a_page_of_runs_is_found_in_the_order_of_an_index(
    ledger: sqlite3.Connection, choice: list[str]
) -> None:
    """P171. What is sorted is the page, and only its runs are read."""
    steps = plan(ledger, SQL.where("runs", choice))
    found = next(place for place, step in enumerate(steps) if "LIST SUBQUERY" in step)
    shown, page = steps[:found], steps[found + 1]
    assert shown == [
        "SEARCH nottwice_runs USING INDEX sqlite_autoindex_nottwice_runs_1 (workflow_id=?)"
    ]
    assert "USING COVERING INDEX nottwice_runs_" in page
    # One step more would be a sort of everything that was chosen; the last sorts the page.
    assert [step for step in steps if "TEMP B-TREE" in step] == ["USE TEMP B-TREE FOR ORDER BY"]
    assert steps.index("USE TEMP B-TREE FOR ORDER BY") == len(steps) - 1


@pytest.mark.parametrize("table", ["tool_call_results", "nottwice_runs", "nottwice_checkpoints"])
def test_what_every_commit_reads_is_found_without_walking_through_long_texts(
    ledger: sqlite3.Connection, table: str
) -> None:
    """L10. SQLite reads a row up to the last column that is asked for, and a row whose key is part
    of it (WITHOUT ROWID) whole, for every comparison. An input of 5 MB cost 3 ms a commit."""
    columns = [row[1] for row in ledger.execute(f"PRAGMA table_info({table})")]
    long_texts = [name for name in columns if name.endswith("_json")]
    long_from = columns.index(long_texts[0])
    # A commit reads these only together with the whole row, and no index has them.
    whole = ("group_id", "traceparent")
    assert [name for name in columns[long_from:] if name not in whole] == long_texts
    indexes = ledger.execute("SELECT sql FROM sqlite_schema WHERE type = 'index'").fetchall()
    of_table = [sql for (sql,) in indexes if sql and f" ON {table} " in sql]
    assert not any("group_id" in sql for sql in of_table)
    (made,) = ledger.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    assert "WITHOUT ROWID" not in made


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_runs_that_do_not_run_are_counted_in_an_index_alone(
    ledger: sqlite3.Connection, choice: list[str]
) -> None:
    """P171."""
    steps = plan(ledger, SQL.where("count_runs", choice))
    counted = [step for step in steps if step.startswith(("SCAN", "SEARCH"))]
    assert counted == [
        "SCAN nottwice_runs USING COVERING INDEX nottwice_runs_by_status",
        "SEARCH nottwice_runs USING COVERING INDEX nottwice_runs_by_status (status=?)",
        "SEARCH nottwice_runs USING INDEX nottwice_runs_by_status (status=?)",
    ]


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_how_runs_stand_is_found_in_an_index_and_those_that_are_over_are_not_read(
    ledger: sqlite3.Connection, choice: list[str]
) -> None:
    """P171."""
    steps = plan(ledger, SQL.where("groups", choice))
    read = ("SCAN nottwice_runs", "SEARCH nottwice_runs", "SCAN r ", "SEARCH r ")
    searched = [step.replace(" r ", " nottwice_runs ") for step in steps if step.startswith(read)]
    assert searched == [
        "SEARCH nottwice_runs USING COVERING INDEX nottwice_runs_by_status (status=?)",
        "SEARCH nottwice_runs USING INDEX nottwice_runs_by_status (status=?)",
        "SEARCH nottwice_runs USING INDEX nottwice_runs_by_status (status=?)",
        "SEARCH nottwice_runs USING INDEX nottwice_runs_by_status (status=?)",
    ]


def test_runs_that_are_over_are_not_asked_for_calls_in_doubt(ledger: sqlite3.Connection) -> None:
    """P171."""
    steps = plan(ledger, SQL["all_calls_in_doubt"])
    assert steps[:2] == [
        "SEARCH r USING INDEX nottwice_runs_by_status (status=?)",
        "SEARCH t USING INDEX tcr_workflow (workflow_id=? AND created_at>?)",
    ]
