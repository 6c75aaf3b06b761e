"""What prevents moving a run to another version? (V4)

A node that was started but not finished starts again in the new version, under another identity, so
no old receipt answers its calls. A visit that has made effects, spawned a child or received an
event must therefore end in its old version. Timers, answers and open questions can be repeated, if
the caller allows it.

A mapping that points back could also repeat something: the node that it names would repeat effects
that the run has already made (P138).
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from nottwice.engine.doubts.blocking import call_text, decide_command
from nottwice.engine.stepping.steps import SPAWN
from nottwice.engine.waits.waiting import DEADLINE
from nottwice.errors import RejectedByReviewer
from nottwice.graphs.declare import Graph
from nottwice.graphs.fingerprint import effects_of
from nottwice.graphs.recorded import recorded_fingerprint
from nottwice.model import values
from nottwice.model.call import CallRow, CallStatus
from nottwice.model.data.calendar import utc
from nottwice.model.data.shapes import not_believed
from nottwice.model.graphs.graph import Node
from nottwice.model.graphs.mapping import Move, OpenVisit, nodes_at, place_of
from nottwice.model.review import Review, ReviewKind, ReviewStatus
from nottwice.model.run import RunRecord, RunStatus, StepRecord
from nottwice.model.runs.places import is_inside
from nottwice.model.tool import OWN_PREFIX
from nottwice.store.interface import Store

ASK, SLEEP, RECEIVE = (OWN_PREFIX + name for name in ("ask", "sleep", "receive"))
_FINISH = "let that step end on the old version first"
_REJECTED = f"{RejectedByReviewer.__module__}.{RejectedByReviewer.__qualname__}"
_MAY_BE_OLDER = (RunStatus.FAILED, RunStatus.ABORTED)


@dataclass(slots=True)
class Hindrances:
    """What was found: what forbids a migration, and what it would discard."""

    forbid: list[str] = field(default_factory=list)
    begins_again: list[str] = field(default_factory=list)
    """What the new version would wait for or ask again. Needs permission."""
    closes: list[Review] = field(default_factory=list)
    """Reviews that are obsolete after the migration."""


def find_hindrances(
    store: Store, run: RunRecord, bound: str, visits: Sequence[OpenVisit]
) -> Hindrances:
    """Check all records of a run and of its open visits."""
    found = Hindrances()
    for row in store.calls_in_doubt(run.workflow_id):
        found.forbid.append(
            f"it is not known whether {call_text(row)} happened; resume the run on {bound}, which "
            "finds out or asks a person"
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
    """Return why the nodes where a run would resume may repeat effects that it has made (P138).

    A node may use the tools that its code names, and the tools that the run called at a node of
    this name. The latter finds tools that are passed in or looked up. Nothing counts as repeated if
    the node is unchanged, or if the node that the run is at has called the tool too, because a loop
    repeats its calls in any version.
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
                f"node {node.name!r} of {graph.id} may repeat what the run has done: "
                f"{call_text(row)} in step {row.identity.node_id!r}; to allow it, use "
                f"repeats=[{tool!r}] (--repeats {shlex.quote(tool)})"
            )
    return reasons


def _unchanged_nodes(store: Store, move: Move, graph: Graph[Any]) -> set[str]:
    """Return the nodes whose code is the same in both versions."""
    record = store.load_graph(move.old.graph_id)
    bodies = None if record is None else recorded_fingerprint(record).bodies
    return {name for name, _ in set(bodies or ()) & set(graph.fingerprint().bodies or ())}


def _is_effect(row: CallRow) -> bool:
    effectful = row.replay_class.effectful or row.identity.tool_name == SPAWN
    return effectful and row.status is CallStatus.DONE


def _places(move: Move, node: Node | None) -> list[str]:
    """Return where visits of a node are, in any branch."""
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
        # Already listed among the calls in doubt.
        return
    if _is_effect(row):
        what = "a child run" if tool == SPAWN else call_text(row)
        found.forbid.append(f"step {step!r} is not over and has already made {what}; {_FINISH}")
    elif tool == RECEIVE and row.status is CallStatus.DONE:
        name = values.decode_object(row.args_json).get("name")
        found.forbid.append(
            f"step {step!r} is not over and has received the event {name!r}, which is not "
            f"delivered twice; {_FINISH}"
        )
    elif tool == RECEIVE:
        found.begins_again.append(f"step {step!r} waits again for an event that came too late")
    elif row.failure is not None and row.failure.error_type == _REJECTED:
        found.begins_again.append(f"step {step!r} asks again to approve {call_text(row)}")
    elif tool == ASK:
        found.begins_again.append(f"step {step!r} asks again what was already answered")
    elif tool in (SLEEP, DEADLINE):
        what = "timer" if tool == SLEEP else "deadline"
        found.begins_again.append(f"the {what} of step {step!r}, due {_due(row)}, starts again")


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
                f"or undo it: {command} undo --why TEXT"
            )
        elif review.kind is ReviewKind.UNDEPLOYABLE:
            found.closes.append(review)
        elif review.kind.asks_first:
            found.closes.append(review)
            found.begins_again.append(
                f"review {review.review_id} ({kind}: {review.summary}) closes, and the new version "
                "opens its own"
            )
        else:
            found.forbid.append(f"review {review.review_id} ({kind}) is open; decide it: {command}")


def _children(
    store: Store, run: RunRecord, bound: str, visits: Sequence[OpenVisit]
) -> Iterator[str]:
    """Yield children that an open visit has spawned but not recorded: the new one would spawn more.

    A step ends with a record of each child, or receives its failure and continues. So a child
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
            f"an unfinished step has spawned run {child.workflow_id!r} "
            f"({child.status.value}); {_FINISH}"
        )


def _step_of(store: Store, run: RunRecord, bound: str, visit: OpenVisit) -> StepRecord | None:
    return store.load_step(run.workflow_id, visit.node_id, visit.checkpoint_id(bound))
