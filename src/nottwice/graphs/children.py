"""Child runs: ``nt.spawn(graph, input)`` (A5).

A child's id is derived from the call that spawned it, so a resumed parent finds the same child.
The child is neither started twice nor lost. How the child ended is recorded in the parent like any
other receipt. A child that waits makes its parent wait. A child that fails makes the parent's node
fail, and resuming the parent resumes the child. A child stays with the version that it is bound
to. If that version is not deployed, the parent waits until it is. Aborting a parent aborts its
children.

A child is an effect of its parent: before it begins, the values that led to it are durable, and so
is a note that its step starts it. Otherwise a parent that resumes could get other values, or have
another input for another reason, and start another child beside the first.
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
from nottwice.engine.opening import Opening
from nottwice.engine.session import Scope, Session, current_attempt
from nottwice.engine.stepping import steps
from nottwice.engine.waits.cancelled import stop_if_cancelled
from nottwice.errors import (
    ChildFailed,
    RunBusy,
    RunWaits,
    UsageError,
    WorkflowVersionMismatch,
)
from nottwice.graphs.declare import Graph
from nottwice.graphs.outcome import Outcome, plain_outcome
from nottwice.graphs.running import Runnable, check_no_loop, fits, load, running
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
from nottwice.model.data.shapes import checked, not_believed
from nottwice.model.failure import Failure, FailureClass, is_ledger_trouble
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.replay_class import ReplayClass
from nottwice.model.run import RunRecord, RunStatus, Wait, WaitKind
from nottwice.store.interface import CallWrite

S = TypeVar("S")


def spawn(
    graph: Graph[S], input: Any = None, *, label: str | None = None, check: bool = True
) -> Outcome[S]:
    """Run another graph as a child of this run and return how it ended.

    Within one step, the same graph with the same input is one child. Use ``label`` to tell two
    apart. With ``check=False``, a failed child is returned instead of raising ChildFailed.
    """
    scope = scope_of("nt.spawn")
    _check_graph(graph, "nt.spawn")
    check_no_loop(graph, "await nt.aspawn(graph, ...)")
    return drive(spawning(scope, graph, input, label, check=check), scope.session.host)


async def aspawn(
    graph: Graph[S], input: Any = None, *, label: str | None = None, check: bool = True
) -> Outcome[S]:
    """Like ``spawn``, without blocking the event loop."""
    scope = scope_of("nt.aspawn")
    _check_graph(graph, "nt.aspawn")
    return await drive_async(spawning(scope, graph, input, label, check=check), scope.session.host)


def _check_graph(given: object, name: str) -> None:
    if not isinstance(given, Graph):
        raise UsageError(
            f"{name} takes a graph, and {given!r} is not a graph. Nothing was spawned. Pass the "
            "nt.Graph(...) object, not its name."
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
    """Like ``spawn``, as a generator for the driver. Requests for the same child run in turn.

    ``keeps_outage``: record the failure of a child even if it may succeed later. Otherwise the
    child is resumed when it is spawned again. ``restarts``: resume it even if it failed while this
    step was waiting for it. Otherwise the step receives the failure.
    """
    session = scope.session
    identity, args = _identify(scope, graph, given, label)
    mine = yield from enter_alone(session, identity, current_attempt.get())
    opening = Opening(
        host=session.host,
        run_id=child_run_id(session.run_id, identity),
        input=given,
        parent=session.run,
        told_to_stop=lambda: _is_told_to_stop(session),
    )
    try:
        # A child may have an effect in flight, so it is waited for. It stops after its node.
        session.in_flight.begin(mine)
        return (
            yield from _run_child(
                scope,
                mine,
                args,
                graph,
                opening,
                check=check,
                keeps_outage=keeps_outage,
                restarts=restarts,
            )
        )
    finally:
        session.in_flight.rest(mine)
        session.in_flight.leave(mine)


def _is_told_to_stop(parent: Session) -> bool:
    """Whether a child shall stop after its node: its parent was cancelled, or was told to stop."""
    told_to_stop = parent.opening.told_to_stop
    return parent.in_flight.is_stopped or (told_to_stop is not None and told_to_stop())


def _run_child(
    scope: Scope,
    mine: InFlight,
    args: str,
    graph: Graph[Any],
    opening: Opening,
    *,
    check: bool,
    keeps_outage: bool,
    restarts: bool,
) -> Doing[Outcome[Any]]:
    session, child_id = scope.session, opening.run_id
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
        if known is not None and _failed_for_now(known):
            session.stops.lift(identity)
            return _failed(known)
    error: Exception | None = None
    begun = yield load(child_id)
    if begun is None:
        yield from _note(scope, mine, args, child_id)
    bound = _as_bound(graph, begun)
    try:
        outcome = yield from running(bound, opening)
    except RunBusy as busy:
        raise _stopped(scope, identity, child_id) from busy
    except WorkflowVersionMismatch as mismatch:
        yield from _park(scope, bound, child_id)
        raise _stopped(scope, identity, child_id) from mismatch
    except Exception as failed:
        if is_ledger_trouble(failed):
            # Child and parent were both interrupted. Resuming the parent resumes both.
            raise
        child = yield Read(lambda store: store.load_run(child_id))
        if child is None or child.status is not RunStatus.FAILED:
            raise
        error = failed
        outcome = _failed(child)
    if outcome.status in ("waiting", "running"):
        # "running": its driver was asked to stop. The child's next holder will wake the parent.
        raise _stopped(scope, identity, child_id)
    if outcome.status == "aborted":
        # Perhaps with its parent.
        yield from stop_if_cancelled(session, looks_now=True)
    session.stops.lift(identity)
    if error is not None and check:
        # Not recorded: resuming the parent resumes the child, which may then succeed.
        raise ChildFailed(f"Child run {child_id!r} failed: {error}", run_id=child_id) from error
    if error is not None and not keeps_outage and may_be_resumed(outcome.failure):
        # Not recorded either: the outage may be over when the child is spawned again.
        return outcome
    chain_state = None if outcome.status == "failed" else bound.state.unshow(outcome.state)
    row = _row(scope, mine, identity, args, plain_outcome(outcome, chain_state))
    session.pending.add_call(CallWrite(row))
    yield from session.flush_if_heavy()
    return _recorded(graph, row, check=check)


def _note(scope: Scope, mine: InFlight, args: str, child_id: str) -> Doing[None]:
    """Note that the step starts a child. Outside of steps nothing is judged, so there is no note.

    Durable: the note and all that led to the child, when this returns.
    """
    session = scope.session
    if scope.steps:
        noted = mine.identity._replace(tool_name=steps.CHILD)
        row = session.pending.find_call(noted)
        if row is None:
            row = yield Read(lambda store: store.load_call(noted))
        if row is None:
            session.pending.add_call(CallWrite(_row(scope, mine, noted, args, child_id)))
    if session.pending:
        yield from session.commit()


def _as_bound(graph: Runnable, child: RunRecord | None) -> Runnable:
    """Return the version that the child is bound to, if it is deployed too."""
    if child is None or child.graph_id is None or child.status.is_final or fits(graph, child):
        return graph
    versions = [one for one in graph.beside if one.name == graph.name and fits(one, child)]
    return max(versions, key=lambda one: one.version, default=graph)


def _park(scope: Scope, graph: Runnable, child_id: str) -> Doing[None]:
    """Open a review for a child that no deployed version can resume. Its parent waits for it."""
    child = yield load(child_id)
    if child is not None and child.graph_id is not None:
        deployed = {one.id for one in (*graph.beside, graph)}
        same = [one for one in sorted(deployed) if split_graph_id(one)[0] == graph.name]
        yield from parking(scope.session.host, child, same)


def lost_child(scope: Scope, identity: CallIdentity, child: RunRecord) -> Doing[RunRecord]:
    """A child whose graph its parent no longer has, if it is over; RunWaits as long as it is not.

    ``identity``: the call that spawned it. Durable: the review that tells people of it, or that it
    is aborted because a person decided so, when it returns or raises.
    """
    yield from parking(scope.session.host, child, ())
    now: RunRecord | None = yield load(child.workflow_id)
    if now is None or not (now.status.is_final or now.status is RunStatus.FAILED):
        raise _stopped(scope, identity, child.workflow_id)
    scope.session.stops.lift(identity)
    return now


def may_be_resumed(failure: Failure | None) -> bool:
    """Return whether a child's failure may be over when the child is spawned again."""
    return failure is not None and failure.failure_class is not FailureClass.PERMANENT


