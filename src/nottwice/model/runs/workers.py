"""Which workers does a ledger know, and has it heard from them lately?

A worker announces itself when it starts, repeats that at every heartbeat, and removes its record
when it stops. These records only inform: nottwice decides nothing by them. Promise kept here: P380.
"""

from __future__ import annotations

import enum

from nottwice.model.data.records import frozen_record
from nottwice.model.run import Life

HEARTBEAT_SECONDS = 10.0
SILENT_SECONDS = 3 * HEARTBEAT_SECONDS
FORGOTTEN_SECONDS = 86_400.0
"""How long a silent worker that is not proven dead stays on record."""


class WorkerState(enum.Enum):
    """What is known about a worker."""

    ALIVE = "alive"
    SILENT = "silent"
    """It missed several heartbeats and is not proven dead: stopped, stuck or cut off."""
    DEAD = "dead"


@frozen_record(frozen=True, slots=True)
class WorkerRecord:
    """One worker of a process."""

    presence_id: str
    """One for each time that a worker is started: a process may have several workers."""
    holder_id: str
    graphs: tuple[str, ...]
    """The ids of the graphs that it has the code for."""
    concurrency: int
    started_at: float
    seen_at: float
    """When it was last heard from."""

    def has_code_for(self, graph_id: str) -> bool:
        """Whether it takes runs of a graph: of its own versions, and of other patches of them."""
        line = graph_id.rpartition(".")[0]
        return any(mine.rpartition(".")[0] == line for mine in self.graphs)

    def state(self, life: Life, *, now: float) -> WorkerState:
        """What is known about it. ``life``: what is proven about its process."""
        if life is Life.DEAD:
            return WorkerState.DEAD
        # A clock may be set back, so a heartbeat in the future is no better than an old one.
        is_silent = abs(now - self.seen_at) > SILENT_SECONDS
        return WorkerState.SILENT if is_silent else WorkerState.ALIVE

    def is_over(self, life: Life, *, now: float) -> bool:
        """Whether its record can be removed, because the worker did not come back to do it."""
        match self.state(life, now=now):
            case WorkerState.DEAD:
                return True
            case WorkerState.SILENT:
                return abs(now - self.seen_at) > FORGOTTEN_SECONDS
            case WorkerState.ALIVE:
                return False
