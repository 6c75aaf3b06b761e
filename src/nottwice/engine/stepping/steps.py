"""Steps, and code that has drifted from what the ledger holds (D6, D7).

A resumed step holds effects that are *outstanding* until the code asks for them again. A new effect
is refused while one is outstanding in this or a later step, and no step finishes with an
outstanding effect. Parallel branches are judged separately, by index. Calls outside any step are
not judged, because a host that resumes midway asks only for what is new. A finished step only
replays. A child run that has begun is outstanding like an effect, whether or not it is over (P29).

The calls in a tool's body are outstanding only while the tool itself is, because its receipt covers
them all. A call belongs to a body if it was made in the body's context, or in a task or thread that
got a copy of that context, even if the body has returned since. Two calls that merely overlap in
time are unrelated (P135).

A visit that an earlier process left in progress counts as a try. A new visit of the same step may
ask for an equal effect before the code asks for the old one again. Then the host uses ``at=`` to
count tries, and the effect would happen twice, so it is refused (P136). Nothing else is checked for
such a visit.
Promises kept here: P17, P29, P135, P136.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from nottwice.engine import events, said
from nottwice.engine.asks import Ask, Doing, Read
from nottwice.engine.doubts import blocking
from nottwice.engine.session import Scope, Session
from nottwice.engine.stepping import holding
from nottwice.engine.stepping.drift import StepState
from nottwice.engine.waits import questions
from nottwice.errors import NewEffectInFork, ReplayDriftError
from nottwice.model import values
from nottwice.model.call import (
    CallIdentity,
    CallRow,
    CallStatus,
    branch_node,
    child_checkpoint,
    child_node,
)
from nottwice.model.data.shapes import not_believed
from nottwice.model.failure import Failure
from nottwice.model.review import ReviewKind
from nottwice.model.run import RunRecord, StepRecord, StepStatus
from nottwice.model.runs.places import branches_differ, is_inside
from nottwice.store.interface import Outdated, ReviewWrite

SPAWN = "nottwice.spawn"
"""The call that starts a child run. Its row records how the child ended."""
CHILD = "nottwice.child"
"""The note that a step starts a child run, with the child's id. It has the place and the arguments
of the call, and is durable before the child begins (P29)."""


def open_step(scope: Scope, name: str, at: str | int | None) -> Doing[Scope]:
    """Enter a step. Its mark ``in_progress`` is pending, and durable before its first effect.

    Durable: the mark, when this returns, if the run's ``checkpoints`` ask for that (P152).
    """
    session = scope.session
    node_id = child_node(scope.node_id, name)
    checkpoint_id = child_checkpoint(scope.checkpoint_id, at)
    is_first = session.drift.is_first_visit(node_id, checkpoint_id)
    record = session.pending.find_step(node_id, checkpoint_id)
    if record is None and not is_first:
        record = yield Read(lambda store: store.load_step(session.run_id, node_id, checkpoint_id))
    if record is None:
        record = StepRecord(
            workflow_id=session.run_id,
            node_id=node_id,
            checkpoint_id=checkpoint_id,
            status=StepStatus.IN_PROGRESS,
            ordinal=session.next_ordinal(),
            started_at=session.clock.now(),
        )
        session.pending.add_step(record)
        state = StepState(record)
    elif record.status is StepStatus.DONE:
        state = StepState(record, resumed=True)
    else:
        record = replace(record, status=StepStatus.IN_PROGRESS, failure=None, finished_at=None)
        session.pending.add_step(record)
        state = StepState(record, resumed=True)
        yield from _load_outstanding(session, state)
    if not state.finished and not is_first:
        state.abandoned = yield from _abandoned_visits(session, record)
    if said.is_heard():
        said.say(said.about_step(session, record, resumed=state.resumed), session.store)
    # This commit includes the end of the previous step, so the mark costs no extra sync.
    yield from session.flush_at_step()
    return Scope(session, node_id, checkpoint_id, (state, *scope.steps))


def close_step(scope: Scope, failure: Failure | None) -> Doing[None]:
    """Leave a step as ``done``, or as ``failed`` with the error. The mark is pending."""
    session, state = scope.session, scope.steps[0]
    if state.finished:
        return
    session.pending.add_step((yield from ended(scope, failure)))
    yield from session.flush_if_heavy()


def ended(
    scope: Scope, failure: Failure | None, *, output_file: str | None = None
) -> Doing[StepRecord]:
    """Return the mark of a step that has ended, not pending yet: a graph adds its checkpoint."""
    session, state = scope.session, scope.steps[0]
    if failure is None:
        scope.session.stops.raise_if_stopped(scope.node_id)
        yield from questions.close_unasked(scope)
    if failure is None and state.outstanding:
        yield from _refuse(scope, list(state.outstanding.values()), "the step would finish")
        state.outstanding.clear()
    # The code came back to this visit, so it is no longer an abandoned try.
    state.abandoned.pop(state.record.checkpoint_id, None)
    if not state.finished:
        status = StepStatus.DONE if failure is None else StepStatus.FAILED
        now = session.clock.now()
        state.record = replace(
            state.record, status=status, finished_at=now, failure=failure, output_file=output_file
        )
        if said.is_heard():
            said.say(said.about_step(session, state.record), session.store)
        if events.listeners:
            events.tell(
                events.StepEnded(
                    ledger=session.store.location,
                    run_id=session.run_id,
                    step=state.record.node_id,
                    visit=state.record.checkpoint_id,
                    outcome="done" if failure is None else "failed",
                    seconds=max(0.0, now - state.record.started_at),
                    error=None if failure is None else f"{failure.error_type}: {failure.message}",
                ),
                session.store,
            )
    return state.record


def is_note(row: CallRow) -> bool:
    """Whether a row is only a note about a child run. A person who reads calls does not see it."""
    return row.identity.tool_name == CHILD


def branch(scope: Scope, index: int) -> Scope:
    """Return the scope of one parallel branch."""
    return replace(scope, node_id=branch_node(scope.node_id, index))


def asked_again(scope: Scope, identity: CallIdentity, row: CallRow | None) -> None:
    """Note that the code asked for this call, so that it is no longer outstanding.

    If the record answers, the calls of its body are not outstanding either, because the body does
    not run again.
    """
    session = scope.session
    answers = row is not None and _is_answer(row)
    for state in scope.steps:
        held = state.outstanding.pop(identity, None), state.later.pop(identity, None)
        if any(one is not None and _is_unfinished(one) for one in held):
            session.drift.ask_for(identity.call_id)
        if row is not None and answers and state.inner:
            for inner in state.inner.get(row.call_id, ()):
                covered = state.outstanding.pop(inner, None)
                if covered is not None:
                    session.drift.ask_for(covered.call_id)
    if row is not None and not session.drift.is_first_drive:
        session.drift.ask_for(row.call_id)


def _is_answer(row: CallRow) -> bool:
    """Whether the record is returned and nothing is run for it."""
    failed = row.status is CallStatus.FAILED and row.retry_at is None
    return failed or row.status is CallStatus.DONE


def admit(scope: Scope, identity: CallIdentity, args_json: str | None = None) -> Iterable[Ask]:
    """Let a new effect through, or refuse it: ``yield from admit(...)``."""
    refuse_in_fork(scope, identity)
    return _admit_into_step(scope, identity, args_json) if scope.steps else ()


def _admit_into_step(scope: Scope, identity: CallIdentity, args_json: str | None) -> Doing[None]:
    """Let a new effect into its step, or refuse it because the code has drifted.

    Other tasks may be about to ask for what blocks it, so it waits for them (P137).
    """
    session = scope.session
    if scope.steps[0].finished:
        raise ReplayDriftError(
            f"Step {scope.node_id!r} of run {session.run_id!r} is finished and only replays, but "
            f"the code asks it for a new effect: {_written(identity, args_json)}. It was not "
            "sent. If this is another visit, say so: nt.step(name, at=...).",
            call_id=identity.call_id,
        )
    if any(state.may_refuse for state in scope.steps):
        for in_its_way in (_outstanding, _abandoned):
            if next(in_its_way(scope, identity), None) is not None:
                yield from holding.hold_back(scope, identity, in_its_way)
                rows = list(in_its_way(scope, identity))
                if rows:
                    wants = f"the code asks for a new effect, {_written(identity, args_json)},"
                    yield from _refuse(scope, rows, wants)
    if not session.drift.is_first_drive:
        session.drift.ask_for(identity.call_id)


def _written(identity: CallIdentity, args_json: str | None) -> str:
    """Return the refused call as a person would write it."""
    args = {} if args_json is None else values.decode_object(args_json)
    return blocking.written_call(identity.tool_name, args)


def _outstanding(scope: Scope, identity: CallIdentity) -> Iterator[CallRow]:
    """Yield what this step or a later one holds and the code has not asked for again.

    A child that has begun is not new: it waits for effects, but not for other unfinished children.
    They may be asked for in any order, and perhaps only when this one has ended.
    """
    asked_for = scope.session.drift.asked_for
    has_begun = identity.tool_name == SPAWN and identity.call_id in asked_for
    # Iterate over copies, because other branches ask at the same time.
    for state in scope.steps:
        for row in list(state.outstanding.values()):
            if has_begun and _is_unfinished(row):
                continue
            if is_inside(row.identity.node_id, scope.node_id) or _is_twin(row, identity):
                yield row
    for state in scope.steps:
        for row in list(state.later.values()):
            if has_begun and _is_unfinished(row):
                continue
            if not branches_differ(row.identity.node_id, scope.node_id):
                # Several steps may be open at the same time, in separate tasks.
                ids = (row.call_id, *state.around.get(row.identity, ()))
                if asked_for.isdisjoint(ids):
                    yield row


def _abandoned(scope: Scope, identity: CallIdentity) -> Iterator[CallRow]:
    """Yield the same effect from another visit that was left in progress (P136)."""
    for state in scope.steps:
        for visit, rows in list(state.abandoned.items()):
            if visit != state.record.checkpoint_id:
                for row in rows:
                    if _is_twin(row, identity) and row.call_id not in scope.session.drift.asked_for:
                        yield row


def refuse_in_fork(scope: Scope, identity: CallIdentity) -> None:
    """Refuse any attempt in a fork, first or further (L10)."""
    run = scope.session.run
    if run.origin is not None:
        raise NewEffectInFork(
            f"Run {run.workflow_id!r} is a fork of {run.origin!r}, which has no receipt of this "
            f"call of {identity.tool_name!r}. It was not sent: a fork only shows what would "
            "have happened. Start a separate run for new effects.",
            call_id=identity.call_id,
            run_id=run.workflow_id,
            origin=run.origin,
        )


def _is_twin(row: CallRow, identity: CallIdentity) -> bool:
    return (row.identity.tool_name, row.identity.input_hash) == (
        identity.tool_name,
        identity.input_hash,
    )


def _refuse(scope: Scope, outstanding: list[CallRow], wants: str) -> Doing[None]:
    """Stop because of drift, unless a person has accepted it. The acceptance is then used up."""
    session, first = scope.session, outstanding[0]
    waiver = session.drift.use_waiver(first.identity)
    if waiver is not None:
        used = waiver.used(now=session.clock.now())
        try:
            yield from session.commit(reviews=(ReviewWrite(used, waiver.version),))
        except Outdated:
            # The acceptance was taken back at this moment, so a person is asked again.
            session.say("the acceptance was taken back", first)
        else:
            for state in scope.steps:
                state.outstanding.clear()
                state.later.clear()
            session.drift.ask_for(*(row.call_id for row in outstanding))
            return
    names = ", ".join(blocking.call_text(row) for row in outstanding[:3])
    more = f" and {len(outstanding) - 3} more" if len(outstanding) > 3 else ""
    reason = (
        f"the code has drifted: {wants} while the ledger holds effects that it has not asked "
        f"for again: {names}{more}"
    )
    raise (yield from blocking.open_review(session, first, reason, kind=ReviewKind.DRIFT))


def _load_outstanding(session: Session, state: StepState) -> Doing[None]:
    record = state.record
    held = yield from _calls_of(record)
    around = _around(held)
    for row in held:
        if _is_effect(row):
            state.outstanding[row.identity] = row
            for maker in around.get(row.call_id, ()):
                state.inner.setdefault(maker, []).append(row.identity)
    later = yield Read(lambda store: store.steps(session.run_id, after=record.ordinal))
    for step in later:
        if is_inside(step.node_id, record.node_id):
            continue
        rows = yield from _calls_of(step)
        around = _around(rows)
        for row in rows:
            if _is_effect(row):
                state.later[row.identity] = row
                if row.call_id in around:
                    state.around[row.identity] = around[row.call_id]


def _around(rows: Sequence[CallRow]) -> dict[str, tuple[str, ...]]:
    """Return for each call the ids of the calls in whose bodies it was made, innermost first."""
    parents = {row.call_id: row.parent_call_id for row in rows if row.parent_call_id is not None}
    around: dict[str, tuple[str, ...]] = {}
    for call_id in parents:
        chain: list[str] = []
        parent: str | None = parents[call_id]
        # nottwice never records a circle, and a circle must not hang the run.
        while parent is not None and parent not in chain:
            chain.append(parent)
            parent = parents.get(parent)
        around[call_id] = tuple(chain)
    return around


def _abandoned_visits(
    session: Session, record: StepRecord
) -> Doing[dict[str, tuple[CallRow, ...]]]:
    """Return the effects of visits of a step that were in progress when the run was resumed.

    They are looked up once per step, however many visits it has.
    """
    found = session.drift.abandoned(record.node_id)
    if found is not None:
        return found
    if session.drift.is_first_drive or not session.standing.last_ordinal:
        return session.drift.found_abandoned(record.node_id, {})
    visits = yield Read(lambda store: store.steps(session.run_id, in_progress_at=record.node_id))
    left: dict[str, tuple[CallRow, ...]] = {}
    for visit in visits:
        if visit.ordinal <= session.standing.last_ordinal:
            rows = yield from _calls_of(visit)
            left[visit.checkpoint_id] = tuple(filter(_is_effect, rows))
    return session.drift.found_abandoned(record.node_id, left)


def _calls_of(step: StepRecord) -> Doing[list[CallRow]]:
    """Return the calls of one visit of a step, including the steps inside it.

    A child that has begun and has no receipt there stands for the call that starts it. If the visit
    is done, it has received the failure of the child and has continued.
    """
    run, visit = step.workflow_id, step.checkpoint_id
    rows: list[CallRow] = yield Read(
        lambda store: store.calls_under(run, step.node_id, visit=visit)
    )
    calls = {row.identity: row for row in rows if row.identity.tool_name != CHILD}
    for row in rows if step.status is not StepStatus.DONE else ():
        spawned = row.identity._replace(tool_name=SPAWN)
        if row.identity.tool_name == CHILD and spawned not in calls:
            child: RunRecord | None = yield _load_child(row)
            # A fork has the notes of its origin, and not its children.
            if child is not None and child.parent_id == run:
                calls[spawned] = row._replace(
                    identity=spawned, call_id=spawned.call_id, status=CallStatus.PENDING
                )
    return list(calls.values())


def _load_child(note: CallRow) -> Read:
    with not_believed(f"The id of a child of run {note.identity.workflow_id!r}"):
        child_id = str(values.decode(note.kept_result().json))
    return Read(lambda store: store.load_run(child_id))


def _is_effect(row: CallRow) -> bool:
    """Whether code that no longer asks for a call has drifted. A child run consists of effects."""
    if row.identity.tool_name == SPAWN:
        return True
    return row.replay_class.effectful and row.status is CallStatus.DONE


def _is_unfinished(row: CallRow) -> bool:
    """Whether an outstanding row stands for a child that has begun."""
    return row.status is CallStatus.PENDING
