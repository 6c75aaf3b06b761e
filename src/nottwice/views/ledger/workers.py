"""Which workers are there, are they alive, and what are they doing?

A worker is known by its record, so it is listed also while it waits for work. A worker that was
killed is listed until the next one starts. Promise kept here: P380.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.model.runs.workers import WorkerRecord, WorkerState
from nottwice.views.runs import Holders
from nottwice.views.shape import LEDGER, Timestamp, one_of

MOST_WORKERS = 100
MOST_HELD = 10
_ORDER = tuple(WorkerState)
StatesOfWorkers = list[tuple[WorkerRecord, WorkerState]]


@frozen_record(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """A worker."""

    process: Annotated[str, "its process"]
    state: Annotated[WorkerState, one_of(WorkerState)]
    started_at: Annotated[Timestamp, "when it started"]
    seen_at: Annotated[Timestamp, "when it was last heard from"]
    graphs: Annotated[tuple[str, ...], "the graphs that it has the code for"]
    concurrency: Annotated[int, "how many runs it advances in parallel"]
    held: Annotated[int, "how many runs its process holds, or held when it died; 0: it is idle"]
    runs: Annotated[tuple[str, ...], f"the ids of at most {MOST_HELD} of them"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class WorkerList:
    """The workers of a ledger."""

    ledger: Annotated[str, LEDGER]
    counts: Annotated[dict[str, int], "how many workers are in each state"]
    workers: Annotated[tuple[WorkerView, ...], "those alive first; see known worker"]
    omitted: Annotated[int, "how many more there are"]
    now: float


def list_workers(ledger: Ledger) -> WorkerList:
    """The workers on record, those alive first, each as it is now."""
    holders, now = Holders(ledger.store), ledger.clock.now()
    found = states_of(ledger, holders)
    found.sort(key=lambda one: _ORDER.index(one[1]))
    shown = found[:MOST_WORKERS]
    return WorkerList(
        ledger=ledger.location,
        counts=counts_of(found),
        workers=tuple(_view(ledger, holders, worker, state) for worker, state in shown),
        omitted=len(found) - len(shown),
        now=now,
    )


def states_of(ledger: Ledger, holders: Holders | None = None) -> StatesOfWorkers:
    """The workers on record, in the order in which they started, each with its state."""
    store, now = ledger.store, ledger.clock.now()
    holders = Holders(store) if holders is None else holders
    return [
        (worker, worker.state(holders.life(worker.holder_id), now=now))
        for worker in store.workers(now=now)
    ]


def counts_of(found: StatesOfWorkers) -> dict[str, int]:
    """How many workers are in each state, also if there are none."""
    counted = Counter(state for _, state in found)
    return {state.value: counted[state] for state in WorkerState}


def _view(ledger: Ledger, holders: Holders, worker: WorkerRecord, state: WorkerState) -> WorkerView:
    held = [run.workflow_id for run in ledger.store.runs_held_by(worker.holder_id)]
    return WorkerView(
        process=holders.describe(worker.holder_id),
        state=state,
        started_at=Timestamp(worker.started_at),
        seen_at=Timestamp(worker.seen_at),
        graphs=worker.graphs,
        concurrency=worker.concurrency,
        held=len(held),
        runs=tuple(held[:MOST_HELD]),
    )
