"""How much work waits for workers? The signal by which a fleet grows and shrinks (P313)."""

from __future__ import annotations

from typing import Annotated

from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.model.run import Life
from nottwice.store.rules import is_run_of
from nottwice.views.shape import LEDGER

MOST_COUNTED = 10_000


@frozen_record(frozen=True, slots=True, kw_only=True)
class ReadyGraph:
    """The runs of one version of a graph that a worker could pick up now."""

    graph: Annotated[str, "name@version"]
    ready: Annotated[int, "how many of its runs are ready"]
    oldest_seconds: Annotated[float, "how long the first of them has been ready"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class ReadyRuns:
    """How many runs wait for a worker, and how long the first has waited."""

    ledger: Annotated[str, LEDGER]
    ready: Annotated[
        int,
        f"how many runs a worker could pick up now; counting ends at {MOST_COUNTED} new and "
        "as many started ones of each graph",
    ]
    oldest_seconds: Annotated[
        float, "how long the first of them has been ready; 0 if there is none"
    ]
    abandoned: Annotated[int, "how many runs are held by a process that is gone; not in ready"]
    graphs: Annotated[tuple[ReadyGraph, ...], "the same by graph; see ready graph"]


def count_ready(ledger: Ledger, *, graph: str | None = None) -> ReadyRuns:
    """Count what is ready, of all graphs or of one, by its name or its id."""
    store, now = ledger.store, ledger.clock.now()
    found = [
        ReadyGraph(graph=one.graph_id, ready=one.runs, oldest_seconds=max(0.0, now - one.oldest_at))
        for one in store.count_ready(now=now, limit=MOST_COUNTED)
        if graph is None or is_run_of(one.graph_id, graph)
    ]
    gone = [holder_id for holder_id, life in store.lives().items() if life is not Life.ALIVE]
    left = [run for holder_id in gone for run in store.runs_held_by(holder_id)]
    open_ones = [run for run in left if not run.status.is_final and run.origin is None]
    return ReadyRuns(
        ledger=ledger.location,
        ready=sum(one.ready for one in found),
        oldest_seconds=max((one.oldest_seconds for one in found), default=0.0),
        abandoned=sum(graph is None or is_run_of(run.graph_id, graph) for run in open_ones),
        graphs=tuple(found),
    )
