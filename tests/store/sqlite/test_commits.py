"""Is a commit into a removed log refused or reported as unknown, and every later one refused?"""

from __future__ import annotations

from pathlib import Path

import pytest

from nottwice.errors import CommitUnknown, StoreError
from nottwice.store.sqlite.store import SqliteStore
from nottwice.store.visits import VisitCommit
from tests.store.samples import NOW, note, noted


@pytest.mark.parametrize("end", ["-wal", "-shm"])
def test_a_commit_into_files_that_cannot_be_found_is_refused(tmp_path: Path, end: str) -> None:
    path = tmp_path / "ledger.db"
    store = SqliteStore(path, now=NOW)
    store.commit(note(1))
    Path(f"{path}{end}").unlink()
    with pytest.raises(StoreError, match=r"log of the ledger .* was removed.* Nothing was written"):
        store.commit(note(2))
    check_unusable(store, path)


@pytest.mark.parametrize("end", ["-wal", "-shm"])
def test_a_commit_whose_files_are_removed_meanwhile_is_not_reported_durable(
    tmp_path: Path, end: str
) -> None:
    path = tmp_path / "ledger.db"
    store = SqliteStore(path, now=NOW)
    store.commit(note(1))
    visit = VisitCommit(workflow_id="visitor", work=lambda _: Path(f"{path}{end}").unlink())
    with pytest.raises(CommitUnknown, match=r"log of the ledger .* may or may not be durable"):
        store.commit(visit)
    check_unusable(store, path)


def check_unusable(store: SqliteStore, path: Path) -> None:
    for refused in (lambda: store.commit(note(3)), lambda: noted(store)):
        with pytest.raises(
            StoreError, match=r"cannot use the ledger any more\. Nothing was written"
        ):
            refused()
    # Not in a new store of this process either: SQLite would mix the old index with a new log.
    with pytest.raises(StoreError, match="cannot use the ledger any more"):
        SqliteStore(path, now=NOW)
    store.close()
