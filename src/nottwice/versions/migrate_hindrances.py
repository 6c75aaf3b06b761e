"""What in a run speaks against moving it to another version? (V4)

A node that was begun and not ended is begun again by the new version, under another identity: no
receipt of the old one answers it. So a visit that has made effects, spawned a child or taken an
event must end where it began. What it has only waited for or been told (timers, answers, questions
that are still open) can be had again, and is, if whoever migrates says so.

A map that points back is the other way to do something twice: the node it names would do what the
run has done (P138).
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from nottwice.engine.doubts.blocking import call_text, decide_command
from nottwice.engine.stepping.steps import SPAWN
from nottwice.engine.waits.waiting import DEADLINE
from nottwice.errors import Rejected
from nottwice.graphs.declare import Graph
from nottwice.graphs.fingerprint import effects_of
from nottwice.graphs.recorded import recorded_fingerprint
from nottwice.model import values
from nottwice.model.calendar import utc
from nottwice.model.call import CallRow, CallStatus
from nottwice.model.graphs.graph import Node
from nottwice.model.graphs.mapping import Move, OpenVisit, nodes_at, place_of
from nottwice.model.places import is_inside
from nottwice.model.review import Review, ReviewKind, ReviewStatus
from nottwice.model.run import RunRecord, RunStatus, StepRecord
from nottwice.model.shapes import not_believed
from nottwice.model.tool import OWN_PREFIX
from nottwice.store.interface import Store

ASK, SLEEP, RECEIVE = (OWN_PREFIX + name for name in ("ask", "sleep", "receive"))
_FINISH = "let that step end on the old version first"
_REJECTED = f"{Rejected.__module__}.{Rejected.__qualname__}"
_MAY_BE_OLDER = (RunStatus.FAILED, RunStatus.ABORTED)


@dataclass(slots=True)
class Hindrances:
    """What was found: what forbids a migration, and what it would do away with."""

    forbid: list[str] = field(default_factory=list)
    begins_again: list[str] = field(default_factory=list)
    """What the new version would wait for or ask once more; only with leave to do so."""
    closes: list[Review] = field(default_factory=list)
    """Reviews that nobody needs after it."""


def find_hindrances(
    store: Store, run: RunRecord, bound: str, visits: Sequence[OpenVisit]
) -> Hindrances:
    """Look at everything that is on record of a run and of the visits that it is in."""
    found = Hindrances()
    for row in store.calls_in_doubt(run.workflow_id):
        found.forbid.append(
            f"whether {call_text(row)} happened is not known; resume the run on {bound}, or "
            "decide its review"
        )
    _look_at_reviews(store, run, bound, found)
    held = [row for visit in visits for row in _rows_of(store, run, bound, visit)]
    for row in held:
        _look_at_row(row, found)
    found.forbid += _children(store, run, bound, visits)
    return found


def find_repeats(
    store: Store, run: RunRecord, move: Move, graph: Graph[Any], allowed: Collection[str]
) -> list[str]:
    """Why the nodes at which a run would go on may do what it has done already (P138).

    What a node may do is what its code names, and what the run did when it was at a node of this
    name: a tool that is passed in, or looked up, is found only so. The map repeats nothing where
    the node is the same as before, or where the node that the run is at has called the tool, too:
    a loop makes its calls again in any version.
    """
    reasons: list[str] = []
    done = [row for row in store.calls(run.workflow_id) if _is_effect(row)]
    same = _unchanged_nodes(store, move, graph)
    for name in nodes_at(move.position):
        node = graph.definition().node(move.mapping.get(name, ""))
        if node is None or (node.name == name and name in same):
            continue
        here, before = _places(move, move.old.node(name)), _places(move, node)
        own = {row.identity.tool_name for row in done if _is_at(row, here)}
        known = effects_of(graph.code[node.name])
        for row in done:
            tool = row.identity.tool_name
            if tool in own or tool in allowed or not (tool in known or _is_at(row, before)):
                continue
            own.add(tool)
            reasons.append(
                f"node {node.name!r} of {graph.id} may do again what the run has done: "
                f"{call_text(row)} in step {row.identity.node_id!r}; if it is meant to, say so "
                f"with repeats=[{tool!r}] (--repeats {shlex.quote(tool)})"
            )
    return reasons


def _unchanged_nodes(store: Store, move: Move, graph: Graph[Any]) -> set[str]:
    """The nodes that say the same in both versions."""
    record = store.load_graph(move.old.graph_id)
    bodies = None if record is None else recorded_fingerprint(record).bodies
    return {name for name, _ in set(bodies or ()) & set(graph.fingerprint().bodies or ())}


def _is_effect(row: CallRow) -> bool:
    effectful = row.replay_class.effectful or row.identity.tool_name == SPAWN
    return effectful and row.status is CallStatus.DONE


def _places(move: Move, node: Node | None) -> list[str]:
    """Where visits of a node are, in whatever branch."""
    indices = (None, *range(len(move.position.branches)))
    return [] if node is None else [place_of(node, index) for index in indices]


def _is_at(row: CallRow, places: list[str]) -> bool:
    return any(is_inside(row.identity.node_id, place) for place in places)


def _rows_of(store: Store, run: RunRecord, bound: str, visit: OpenVisit) -> list[CallRow]:
    began = visit.checkpoint_id(bound)
    return store.calls_under(run.workflow_id, visit.node_id, visit=began)


def _look_at_row(row: CallRow, found: Hindrances) -> None:
    tool, step = row.identity.tool_name, row.identity.node_id
    if row.status.in_doubt:
        # It was named among those in doubt.
        return
    if _is_effect(row):
        what = "a child run" if tool == SPAWN else call_text(row)
        found.forbid.append(f"step {step!r} is not over and has made {what} already; {_FINISH}")
    elif tool == RECEIVE and row.status is CallStatus.DONE:
        name = values.decode_object(row.args_json).get("name")
        found.forbid.append(
            f"step {step!r} is not over and has taken the event {name!r}, which is not delivered "
            f"twice; {_FINISH}"
        )
    elif tool == RECEIVE:
        found.begins_again.append(f"step {step!r} waits for an event again that came too late")
    elif row.failure is not None and row.failure.error_type == _REJECTED:
        found.begins_again.append(f"step {step!r} asks again to approve {call_text(row)}")
    elif tool == ASK:
        found.begins_again.append(f"step {step!r} asks again what was answered already")
    elif tool in (SLEEP, DEADLINE):
        what = "timer" if tool == SLEEP else "deadline"
        found.begins_again.append(f"the {what} of step {step!r}, due {_due(row)}, begins anew")


def _due(row: CallRow) -> str:
    kept = row.kept_result()
    with not_believed(f"When a timer of run {row.identity.workflow_id!r} is due"):
        return f"{utc(float(values.decode(kept.json))):%Y-%m-%d %H:%M:%S} UTC"


def _look_at_reviews(store: Store, run: RunRecord, bound: str, found: Hindrances) -> None:
    for review in store.open_reviews(run.workflow_id):
        command = decide_command(review.review_id, store.location)
        kind = review.kind.value
        if review.status is ReviewStatus.DECIDED:
            assert review.decision is not None
            found.forbid.append(
                f"{review.decision.by} has decided {review.decision.verb.value!r} in review "
                f"{review.review_id} ({kind}), which only {bound} can use; resume the run there, "
                f"or take it back: {command} undo --why TEXT"
            )
        elif review.kind is ReviewKind.UNDEPLOYABLE:
            found.closes.append(review)
        elif review.kind.asks_first:
            found.closes.append(review)
            found.begins_again.append(
                f"review {review.review_id} ({kind}: {review.summary}) closes, and the new version "
                "asks its own"
            )
        else:
            found.forbid.append(f"review {review.review_id} ({kind}) is open; decide it: {command}")


def _children(
    store: Store, run: RunRecord, bound: str, visits: Sequence[OpenVisit]
) -> Iterator[str]:
    """Children that an open visit has spawned and not yet recorded: the new one would spawn more.

    A step ends with the record of each child, or was told of its failure and went on. So a child
    without a record belongs to an open visit, unless it failed or was aborted before that began.
    """
    children = store.children(run.workflow_id)
    if not children:
        return
    rows = [row for row in store.calls(run.workflow_id) if row.identity.tool_name == SPAWN]
    results = [values.decode_object(row.result.json) for row in rows if row.result is not None]
    recorded = {str(result.get("run_id")) for result in results}
    steps = [_step_of(store, run, bound, visit) for visit in visits]
    since = min((step.started_at for step in steps if step is not None), default=float("inf"))
    for child in children:
        if child.workflow_id in recorded:
            continue
        if child.status in _MAY_BE_OLDER and child.created_at < since:
            continue
        yield (
            f"a step that is not over has spawned run {child.workflow_id!r} "
            f"({child.status.value}); {_FINISH}"
        )


def _step_of(store: Store, run: RunRecord, bound: str, visit: OpenVisit) -> StepRecord | None:
    return store.load_step(run.workflow_id, visit.node_id, visit.checkpoint_id(bound))
