"""A SQLite ledger for the tests of its own rooms; what is true of every store is in the suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nottwice.store.files.store import JsonFileStore
from nottwice.store.sqlite.store import SqliteStore
from tests.store.samples import NOW


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteStore]:
    """A new SQLite ledger, beside nothing else."""
    store = SqliteStore(tmp_path / "ledger.db", now=NOW)
    yield store
    store.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[JsonFileStore]:
    """A new ledger of JSON files."""
    store = JsonFileStore(tmp_path / "runs", now=NOW)
    yield store
    store.close()
