"""How far did a run get, and what is it waiting for?"""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar, cast

from nottwice.model.failure import Failure
from nottwice.model.records import frozen_record
from nottwice.model.review import Review
from nottwice.model.run import RunRecord, Wait

S = TypeVar("S")
Status = Literal["queued", "running", "waiting", "completed", "failed", "aborted", "removed"]
"""What a run can be; the values of ``RunStatus``."""


def status_text(run: RunRecord) -> Status:
    """Where a run stands, in the word that programs compare with."""
    # A run of a graph is never idle: programs do not attach to it.
    return "queued" if run.is_queued else cast("Status", run.status.value)


@frozen_record(frozen=True, slots=True)
class NodeMark:
    """The status of one node of a run: pending, in_progress, done or failed (D6)."""

    node: str
    status: str
    visit: int
    error: str | None = None


@frozen_record(frozen=True, slots=True)
class Outcome(Generic[S]):
    """How far a run got. Every caller sees the same, however often it asks."""

    run_id: str
    graph: str
    """The graph that the run is bound to, ``name@version``."""
    status: Status
    """``queued``, ``running``, ``waiting``, ``completed``, ``failed``, ``aborted``; ``removed``
    if retention has removed what it held."""
    state: S
    """The state as of the last checkpoint, in its declared type. A plain dict, as it is stored, if
    the type of the deployed version cannot hold it."""
    version: int
    """The number of that checkpoint."""
    reviews: tuple[Review, ...] = ()
    """What a person must decide, in this run or its child runs."""
    waits: tuple[Wait, ...] = ()
    """Everything that the run waits for: reviews, timers, events, child runs."""
    failure: Failure | None = None
    nodes: tuple[NodeMark, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether the run is over."""
        return self.status in ("completed", "aborted")

    def __repr__(self) -> str:
        waits = ", ".join(f"{wait.kind.value} {wait.subject}" for wait in self.waits)
        inside = f" for {waits}" if waits else ""
        return f"<Outcome of {self.run_id!r}: {self.status}{inside}, {self.graph}>"


def plain_outcome(outcome: Outcome[Any], state: Any) -> dict[str, Any]:
    """Return an outcome as plain data, for the ledger of a parent run and for scripts."""
    return {
        "run_id": outcome.run_id,
        "graph": outcome.graph,
        "status": outcome.status,
        "state": state,
        "version": outcome.version,
        "failure": None if outcome.failure is None else outcome.failure.to_plain(),
    }
