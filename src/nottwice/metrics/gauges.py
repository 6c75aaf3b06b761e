"""What is the state of the ledger, in figures for a dashboard?

They are read from the ledger, so every process that reports them reports the same. Let exactly one
do it. Promise kept here: P342.
"""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial

from nottwice.guard.ledger import Ledger
from nottwice.metrics import declared
from nottwice.metrics.measuring import Measured
from nottwice.model.review import ReviewKind
from nottwice.model.run import RunRecord, WaitKind
from nottwice.reviews.queue import believed
from nottwice.store.interface import Store
from nottwice.views.ledger.workers import counts_of, states_of
from nottwice.views.runs import STATES, Holders, count_states

FRESH_SECONDS = 5.0
"""For how long what was read is reported again, so that eager readers do not load the database."""


class Gauges:
    """The gauges of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._guard = ledger, threading.Lock()
        self._read_at, self._known = 0.0, tuple[Measured, ...]()

    def read(self) -> tuple[Measured, ...]:
        """Return the state of the ledger, at most a few seconds old."""
        now = self._ledger.clock.now()
        with self._guard:
            # A clock may be set back.
            if not self._known or not 0.0 <= now - self._read_at < FRESH_SECONDS:
                self._known = read_gauges(self._ledger)
                self._read_at = now
            return self._known


def read_gauges(ledger: Ledger) -> tuple[Measured, ...]:
    """Read how a ledger is now. Every kind and every state is there, also those with 0."""
    store, now = ledger.store, ledger.clock.now()
    number: Counter[ReviewKind] = Counter()
    oldest: dict[ReviewKind, float] = {}
    for review in store.open_reviews():
        if review.decision is None:
            number[review.kind] += 1
            oldest[review.kind] = max(oldest.get(review.kind, 0.0), now - review.opened_at)
    found = []
    for kind in ReviewKind:
        labels: dict[str, str | bool] = {declared.REVIEW_KIND: kind.value}
        found.append(Measured(declared.REVIEWS_OPEN, number[kind], labels))
        found.append(Measured(declared.OLDEST_REVIEW, oldest.get(kind, 0.0), labels))
    states = count_states(store.count_runs(), Holders(store))
    for state in STATES:
        found.append(Measured(declared.RUNS, states[state], {declared.RUN_STATE: state}))
    found.append(Measured(declared.OLDEST_READY, _oldest_ready(store, now), {}))
    for name, workers in counts_of(states_of(ledger)).items():
        found.append(Measured(declared.WORKERS, workers, {declared.WORKER_STATE: name}))
    return tuple(found)


def _oldest_ready(store: Store, now: float) -> float:
    """How long the run has waited for a worker that could continue longest."""
    waited = [0.0]
    for begun in (True, False):
        for run in store.ready_runs(begun=begun, now=now, limit=1):
            waited.append(now - _ready_since(store, run, now))
    return max(waited)


def _ready_since(store: Store, run: RunRecord, now: float) -> float:
    """When a run could continue: when the first of what it waits for had arrived."""
    arrived: list[float] = []
    for wait in run.waits:
        if wait.until is not None and wait.until <= now:
            arrived.append(wait.until)
        if wait.kind is WaitKind.REVIEW:
            review = believed(partial(store.load_review, wait.subject), None)
            if review is not None and review.decision is not None:
                arrived.append(review.decision.at)
        elif wait.kind is WaitKind.EVENT:
            sent = store.events(run.workflow_id, wait.subject)
            arrived += [one.sent_at for one in sent if one.received_by is None]
        elif wait.kind is WaitKind.CHILD:
            child = store.load_run(wait.subject)
            if child is not None and child.status.is_final:
                arrived.append(child.updated_at)
    # What arrived before the run was left is what it was left with.
    return max(run.updated_at, min(arrived, default=run.updated_at))
