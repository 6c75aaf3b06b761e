"""Child runs: ``nt.spawn(graph, input)`` (A5).

A child's id follows from the call that spawned it, so a parent that is resumed finds the same
child: it is neither started twice nor lost. How the child ended is recorded in the parent like any
other receipt. A child that waits makes its parent wait; a child that failed fails the parent's
node, and resuming the parent resumes the child. A child stays with the version that it is bound
to; where that is not deployed, its parent waits until it is. A parent that is aborted aborts its
children.
Promises kept here: P29, P86.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any, TypeVar

from nottwice.engine.asks import Doing, Read
from nottwice.engine.calls.alone import enter_alone
from nottwice.engine.calls.in_flight import InFlight
from nottwice.engine.doubts import reconcile
from nottwice.engine.drivers import drive, drive_async
from nottwice.engine.session import Scope, current_attempt
from nottwice.engine.stepping import steps
from nottwice.errors import (
    ChildFailed,
    RunBusy,
    RunWaits,
    UsageError,
    WorkflowVersionMismatch,
)
from nottwice.graphs.declare import Graph
from nottwice.graphs.outcome import Outcome, plain_outcome
from nottwice.graphs.running import Asked, Runnable, check_no_loop, fits, load, running
from nottwice.graphs.undeployed import parking
from nottwice.guard.scopes import scope_of
from nottwice.model import values
from nottwice.model.call import (
    MAX_ID_CHARACTERS,
    CallIdentity,
    CallRow,
    CallStatus,
    ResultKind,
    StoredResult,
    check_id,
)
from nottwice.model.failure import Failure, FailureClass, is_ledger_trouble
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.replay_class import ReplayClass
from nottwice.model.run import RunRecord, RunStatus, Wait, WaitKind
from nottwice.model.shapes import checked, not_believed
from nottwice.store.interface import CallWrite

S = TypeVar("S")


def spawn(
    graph: Graph[S], input: Any = None, *, label: str | None = None, check: bool = True
) -> Outcome[S]:
    """Run another graph as a child of this run and return how it ended.

    The same graph with the same input in one step is one child; ``label`` tells two apart. With
    ``check=False`` a child that failed is returned like any other instead of raising ChildFailed.
    """
    scope = scope_of("nt.spawn")
    _check_graph(graph, "nt.spawn")
    check_no_loop(graph, "await nt.aspawn(graph, ...)")
    return drive(spawning(scope, graph, input, label, check=check), scope.session)


async def aspawn(
    graph: Graph[S], input: Any = None, *, label: str | None = None, check: bool = True
) -> Outcome[S]:
    """The same without blocking the event loop."""
    scope = scope_of("nt.aspawn")
    _check_graph(graph, "nt.aspawn")
    return await drive_async(spawning(scope, graph, input, label, check=check), scope.session)


def _check_graph(given: object, name: str) -> None:
    if not isinstance(given, Graph):
        raise UsageError(
            f"{name} takes a graph, and {given!r} is none. Nothing was spawned. Pass what "
            "nt.Graph(...) made, not its name."
        )


def spawning(
    scope: Scope,
    graph: Graph[S],
    given: Any,
    label: str | None,
    *,
    check: bool,
    keeps_outage: bool = True,
    restarts: bool = True,
) -> Doing[Outcome[S]]:
    """The same for the engine: of those who ask for the very same child, one at a time does so.

    ``keeps_outage``: whether the failure of a child that may succeed later is put on record. If
    not, the child is resumed when it is asked for again. ``restarts``: also if it failed so while
    this very step waited for it; if not, the step is told of the failure.
    """
    session = scope.session
    identity, args = _identify(scope, graph, given, label)
    mine = yield from enter_alone(session, identity, current_attempt.get())
    asked = Asked(
        graph,
        child_run_id(session.run_id, identity),
        given,
        parent=session.run,
        told_to_stop=session.told_to_stop,
    )
    try:
        return (
            yield from _run_child(
                scope,
                mine,
                args,
                asked,
                check=check,
                keeps_outage=keeps_outage,
                restarts=restarts,
            )
        )
    finally:
        session.in_flight.leave(mine)


def _run_child(
    scope: Scope,
    mine: InFlight,
    args: str,
    asked: Asked,
    *,
    check: bool,
    keeps_outage: bool,
    restarts: bool,
) -> Doing[Outcome[Any]]:
    session, graph, child_id = scope.session, asked.graph, asked.run_id
    identity = mine.identity
    row = session.pending.find_call(identity)
    if row is None:
        row = yield Read(lambda store: store.load_call(identity))
    steps.asked_again(scope, identity, row)
    if row is not None:
        session.stops.lift(identity)
        return _recorded(graph, row, check=check)
    yield from _admit(scope, identity, args)
    if not restarts:
        known: RunRecord | None = yield Read(lambda store: store.load_run(child_id))
        if known is not None and _gave_up(known):
            session.stops.lift(identity)
            return _failed(known)
    error: Exception | None = None
    asked = yield from _as_bound(asked)
    try:
        outcome = yield from running(session, asked)
    except RunBusy as busy:
        raise _stopped(scope, identity, child_id) from busy
    except WorkflowVersionMismatch as mismatch:
        yield from _park(scope, asked)
        raise _stopped(scope, identity, child_id) from mismatch
    except Exception as failed:
        if is_ledger_trouble(failed):
            # The child was interrupted, and its parent is with it; whoever resumes it resumes both.
            raise
        child = yield Read(lambda store: store.load_run(child_id))
        if child is None or child.status is not RunStatus.FAILED:
            raise
        error = failed
        outcome = _failed(child)
    if outcome.status in ("waiting", "running"):
        # Running: its driver was told to stop, and whoever takes it up will let its parent know.
        raise _stopped(scope, identity, child_id)
    session.stops.lift(identity)
    if error is not None and check:
        # Not on record: whoever resumes the parent resumes the child, which may succeed then.
        raise ChildFailed(f"Child run {child_id!r} failed: {error}", run_id=child_id) from error
    if error is not None and not keeps_outage and may_be_resumed(outcome.failure):
        # Nor is this: an outage may be over by the time the child is asked for again.
        return outcome
    row = _row(scope, asked.graph, mine, args, outcome)
    session.pending.add_call(CallWrite(row))
    yield from session.flush_if_heavy()
    return _recorded(graph, row, check=check)


def _as_bound(asked: Asked) -> Doing[Asked]:
    """The same, with the version that the child is bound to, if that is deployed beside it."""
    graph, child = asked.graph, (yield load(asked.run_id))
    if child is None or child.graph_id is None or child.status.is_final or fits(graph, child):
        return asked
    versions = [one for one in graph.beside if one.name == graph.name and fits(one, child)]
    return replace(asked, graph=max(versions, key=lambda one: one.version, default=graph))


def _park(scope: Scope, asked: Asked) -> Doing[None]:
    """Tell people of a child that no version here can take; its parent waits for it."""
    child = yield load(asked.run_id)
    if child is not None and child.graph_id is not None:
        deployed = {one.id for one in (*asked.graph.beside, asked.graph)}
        same = [one for one in sorted(deployed) if split_graph_id(one)[0] == asked.graph.name]
        yield from parking(scope.session, child, same)


def may_be_resumed(failure: Failure | None) -> bool:
    """Whether a child failed on something that may be over when it is asked for again."""
    return failure is not None and failure.failure_class is not FailureClass.POISON


def _gave_up(child: RunRecord) -> bool:
    return child.status is RunStatus.FAILED and may_be_resumed(child.failure)


def _admit(scope: Scope, identity: CallIdentity, args: str) -> Doing[None]:
    """Refuse a child where a new effect would be refused: it is there to make some."""
    scope.session.stops.raise_if_stopped(scope.node_id, but=identity)
    yield from reconcile.raise_if_blocked(scope.session)
    yield from steps.admit(scope, identity, args)


def child_run_id(parent: str, identity: CallIdentity) -> str:
    """The id of the child that one call spawns; whoever asks gets the same."""
    suffix = f".{identity.call_id[:16]}"
    if len(parent) + len(suffix) <= MAX_ID_CHARACTERS:
        return parent + suffix
    return f"child.{identity.call_id}"


def child_identity(scope: Scope, graph: Graph[Any], given: Any, label: str | None) -> CallIdentity:
    """The identity of the call that spawns this child from here."""
    return _identify(scope, graph, given, label)[0]


def _identify(
    scope: Scope, graph: Graph[Any], given: Any, label: str | None
) -> tuple[CallIdentity, str]:
    if label is not None:
        check_id(label, what="The label of a child run")
    args = {"graph": graph.name, "input": graph.state.stable(given), "label": label}
    run_id = scope.session.run_id
    return (
        CallIdentity(run_id, scope.node_id, scope.checkpoint_id, steps.SPAWN, values.hash_of(args)),
        values.encode(args),
    )


def _row(
    scope: Scope, graph: Runnable, mine: InFlight, args: str, outcome: Outcome[Any]
) -> CallRow:
    session, now, identity = scope.session, scope.session.clock.now(), mine.identity
    chain_state = None if outcome.status == "failed" else graph.state.unshow(outcome.state)
    text = values.encode(plain_outcome(outcome, chain_state))
    return CallRow(
        identity=identity,
        call_id=identity.call_id,
        status=CallStatus.DONE,
        replay_class=ReplayClass.PURE,
        attempt=1,
        attempt_id=session.new_attempt_id(),
        holder_id=session.holder.holder_id,
        args_json=args,
        created_at=now,
        started_at=now,
        finished_at=now,
        result=StoredResult(ResultKind.PLAIN, text),
        parent_call_id=mine.parent_call_id,
    )


def _recorded(graph: Runnable, row: CallRow, *, check: bool) -> Outcome[Any]:
    """How a child ended, as the parent has it on record: the same live and on replay."""
    result = row.kept_result()
    with not_believed(f"How a child of run {row.identity.workflow_id!r} ended"):
        plain = values.decode_object(result.json)
        failure = None if plain["failure"] is None else Failure.from_plain(plain["failure"])
        kept: dict[str, Any] | None = None if plain["state"] is None else {**plain["state"]}
        outcome: Outcome[Any] = checked(
            Outcome(
                run_id=plain["run_id"],
                graph=plain["graph"],
                status=plain["status"],
                state=None,
                version=plain["version"],
                failure=failure,
            )
        )
    if kept is not None:
        # The child may have ended under another version, before its graph was deployed anew.
        outcome = replace(outcome, state=graph.state.show(kept))
    if check and outcome.status != "completed":
        raise ChildFailed(
            f"Child run {outcome.run_id!r} was {outcome.status}. It is on record with its parent. "
            f"See: nottwice show {shlex.quote(outcome.run_id)}",
            run_id=outcome.run_id,
        )
    return outcome


def _failed(child: RunRecord) -> Outcome[Any]:
    bound = child.graph_id or ""
    return Outcome(child.workflow_id, bound, "failed", None, 0, failure=child.failure)


def _stopped(scope: Scope, identity: CallIdentity, child_id: str) -> RunWaits:
    waits = RunWaits(
        f"The run waits for its child run {child_id!r}. Open it again when that is finished. See: "
        f"nottwice show {shlex.quote(child_id)}",
        run_id=child_id,
    )
    scope.session.stops.note(identity, waits, Wait(WaitKind.CHILD, child_id, scope.node_id))
    return waits
