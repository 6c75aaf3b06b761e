"""A store as a user would write it: a folder with a file for each run, in sixty lines.

`docs/guides/write-a-store.md` shows it. `own_claims.py` runs the suite against it, and
`test_registry.py` installs it as a package of its own and names it in a command.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from nottwice.errors import KeyMissing, NoLedger
from nottwice.model.run import HolderRecord, Life
from nottwice.store import rules
from nottwice.store.base import StoreBase
from nottwice.store.files import disk, document
from nottwice.store.files.document import RunFile
from nottwice.store.interface import Commit
from nottwice.store.machine import locks
from nottwice.store.rules import MemoryData
from nottwice.store.tables import HOLDERS

WRITING = 1 << 62


class FolderStore(StoreBase):
    """A writer takes the lock, reads all runs, and replaces the file of one."""

    reads_can_block = False

    def __init__(self, folder: Path, *, now: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.location = str(folder)
        self._folder = folder
        self._lock = locks.hold(folder / "holders.lock", now=now)

    def commit(self, commit: Commit) -> None:
        stored = document.as_stored(commit)
        self._lock.exclusively(WRITING, lambda: self._write(stored), wait_seconds=30.0)

    def _write(self, commit: Commit) -> None:
        whole = self.all_records()
        rules.check(whole, commit)
        if commit.graph is not None:
            # The one that was there first counts.
            known = whole.graphs.get(commit.graph.graph_id, commit.graph)
            commit = replace(commit, graph=known)
        data = self.records(commit.workflow_id).copy()
        rules.apply(data, commit)
        path = self._folder / (disk.name_of(commit.workflow_id) + disk.RUN)
        disk.replace(path, *document.write(RunFile(commit.workflow_id, data)))

    def records(self, workflow_id: str) -> MemoryData:
        return self._read(self._folder / (disk.name_of(workflow_id) + disk.RUN))

    def all_records(self) -> MemoryData:
        whole = MemoryData()
        for name in disk.names_in(self._folder):
            whole.update(self._read(self._folder / (name + disk.RUN)))
        return whole

    def _read(self, path: Path) -> MemoryData:
        content = disk.read(path)
        return MemoryData() if content is None else document.read(content, where=str(path)).data

    def holder(self) -> HolderRecord:
        record = self._lock.record
        if self.load_holder(record.holder_id) is None:
            line = document.plain_line(HOLDERS, record)
            self._lock.exclusively(WRITING, lambda: self._add(line), wait_seconds=30.0)
        return record

    def _add(self, line: bytes) -> None:
        disk.append(self._folder / "holders.jsonl", line)

    def load_holder(self, holder_id: str) -> HolderRecord | None:
        path = self._folder / "holders.jsonl"
        lines = disk.lines_of(disk.read(path) or b"")
        found = (document.read_holder(line, where=str(path)) for line in lines)
        return next((record for record in found if record.holder_id == holder_id), None)

    def life_of(self, holder_id: str) -> Life:
        return self._lock.life_of(self.load_holder(holder_id))

    def close(self) -> None:
        pass


def open_folder(url: str, *, now: float, create: bool, seals: Any) -> FolderStore:
    """What an entry point names: ``folder:///some/where``."""
    folder = Path(url.partition("://")[2])
    if seals is not None:
        raise KeyMissing(f"{url} cannot be sealed. Nothing was opened. Unset NOTTWICE_KEY.")
    if not create and not folder.is_dir():
        raise NoLedger(f"There is no ledger at {folder}. Nothing was created.")
    return FolderStore(folder, now=now)
