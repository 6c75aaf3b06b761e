"""A ledger in memory for unit tests and dry runs, with the semantics of the durable stores.

It survives only a ``close()``: a second MemoryStore on the same data plays the next process, and
the first one, once closed, plays a dead holder.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Collection
from operator import attrgetter

from nottwice.model.run import HolderRecord, Life
from nottwice.model.runs.workers import WorkerRecord
from nottwice.store.base import StoreBase
from nottwice.store.interface import Commit
from nottwice.store.rules import MemoryData as MemoryData
from nottwice.store.rules import apply, check


class MemoryStore(StoreBase):
    """A ledger that lives as long as its data."""

    location = ":memory:"

    # There is nothing to wait for.
    reads_can_block = False

    def __init__(self, data: MemoryData | None = None, *, now: float = 0.0) -> None:
        self.data = data or MemoryData()
        self._holder = HolderRecord(
            holder_id=uuid.uuid4().hex,
            host=os.uname().nodename,
            machine_id="",
            boot_id="",
            pid_namespace="",
            pid=os.getpid(),
            pid_started="",
            since=now,
        )

    def commit(self, commit: Commit) -> None:
        with self.data.guard:
            check(self.data, commit)
            apply(self.data, commit)

    def holder(self) -> HolderRecord:
        self.data.holders[self._holder.holder_id] = self._holder
        self.data.alive.add(self._holder.holder_id)
        return self._holder

    def load_holder(self, holder_id: str) -> HolderRecord | None:
        return self.data.holders.get(holder_id)

    def life_of(self, holder_id: str) -> Life:
        if holder_id not in self.data.holders:
            return Life.NOT_PROVEN
        return Life.ALIVE if holder_id in self.data.alive else Life.DEAD

    def records(self, workflow_id: str) -> MemoryData:
        return self.data

    def all_records(self) -> MemoryData:
        return self.data

    def announce(self, worker: WorkerRecord) -> None:
        with self.data.guard:
            self.data.workers[worker.presence_id] = worker

    def workers(self, *, now: float) -> list[WorkerRecord]:
        with self.data.guard:
            return sorted(self.data.workers.values(), key=attrgetter("started_at", "presence_id"))

    def forget_workers(self, ids: Collection[str]) -> None:
        with self.data.guard:
            for presence_id in ids:
                self.data.workers.pop(presence_id, None)

    def close(self) -> None:
        """Mark this holder as dead. The data remains usable by other stores."""
        self.data.alive.discard(self._holder.holder_id)
