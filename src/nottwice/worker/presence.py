"""How does an operator know that a worker is there? The worker says so in the ledger.

A worker that waits for work holds no run, so nothing else shows it. Its record is one small row,
which it writes again every ten seconds, its heartbeat, and removes when it stops. The record only
informs. If it cannot be written, the worker logs that, keeps working, and tries again at the next
heartbeat. A worker that starts removes the records of dead workers. Promise kept here: P380.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence

from nottwice.guard.ledger import Ledger
from nottwice.model.runs.workers import HEARTBEAT_SECONDS, WorkerRecord

log = logging.getLogger("nottwice")


class Presence:
    """The record of one worker."""

    def __init__(self, ledger: Ledger, graphs: Sequence[str], *, concurrency: int) -> None:
        self._ledger = ledger
        self._graphs, self._concurrency = tuple(sorted(graphs)), concurrency
        self._presence_id = uuid.uuid4().hex
        self._started_at = ledger.clock.now()
        self._tried_at: float | None = None
        self._is_announced = False
        self._is_failing = False

    def renew(self) -> None:
        """Say that the worker is there, unless it did so a moment ago. Never raises."""
        now, last = self._ledger.clock.now(), self._tried_at
        # A clock may be set back.
        if last is not None and 0 <= now - last < HEARTBEAT_SECONDS:
            return
        self._tried_at = now
        self._try(
            lambda: self._announce(now), "operators cannot see this worker, which keeps working"
        )

    def leave(self) -> None:
        """Remove the record, because the worker stops. Never raises."""
        if self._is_announced:
            forget = self._ledger.store.forget_workers
            self._try(lambda: forget([self._presence_id]), "operators may still see this worker")

    def _announce(self, now: float) -> None:
        store = self._ledger.store
        # This also makes the process known, so that its life or death can be proven.
        holder_id = store.holder().holder_id
        if not self._is_announced:
            self._forget_others(now)
        store.announce(
            WorkerRecord(
                presence_id=self._presence_id,
                holder_id=holder_id,
                graphs=self._graphs,
                concurrency=self._concurrency,
                started_at=self._started_at,
                seen_at=now,
            )
        )
        self._is_announced = True

    def _forget_others(self, now: float) -> None:
        """Remove what workers left that could not do so themselves."""
        store = self._ledger.store
        over = [
            worker.presence_id
            for worker in store.workers(now=now)
            if worker.is_over(store.life_of(worker.holder_id), now=now)
        ]
        if over:
            store.forget_workers(over)

    def _try(self, write: Callable[[], None], trouble: str) -> None:
        try:
            write()
        except Exception as error:
            # Said once, not at every heartbeat: a missing right may stay missing for weeks.
            if not self._is_failing:
                log.warning("%s: %s", trouble, error)
            self._is_failing = True
        else:
            self._is_failing = False
