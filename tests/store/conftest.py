"""The stores under test, each as a bench on which the next process finds what the last one left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from nottwice.store.interface import Store
from nottwice.store.jsonfile import JsonFileStore
from nottwice.store.memory import MemoryData, MemoryStore
from nottwice.store.sqlite import SqliteStore
from tests.store.samples import NOW


class OpenStore(Protocol):
    """Opens one more store on the same data."""

    def __call__(self) -> Store: ...


@pytest.fixture(params=["memory", "sqlite", "file"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Every kind of store in turn; what is true of a store is true of both."""
    data, opened = MemoryData(), list[Store]()

    def open_another() -> Store:
        if request.param == "memory":
            opened.append(MemoryStore(data, now=NOW))
        elif request.param == "file":
            opened.append(JsonFileStore(tmp_path / "runs", now=NOW))
        else:
            opened.append(SqliteStore(tmp_path / "ledger.db", now=NOW))
        return opened[-1]

    yield open_another
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteStore]:
    """A new SQLite ledger, beside nothing else."""
    store = SqliteStore(tmp_path / "ledger.db", now=NOW)
    yield store
    store.close()
