"""Which processes hold runs, and are they alive?

A process is known by the runs that it holds, or held when it died. A worker that waits for work
holds none and is not listed here (workers.py).
"""

from __future__ import annotations

import itertools
from typing import Annotated

from nottwice.guard.upkeep.on_record import runs_in_pages
from nottwice.model.data.records import frozen_record
from nottwice.model.run import Life, RunStatus
from nottwice.store.interface import Store
from nottwice.views.runs import Holders
from nottwice.views.shape import Timestamp, moment

MOST_HOLDERS = 50
MOST_HELD = 10
MOST_PLAIN = 500
"""How many running runs are read to find those that are not of a graph, last changed first."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class HolderView:
    """A process that holds runs."""

    process: Annotated[str, "the process"]
    life: Annotated[Life, "alive, dead or not proven"]
    runs: Annotated[
        tuple[str, ...], f"the ids of {MOST_HELD} runs that it holds, or held when it died"
    ]
    since: Annotated[Timestamp | None, "when it began, or null if it is not known"]


def read_holders(store: Store) -> tuple[HolderView, ...]:
    """The processes that hold runs, those of graphs first."""
    holders, found = Holders(store), []
    for holder_id, runs in itertools.islice(_held(store).items(), MOST_HOLDERS):
        record = holders.record(holder_id)
        found.append(
            HolderView(
                process=holders.describe(holder_id),
                life=holders.life(holder_id),
                runs=tuple(runs[:MOST_HELD]),
                since=moment(None if record is None else record.since),
            )
        )
    return tuple(found)


def count_alive(store: Store) -> int:
    """How many living processes hold runs."""
    holders = Holders(store)
    return sum(holders.life(holder_id) is Life.ALIVE for holder_id in _held(store))


def _held(store: Store) -> dict[str, list[str]]:
    """The holders, each with the ids of its runs."""
    held = {
        holder_id: [run.workflow_id for run in store.runs_held_by(holder_id)]
        for holder_id in store.holders_of_runs()
    }
    running = runs_in_pages(store, status=RunStatus.RUNNING, queued=False)
    for run in itertools.islice(running, MOST_PLAIN):
        if run.graph_id is None and run.holder_id is not None:
            held.setdefault(run.holder_id, []).append(run.workflow_id)
    return held
