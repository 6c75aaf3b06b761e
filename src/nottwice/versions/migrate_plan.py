"""What would moving a run to another version change, and may it be moved? (V4)

Only reads. A dry run reports this plan, and the run's holder writes it in one commit.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nottwice.errors import (
    InvalidGraph,
    LedgerCorrupt,
    MigrationRefused,
    NotPlainData,
    NottwiceError,
    UnmappedNode,
)
from nottwice.graphs.declare import Graph
from nottwice.graphs.recorded import recorded_definition
from nottwice.graphs.undeployed import position_of
from nottwice.model import values
from nottwice.model.data.records import frozen_record
from nottwice.model.failure import Failure, FailureClass
from nottwice.model.graphs.graph import GraphDefinition, split_graph_id
from nottwice.model.graphs.mapping import Move, OpenVisit, nodes_at, open_visits
from nottwice.model.graphs.position import Position
from nottwice.model.review import MIGRATE, AuditEntry
from nottwice.model.run import (
    CheckpointRecord,
    Fence,
    GraphRecord,
    RunRecord,
    RunStatus,
    StepRecord,
    StepStatus,
)
from nottwice.model.saving.changes import Change, changes
from nottwice.model.saving.checkpoint import save, saved_as
from nottwice.model.saving.image import load_image
from nottwice.store.interface import Commit, ReviewWrite, RunUpdate, Store
from nottwice.versions.migrate_hindrances import Hindrances, find_hindrances, find_repeats

Upgrade = Callable[[dict[str, Any]], Mapping[str, Any]]
OVER = (RunStatus.COMPLETED, RunStatus.ABORTED, RunStatus.REMOVED)


@frozen_record(frozen=True, slots=True, kw_only=True)
class MigrationOrder:
    """A migration request, for one run or for many."""

    to: Graph[Any]
    mapping: Mapping[str, str]
    by: str
    why: str
    upgrade: Upgrade | None = None
    restart_steps: bool = False
    repeats: frozenset[str] = frozenset()
    """Tools that may repeat effects that the run has already made."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class Migration:
    """The result of a migration, or what a dry run found."""

    run_id: str
    old: str | None
    """The version that the run was bound to, ``name@version``."""
    new: str
    outcome: str
    """``migrated``, ``would migrate`` (a dry run), ``already there`` or ``refused``."""
    nodes: tuple[tuple[str, str], ...] = ()
    """The nodes that the run was at, and the nodes where it resumes."""
    changes: tuple[Change, ...] = ()
    """What changes in its state."""
    begins_again: tuple[str, ...] = ()
    """What the new version waits for or asks again."""
    error: NottwiceError | None = None
    """Why it was refused."""


@frozen_record(frozen=True, slots=True)
class MigrationPlan:
    """A migration without objections: what would be written, and how to report it."""

    run: RunRecord
    order: MigrationOrder
    record: CheckpointRecord
    found: Hindrances
    left: tuple[StepRecord, ...]
    """The records of steps that were started and will never end (D6)."""
    told_as: Migration
    now: float

    def told(self, outcome: str) -> Migration:
        return replace(self.told_as, outcome=outcome)

    def commit(self, fence: Fence) -> Commit:
        """Return the one commit that writes everything."""
        run, order, now = self.run, self.order, self.now
        graph, by = order.to, f"the migration to {order.to.id}"
        closed = [ReviewWrite(one.closed(by, now=now), one.version) for one in self.found.closes]
        return Commit(
            workflow_id=run.workflow_id,
            fence=fence,
            # What it waited for was requested by code that it has left.
            run=RunUpdate(RunStatus.RUNNING, now, release=True, graph_id=graph.id),
            steps=self.left,
            reviews=tuple(closed),
            audit=(
                AuditEntry(run.workflow_id, now, order.by, MIGRATE, self._subject(), order.why),
            ),
            checkpoints=(self.record,),
            graph=GraphRecord(graph.id, graph.record_json, now),
        )

    def _subject(self) -> str:
        order = self.order
        facts = [f"{self.run.graph_id} to {order.to.id}"]
        facts += [f"{old}={new}" for old, new in sorted(order.mapping.items())]
        if order.upgrade is not None:
            facts.append(f"state by {getattr(order.upgrade, '__qualname__', 'a function')}")
        facts += [f"may repeat {tool}" for tool in sorted(order.repeats)]
        return ", ".join(facts)


