"""A SQLite ledger for tests of its own modules. The suite tests what is true for every store."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nottwice.store.files.store import JsonFileStore
from nottwice.store.sqlite.store import SqliteStore
from tests.store.samples import NOW

# Where a machine keeps temporary files on a disk, also if those of the tests are in memory.
DISK = Path("/var/tmp")
# They ask what a store answers. The others ask what it does to files.
IN_MEMORY = ("test_conformance", "test_agreement")


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk for the tests of these rooms."""
    if request.path.stem in IN_MEMORY or not DISK.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(
        prefix="nottwice-", dir=DISK, ignore_cleanup_errors=True
    ) as place:
        yield Path(place)


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