def _failed_for_now(child: RunRecord) -> bool:
    return child.status is RunStatus.FAILED and may_be_resumed(child.failure)


def _admit(scope: Scope, identity: CallIdentity, args: str) -> Doing[None]:
    """Refuse a child where a new effect would be refused, because a child may have effects."""
    scope.session.stops.raise_if_stopped(scope.node_id, but=identity)
    yield from reconcile.raise_if_blocked(scope.session)
    yield from steps.admit(scope, identity, args)


def child_run_id(parent: str, identity: CallIdentity) -> str:
    """Return the id of the child that a call spawns. The same call always gives the same id."""
    suffix = f".{identity.call_id[:16]}"
    if len(parent) + len(suffix) <= MAX_ID_CHARACTERS:
        return parent + suffix
    return f"child.{identity.call_id}"


def child_identity(scope: Scope, graph: Graph[Any], given: Any, label: str | None) -> CallIdentity:
    """Return the identity of the call that spawns this child from here."""
    return _identify(scope, graph, given, label)[0]


def _identify(
    scope: Scope, graph: Graph[Any], given: Any, label: str | None
) -> tuple[CallIdentity, str]:
    if label is not None:
        check_id(label, what="The label of a child run")
    return spawn_identity(scope, graph.name, graph.state.stable(given), label)


