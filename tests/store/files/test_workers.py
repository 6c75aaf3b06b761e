"""Are the files of workers only files, which harm nothing if they are strange? (P380)"""

from __future__ import annotations

import shutil

import pytest

from nottwice.errors import StoreError
from nottwice.model.runs.workers import WorkerRecord
from nottwice.store.files.store import JsonFileStore
from tests.store.samples import NOW

WORKER = WorkerRecord("w", "holder", ("refund@1.0.0",), 8, NOW, NOW)


def test_a_file_that_cannot_be_read_is_left_out(
    folder: JsonFileStore, caplog: pytest.LogCaptureFixture
) -> None:
    folder.announce(WORKER)
    workers = folder._own / "workers"
    (workers / "odd.json").write_text('{"presence_id": 7}')
    (workers / "note.txt").write_text("by hand")
    assert folder.workers(now=NOW) == [WORKER]
    assert "odd.json" in caplog.text


def test_workers_are_no_runs_and_change_nothing_that_other_workers_look_at(
    folder: JsonFileStore,
) -> None:
    folder._glance(NOW)
    settled = folder._glance(NOW + 60)
    folder.announce(WORKER)
    assert folder._glance(NOW + 61) is settled
    assert folder.runs() == []


def test_a_ledger_that_was_deleted_is_not_made_again_by_its_worker(folder: JsonFileStore) -> None:
    shutil.rmtree(folder._folder)
    with pytest.raises(StoreError, match="deleted or replaced"):
        folder.announce(WORKER)
    assert not folder._own.exists()
