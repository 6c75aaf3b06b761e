"""Are stores redirected as their process is told, even those that were opened before?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nottwice.store.files.store import JsonFileStore
from nottwice.store.machine import whereabouts
from nottwice.store.machine.whereabouts import Whereabouts
from nottwice.store.sqlite.store import SqliteStore

KINDS = [SqliteStore, JsonFileStore]


@pytest.fixture(autouse=True)
def as_named() -> Iterator[None]:
    yield
    whereabouts.tell(whereabouts.AS_NAMED)


def lead_to(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    whereabouts.tell(Whereabouts(path_of=lambda named: folder / named.name, busy_seconds=3.0))


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_is_opened_where_its_process_is_told(
    tmp_path: Path, kind: type[SqliteStore] | type[JsonFileStore]
) -> None:
    lead_to(tmp_path / "elsewhere")
    store = kind(tmp_path / "ledger", now=0.0)
    assert store.location == str(tmp_path / "elsewhere" / "ledger")
    assert store._busy_seconds == 3.0
    assert not (tmp_path / "ledger").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_was_opened_before_a_fork_moves_with_the_child(
    tmp_path: Path, kind: type[SqliteStore] | type[JsonFileStore]
) -> None:
    store = kind(tmp_path / "ledger", now=0.0)
    child = os.fork()
    if child == 0:
        lead_to(tmp_path / "elsewhere")
        store.holder()
        os._exit(0 if store.runs() == [] and "elsewhere" in store.location else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert store.location == str(tmp_path / "ledger")
    assert (tmp_path / "elsewhere" / "ledger").exists()