def spawn_identity(
    scope: Scope, name: str, stable: dict[str, Any], label: str | None = None
) -> tuple[CallIdentity, str]:
    """The identity and the arguments of the call that spawns a run of the graph of this name."""
    args = {"graph": name, "input": stable, "label": label}
    run_id = scope.session.run_id
    return (
        CallIdentity(run_id, scope.node_id, scope.checkpoint_id, steps.SPAWN, values.hash_of(args)),
        values.encode(args),
    )


def _row(
    scope: Scope, mine: InFlight, identity: CallIdentity, args: str, result: object
) -> CallRow:
    session, now = scope.session, scope.session.clock.now()
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
        result=StoredResult(ResultKind.PLAIN, values.encode(result)),
        parent_call_id=mine.parent_call_id,
    )


def _recorded(graph: Runnable, row: CallRow, *, check: bool) -> Outcome[Any]:
    """Return how a child ended, as recorded in the parent: the same live and on replay."""
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
        # The child may have ended under another version, before its graph was redeployed.
        outcome = replace(outcome, state=graph.state.show(kept))
    if check and outcome.status != "completed":
        raise ChildFailed(
            f"Child run {outcome.run_id!r} was {outcome.status}. Its parent has recorded this. "
            f"See: nottwice show {shlex.quote(outcome.run_id)}",
            run_id=outcome.run_id,
        )
    return outcome


def _failed(child: RunRecord) -> Outcome[Any]:
    bound = child.graph_id or ""
    return Outcome(child.workflow_id, bound, "failed", None, 0, failure=child.failure)


def _stopped(scope: Scope, identity: CallIdentity, child_id: str) -> RunWaits:
    waits = RunWaits(
        f"The run waits for its child run {child_id!r}. Open it again when the child is finished. "
        f"See: nottwice show {shlex.quote(child_id)}",
        run_id=child_id,
    )
    scope.session.stops.note(identity, waits, Wait(WaitKind.CHILD, child_id, scope.node_id))
    return waits
