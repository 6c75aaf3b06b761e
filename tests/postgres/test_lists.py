"""Are lists of runs answered by an index of the server? (P171)"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nottwice.store.postgres import reads
from nottwice.store.postgres.store import PostgresStore
from tests.postgres import server

PAGE: dict[str, Any] = {
    "limit": 50,
    "prefix": "",
    "graph": None,
    "status": None,
    "queued": None,
    "before": None,
}


def plan(place: Path, sql: str, asked: tuple[Any, ...]) -> str:
    sql = sql.replace("nottwice.", server.schema_for(place) + ".")
    with server.connected() as connection:
        # An empty table is walked whatever indexes it has.
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET enable_bitmapscan = off")
        found = connection.execute("EXPLAIN (COSTS OFF) " + sql, asked)
        return "\n".join(row[0] for row in found)


@pytest.mark.parametrize(
    ("choice", "index"),
    [
        ({}, "runs_updated"),
        ({"before": (7, "run")}, "runs_updated"),
        ({"status": "completed"}, "runs_by_status"),
        ({"status": "waiting", "before": (7, "run"), "graph": "refund"}, "runs_by_status"),
    ],
    ids=str,
)
def test_a_page_of_runs_is_found_in_the_order_of_an_index(
    ledger: PostgresStore, tmp_path: Path, choice: dict[str, Any], index: str
) -> None:
    shown = plan(tmp_path, *reads.runs(**PAGE | choice))
    assert f"Index Scan using {index} on runs" in shown
    assert "Sort" not in shown


def test_runs_that_are_over_are_not_asked_for_calls_in_doubt(
    ledger: PostgresStore, tmp_path: Path
) -> None:
    shown = plan(tmp_path, reads.ALL_CALLS_IN_DOUBT, ())
    assert "using runs_by_status on runs" in shown
    assert "aborted" in shown