def draw_up(store: Store, run: RunRecord, order: MigrationOrder, *, now: float) -> MigrationPlan:
    """Return everything that a migration changes. MigrationRefused if anything prevents it."""
    check_movable(run, order)
    bound, name = run.graph_id or "", run.workflow_id
    chain = store.checkpoint_chain(name)
    image = load_image(chain) if chain else _first_image(store, run)
    move = Move(
        _recorded(store, bound),
        order.to.definition(),
        Position.from_plain(image["position"]),
        order.mapping,
    )
    visits = open_visits(move.old, move.position)
    found = find_hindrances(store, run, bound, visits)
    found.forbid += find_repeats(store, run, move, order.to, order.repeats)
    steps = store.steps(name)
    position, state = _agreed(run, order, move, found, image["state"], steps)
    record, _ = save(
        saved_as(chain) if chain else None,
        workflow_id=name,
        node_id=f"/{order.to.id}",
        old=image if chain else None,
        new={"state": state, "position": position.to_plain()},
        now=now,
    )
    nodes = tuple((each, order.mapping[each]) for each in nodes_at(move.position))
    left = tuple(_left(steps, visits, order, bound, now))
    told_as = Migration(
        run_id=name,
        old=bound,
        new=order.to.id,
        outcome="",
        nodes=nodes,
        changes=tuple(changes(image["state"], state)),
        begins_again=tuple(found.begins_again),
    )
    return MigrationPlan(run, order, record, found, left, told_as, now)


def _first_image(store: Store, run: RunRecord) -> dict[str, Any]:
    """Return the first checkpoint's contents for a run that was killed before it had one."""
    state = values.decode_object(run.input_json or "{}")
    return {"state": state, "position": position_of(store, run).to_plain()}


def _recorded(store: Store, graph_id: str) -> GraphDefinition:
    record = store.load_graph(graph_id)
    if record is None:
        raise LedgerCorrupt(
            f"The ledger has a run of graph {graph_id!r} but no record of that graph. Nothing "
            "was changed. Restore the ledger from a backup."
        )
    return recorded_definition(record)


def _agreed(
    run: RunRecord,
    order: MigrationOrder,
    move: Move,
    found: Hindrances,
    state: dict[str, Any],
    steps: list[StepRecord],
) -> tuple[Position, dict[str, Any]]:
    """Return where the run resumes, and its state. MigrationRefused lists all reasons."""
    unmapped = move.unmapped()
    if unmapped:
        raise _unmapped(run, order, move, unmapped)
    reasons = [*move.misfits(), *found.forbid]
    if found.begins_again and not order.restart_steps:
        what = "; ".join(found.begins_again)
        reasons.append(
            f"what a step has waited for would start again ({what}); to allow it, use "
            "restart_steps=True (--restart-steps)"
        )
    position = move.position
    if not reasons:
        position = move.arrive({(step.node_id, step.checkpoint_id) for step in steps})
        reasons += move.beyond_bounds(position)
    adopted = state
    try:
        adopted = _adopted(order, move.position, state)
    except (InvalidGraph, NotPlainData) as error:
        reasons.append(_without_outcome(error.message))
    if reasons:
        raise _refused(run, reasons)
    return position, adopted


def _without_outcome(message: str) -> str:
    """Shorten an error to one reason of several, which end with what did not happen."""
    return message.replace(" Nothing was saved.", "").rstrip(".")


