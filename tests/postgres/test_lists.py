"""Are lists of runs answered by an index of the server? (P171)"""

from __future__ import annotations

from pathlib import Path

import pytest

from nottwice.store.postgres.statements import SQL
from nottwice.store.postgres.store import PostgresStore
from tests.postgres import server

ASKED = {"limit": 50, "graph": "refund", "status": "waiting", "before_at": 7, "before_id": "run"}


def plan(place: Path, sql: str) -> str:
    sql = sql.replace("nottwice.", server.schema_for(place) + ".")
    with server.connected() as connection:
        # An empty table is walked whatever indexes it has.
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET enable_bitmapscan = off")
        found = connection.execute("EXPLAIN (COSTS OFF) " + sql, ASKED)
        return "\n".join(row[0] for row in found)


@pytest.mark.parametrize(
    ("choice", "index"),
    [
        ([], "runs_updated"),
        (["_before"], "runs_updated"),
        (["_of_status"], "runs_by_status"),
        (["_of_status", "_before", "_of_graph"], "runs_by_status"),
    ],
    ids=str,
)
def test_a_page_of_runs_is_found_in_the_order_of_an_index(
    ledger: PostgresStore, tmp_path: Path, choice: list[str], index: str
) -> None:
    shown = plan(tmp_path, SQL.where("runs", choice))
    assert f"Index Scan using {index} on runs" in shown
    assert "Sort" not in shown


def test_runs_that_are_over_are_not_asked_for_calls_in_doubt(
    ledger: PostgresStore, tmp_path: Path
) -> None:
    shown = plan(tmp_path, SQL["all_calls_in_doubt"])
    assert "using runs_by_status on runs" in shown
    assert "aborted" in shown
