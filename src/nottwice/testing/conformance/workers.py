"""Does a store keep the records of workers until they are forgotten?

It need not keep any: they only inform. Then it shows none, and these claims ask for nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nottwice.model.runs.workers import SILENT_SECONDS, WorkerRecord
from nottwice.store.base import StoreBase
from nottwice.store.interface import Store
from nottwice.testing.conformance.bench import Bench, expect
from nottwice.testing.conformance.samples import NOW

GRAPHS = ("refund@1.0.0", "größer als <ein> Graph@2.10.3")


def _kept(store: Store, *workers: WorkerRecord) -> list[WorkerRecord]:
    """What a store must show of these."""
    keeps_none = getattr(store.announce, "__func__", None) is StoreBase.announce
    return [] if keeps_none else list(workers)


def _timeless(workers: Sequence[WorkerRecord]) -> list[WorkerRecord]:
    """Workers without when they were seen, which a server says by a clock of its own."""
    return [replace(worker, seen_at=NOW) for worker in workers]


class WorkerChecks(Bench):
    """Workers announce themselves, are heard from again, and are forgotten."""

    def test_workers_are_on_record_until_they_are_forgotten(self) -> None:
        store = self.open()
        holder_id = store.holder().holder_id
        first = WorkerRecord("b", holder_id, GRAPHS, 8, NOW - 60, NOW)
        second = WorkerRecord("a/..", holder_id, (), 1, NOW - 30, NOW)
        for worker in (second, first):
            store.announce(worker)
        for reader in (store, self.open()):
            found = _timeless(reader.workers(now=NOW))
            expect(found, _kept(store, first, second), "The workers, oldest first")
        store.forget_workers(["b", "none"])
        store.forget_workers(["b"])
        for reader in (store, self.open()):
            found = _timeless(reader.workers(now=NOW))
            expect(found, _kept(store, second), "The worker that was not forgotten")

    def test_a_worker_that_is_heard_from_again_is_the_same_worker(self) -> None:
        store = self.open()
        worker = WorkerRecord("w", store.holder().holder_id, GRAPHS, 8, NOW, NOW)
        for number in range(3):
            now = NOW + 3600.0 * number
            store.announce(replace(worker, seen_at=now))
            for reader in (store, self.open()):
                found = reader.workers(now=now)
                expect(_timeless(found), _kept(store, worker), "The worker after some heartbeats")
                late = [one for one in found if abs(now - one.seen_at) >= SILENT_SECONDS]
                expect(late, [], "The workers that were not seen just now")