def _adopted(order: MigrationOrder, position: Position, state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of the new version, upgraded if needed. Raises if it does not fit."""
    graph, upgrade = order.to, order.upgrade
    if upgrade is not None:
        if any(branch.update for branch in position.branches):
            raise InvalidGraph(
                "its branches hold changes of the state that upgrade would not see; let them join "
                "first"
            )
        name = getattr(upgrade, "__name__", "upgrade")
        try:
            upgraded: Any = upgrade(copy.deepcopy(state))
        except Exception as error:
            raise InvalidGraph(f"{name} raised {type(error).__name__}: {error}") from error
        if not isinstance(upgraded, Mapping):
            raise InvalidGraph(f"{name} returned {type(upgraded).__name__} instead of a dict")
        state = dict(upgraded)
    adopted = graph.state.adopt(state)
    append = graph.definition().append
    for branch in position.branches:
        added = {
            key: [*adopted.get(key, ()), *value]
            for key, value in branch.update.items()
            if key in append
        }
        graph.state.adopt({**adopted, **branch.update, **added})
    return adopted


def _left(
    steps: list[StepRecord], visits: list[OpenVisit], order: MigrationOrder, bound: str, now: float
) -> tuple[StepRecord, ...]:
    """Return the records of steps that were started and will never end (D6)."""
    failure = Failure(
        FailureClass.PERMANENT, "migrated", f"the run was migrated to {order.to.id} before it ended"
    )
    begun = {(visit.node_id, visit.checkpoint_id(bound)) for visit in visits}
    return tuple(
        replace(step, status=StepStatus.FAILED, finished_at=now, failure=failure)
        for step in steps
        if (step.node_id, step.checkpoint_id) in begun and step.status is StepStatus.IN_PROGRESS
    )


# Refused without looking further


def check_movable(run: RunRecord, order: MigrationOrder) -> None:
    target = order.to
    if run.graph_id is None:
        raise _refused(run, ["it is not a graph run: it was opened with nt.run"])
    name, version = split_graph_id(run.graph_id)
    if run.status in OVER:
        raise _refused(run, [f"it is already {run.status.value}"])
    if name != target.name:
        raise _refused(run, [f"it is a run of graph {name!r}, not of {target.name!r}"])
    if run.graph_id != target.id and version[:2] == target.version[:2]:
        raise _refused(
            run, [f"{target.id} is a patch of {run.graph_id} and can resume it without migration"]
        )
    if run.origin is not None:
        raise _refused(
            run, [f"it is a fork of {run.origin!r}, whose receipts belong to {run.graph_id}"]
        )


def _unmapped(run: RunRecord, order: MigrationOrder, move: Move, names: list[str]) -> UnmappedNode:
    at = ", ".join(map(repr, names))
    known = ", ".join(node.name for node in move.new.nodes)
    python = ", ".join(f"{name!r}: ..." for name in names)
    typed = " ".join(f"--map {name}=NODE" for name in names)
    return UnmappedNode(
        f"Run {run.workflow_id!r} is at {at} of {run.graph_id}, and the mapping does not define "
        f"where it resumes in {order.to.id}. Nothing was changed. Map each, even to the same name: "
        f"mapping={{{python}}} ({typed}). Nodes of {order.to.id}: {known}.",
        run_id=run.workflow_id,
        bound=run.graph_id,
        nodes=tuple(names),
        reasons=tuple(f"node {name!r} is not mapped" for name in names),
    )


def _refused(run: RunRecord, reasons: list[str]) -> MigrationRefused:
    numbered = reasons[0]
    if len(reasons) > 1:
        numbered = "; ".join(f"({number}) {text}" for number, text in enumerate(reasons, 1))
    return MigrationRefused(
        f"Run {run.workflow_id!r} was not migrated: {numbered}. Nothing was changed.",
        run_id=run.workflow_id,
        bound=run.graph_id,
        reasons=tuple(reasons),
    )
