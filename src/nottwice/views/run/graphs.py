"""How far did a run of a graph come: its nodes, its checkpoints, the events it was told?

Everything is read from the ledger; none of the user's code is needed.
"""

from __future__ import annotations

from typing import Annotated, Any

from nottwice.engine.upkeep import history as versions
from nottwice.graphs.outcome import NodeMark, marks
from nottwice.graphs.recorded import recorded_definition
from nottwice.guard.ledger import Ledger
from nottwice.model import values
from nottwice.model.call import ROOT_NODE
from nottwice.model.data.records import frozen_record
from nottwice.model.run import EventRecord, RunRecord, RunStatus
from nottwice.model.runs.places import shown_node
from nottwice.model.saving.changes import Change
from nottwice.store.interface import Store
from nottwice.views.runs import Holders, RunView, load_run, run_view
from nottwice.views.shape import LEDGER, Timestamp, moment


@frozen_record(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node of a run of a graph."""

    node: Annotated[str, "its name"]
    status: Annotated[str, "pending, in_progress, done or failed: that of the last visit"]
    visits: Annotated[int, "how often it was visited"]
    error: Annotated[str | None, "the error of the last visit, or null"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class CheckpointView:
    """One saved version of the state of a run."""

    version: Annotated[int, "its number, from 0 on"]
    node: Annotated[
        str,
        "the node that had just ended; / for the input; where branches met, the next one; "
        "/name@version for a migration to that version",
    ]
    at: Annotated[Timestamp, "when it was saved"]
    after: str
    """What had just ended, in words."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class ToldView:
    """One event that a run was told."""

    event_id: Annotated[str, "its own id; the same one sent twice is one event"]
    name: Annotated[str, "what `nt.receive` asks for"]
    data: Annotated[Any, "what it says"]
    sent_at: Annotated[Timestamp, "when it was sent"]
    sent_by: Annotated[str, "who sent it"]
    received_by: Annotated[str | None, "the id of the call that took it, or null"]
    received_at: Annotated[Timestamp | None, "when it was taken, or null"]
    json: str
    """What it says, as it is recorded."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class ChangeView:
    """One difference between two states."""

    path: Annotated[str, "where in the state"]
    kind: Annotated[str, "added, removed or changed"]
    before: Annotated[Any, "what was there; null if it was added"]
    after: Annotated[Any, "what is there; null if it was removed"]
    text: str


@frozen_record(frozen=True, slots=True, kw_only=True)
class History:
    """The checkpoints of one run."""

    ledger: Annotated[str, LEDGER]
    run_id: Annotated[str, "the run"]
    checkpoints: Annotated[
        tuple[CheckpointView, ...], "its saved versions, oldest first; see checkpoint"
    ]


@frozen_record(frozen=True, slots=True, kw_only=True)
class StateAt:
    """The state of one checkpoint."""

    ledger: Annotated[str, LEDGER]
    run_id: Annotated[str, "the run"]
    version: Annotated[int, "the version"]
    node: Annotated[str | None, "the node that runs next; null if the run was finished"]
    state: Annotated[Any, "the state, as plain data"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class StateDifference:
    """Two checkpoints compared."""

    ledger: Annotated[str, LEDGER]
    run_id: Annotated[str, "the run"]
    from_: Annotated[int, "the earlier version"]
    to: Annotated[int, "the later version"]
    changes: Annotated[tuple[ChangeView, ...], "what is different in the state; see change"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class GraphProgress:
    """How far a run of a graph came."""

    run: RunView
    version: int | None
    """The number of its last checkpoint; None if it has none yet."""
    state: Any
    """As of that checkpoint, as plain data."""
    nodes: tuple[NodeView, ...]


def progress_of(ledger: Ledger, run_id: str) -> GraphProgress:
    """How far a run of a graph came."""
    store = ledger.store
    run = load_run(store, run_id)
    saved = store.checkpoints(run_id)
    if saved:
        state = versions.load_whole(store, run_id)["state"]
    else:
        state = None if run.input_json is None else values.decode_object(run.input_json)
    return GraphProgress(
        run=run_view(run, Holders(store)),
        version=saved[-1].version if saved else None,
        state=state,
        nodes=nodes_of(store, run),
    )


def history_of(ledger: Ledger, run_id: str) -> History:
    """The checkpoints of a run, oldest first."""
    found = checkpoints_of(ledger.store, run_id)
    return History(ledger=ledger.location, run_id=run_id, checkpoints=found)


def state_at(ledger: Ledger, run_id: str, version: int) -> StateAt:
    """The state of one checkpoint, and the node that runs next."""
    image = versions.load_whole(ledger.store, run_id, version)
    return StateAt(
        ledger=ledger.location,
        run_id=run_id,
        version=version,
        node=image["position"]["node"],
        state=image["state"],
    )


def difference(ledger: Ledger, run_id: str, one: int, other: int) -> StateDifference:
    """What is different in checkpoint ``other``, seen from ``one``."""
    found = versions.compare(ledger.store, run_id, one, other)
    return StateDifference(
        ledger=ledger.location,
        run_id=run_id,
        from_=one,
        to=other,
        changes=tuple(map(change_view, found)),
    )


def nodes_of(store: Store, run: RunRecord) -> tuple[NodeView, ...]:
    """The nodes of the graph of a run; none if it is not a run of a graph, or if it was removed.

    The visits of a removed run are gone, so its nodes would look as if they had never run.
    """
    graph = None if run.graph_id is None else store.load_graph(run.graph_id)
    if graph is None:
        return ()
    visited = store.last_visits(run.workflow_id)
    if run.status is RunStatus.REMOVED and not visited:
        return ()
    found = marks(recorded_definition(graph), visited, bound=run.graph_id)
    return tuple(map(_node_view, found))


def checkpoints_of(store: Store, run_id: str) -> tuple[CheckpointView, ...]:
    """The saved versions of a run, oldest first; none if it never saved one."""
    found = versions.history(store, run_id)
    before = [None, *found]
    return tuple(
        CheckpointView(
            version=one.version,
            node=one.node_id,
            at=Timestamp(one.at),
            after=_after_text(one, earlier),
        )
        for one, earlier in zip(found, before, strict=False)
    )


def told_view(event: EventRecord) -> ToldView:
    """An event as it is shown."""
    return ToldView(
        event_id=event.event_id,
        name=event.name,
        data=values.decode(event.json),
        sent_at=Timestamp(event.sent_at),
        sent_by=event.sent_by,
        received_by=event.received_by,
        received_at=moment(event.received_at),
        json=event.json,
    )


def change_view(change: Change) -> ChangeView:
    """A difference as it is shown."""
    return ChangeView(
        path=change.path,
        kind=change.kind.value,
        before=change.before,
        after=change.after,
        text=str(change),
    )


def _node_view(mark: NodeMark) -> NodeView:
    return NodeView(node=mark.node, status=mark.status, visits=mark.visit, error=mark.error)


def _after_text(version: versions.SavedVersion, before: versions.SavedVersion | None) -> str:
    """What had just ended when a version was saved."""
    node_id = version.node_id
    if node_id == ROOT_NODE:
        return "the input"
    if node_id.startswith("/["):
        return shown_node(node_id)
    if node_id.startswith("/"):
        return f"the migration to {node_id[1:]}"
    if before is not None and before.node_id.startswith("/["):
        # The node itself had not begun, and has a version of its own when it ends.
        return f"the branches before {node_id}"
    return node_id
