"""Where are the workers of a ledger of JSON files? One small file each, until the worker stops.

A file that cannot be read is left out: these files only inform, and a reader may meet one that was
written by hand.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from operator import attrgetter
from pathlib import Path

from nottwice.errors import LedgerCorrupt
from nottwice.model.runs.workers import WorkerRecord
from nottwice.store.files import disk, document
from nottwice.store.tables import WORKERS

log = logging.getLogger("nottwice")


class WorkerFiles:
    """The files of the workers, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, worker: WorkerRecord) -> None:
        """Write the file of a worker. Durable: when it returns."""
        disk.make_folder(self._folder)
        disk.replace(self._path(worker.presence_id), document.plain_line(WORKERS, worker))

    def read_all(self) -> list[WorkerRecord]:
        """All workers, in the order in which they started."""
        found = []
        for path in self._folder.glob(f"*{disk.RUN}"):
            # The worker may stop at this moment.
            content = disk.read(path)
            if content is None:
                continue
            try:
                found.append(document.read_worker(content, where=str(path)))
            except LedgerCorrupt as error:
                log.warning("%s It is left out.", error)
        return sorted(found, key=attrgetter("started_at", "presence_id"))

    def remove(self, ids: Collection[str]) -> None:
        """Remove the files of these workers. Durable: when it returns."""
        for presence_id in ids:
            disk.remove(self._path(presence_id))
        if self._folder.is_dir():
            disk.sync_folder(self._folder)

    def _path(self, presence_id: str) -> Path:
        return self._folder / (disk.name_of(presence_id) + disk.RUN)
