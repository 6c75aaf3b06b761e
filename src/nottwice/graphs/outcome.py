"""How far did a run get, and what is it waiting for?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Generic, Literal, TypeVar, cast

from nottwice.model.call import child_node
from nottwice.model.data.records import frozen_record
from nottwice.model.failure import Failure
from nottwice.model.graphs.graph import GraphDefinition
from nottwice.model.graphs.position import around
from nottwice.model.review import Review
from nottwice.model.run import LastVisit, RunRecord, StepRecord, StepStatus, Wait
from nottwice.model.runs.places import was_left

S = TypeVar("S")
_BRANCH = re.compile(r"^/\[\d+\]/")
Status = Literal["queued", "running", "waiting", "completed", "failed", "aborted", "removed"]
"""What a run can be; the values of ``RunStatus``."""


def status_text(run: RunRecord) -> Status:
    """The status of a run, in the word that programs compare with."""
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
        """Whether the run has ended."""
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


def marks(
    graph: GraphDefinition, visited: list[LastVisit], *, bound: str | None = None
) -> Iterator[NodeMark]:
    """Yield every node with its status. Nodes without a visit are pending.

    After a migration, finished visits still count, and visits that the migration left do not.
    """
    last: dict[str, StepRecord] = {}
    visits: Counter[str] = Counter()
    for visit in visited:
        # The node id of a branch starts with its index.
        where = _BRANCH.sub("", visit.step.node_id)
        left = was_left(visit.step, bound)
        if not left:
            last[where] = visit.step
        visits[where] += visit.visits - left
    for node in graph.nodes:
        where = child_node(around(node, None), node.step)
        step = last.get(where)
        status = step.status if step is not None else StepStatus.PENDING
        error = step.failure.message if step is not None and step.failure else None
        yield NodeMark(node.name, status.value, visits[where], error)
