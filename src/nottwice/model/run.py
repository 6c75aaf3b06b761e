"""Records of runs, steps and the processes that hold them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from nottwice.model.failure import Failure


class RunStatus(enum.Enum):
    """Where a run stands. A RUNNING run whose holder is dead was interrupted."""

    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"


class StepStatus(enum.Enum):
    """The double-ended marks of a step (D6)."""

    IN_PROGRESS = "in_progress"
    DONE = "done"
    FAILED = "failed"


class Life(enum.Enum):
    """What can be proven about a holder."""

    ALIVE = "alive"
    DEAD = "dead"
    NOT_PROVEN = "not proven"


@dataclass(frozen=True, slots=True)
class HolderRecord:
    """A process that can hold runs, with what proves its life or death."""

    holder_id: str
    host: str
    machine_id: str
    boot_id: str
    pid_namespace: str
    pid: int
    pid_started: str
    since: float

    def describe(self) -> str:
        return f"pid {self.pid} on {self.host}"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run. ``epoch`` grows with every claim and fences overtaken holders."""

    workflow_id: str
    status: RunStatus
    epoch: int
    holder_id: str | None
    created_at: float
    updated_at: float
    claimed_at: float | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One visit of one step."""

    workflow_id: str
    node_id: str
    checkpoint_id: str
    status: StepStatus
    ordinal: int
    started_at: float
    finished_at: float | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Fence:
    """What a holder shows with every write."""

    holder_id: str
    epoch: int
