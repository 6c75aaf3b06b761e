"""What does a store do with the records of workers?

They only inform. A store that keeps none is correct, and shows no worker that holds no run.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from nottwice.model.runs.workers import WorkerRecord


class WorkerStore(Protocol):
    """The part of a store that keeps the records of workers (P380)."""

    def announce(self, worker: WorkerRecord) -> None:
        """Record a worker, or that it was heard from again. Durable: when it returns.

        A store that has a clock of its own, such as that of a server, records its own time instead
        of ``seen_at``.
        """

    def workers(self, *, now: float) -> list[WorkerRecord]:
        """All workers on record, in the order in which they started.

        ``now``: the time of the caller. ``seen_at`` is as long before it as the worker was last
        heard from, whatever clock the store has.
        """

    def forget_workers(self, ids: Collection[str]) -> None:
        """Remove the records of these workers, if they are there. Durable: when it returns."""
