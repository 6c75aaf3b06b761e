"""Steps, and the drift of code away from what the ledger holds (D6, D7).

A resumed step holds effects that are *outstanding* until the code asks for them again. A new
effect is refused while one is outstanding in this or a later step, and no step finishes with one
outstanding. Parallel branches are judged separately, by index; calls outside any step are not
judged, because a host that resumes midway asks only for what is new. A finished step only replays.
Promise kept here: P17.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nottwice.engine import blocking, said, stops
from nottwice.engine.asks import Ask, Doing, Pause, Read
from nottwice.engine.session import Scope, Session, StepState
from nottwice.errors import NewEffectInFork, ReplayDriftError
from nottwice.model.call import (
    CallIdentity,
    CallRow,
    CallStatus,
    branch_node,
    child_checkpoint,
    child_node,
)
from nottwice.model.failure import Failure
from nottwice.model.places import branches_differ, is_inside
from nottwice.model.review import ReviewKind
from nottwice.model.run import StepRecord, StepStatus
from nottwice.store.interface import Outdated, ReviewWrite

TWIN_SECONDS = 5.0
SPAWN = "nottwice.spawn"
"""The call that starts a child run; its row is how the child ended."""


def open_step(scope: Scope, name: str, at: str | int | None) -> Doing[Scope]:
    """Enter a step. Its mark ``in_progress`` rides, so it is durable before its first effect."""
    session = scope.session
    node_id = child_node(scope.node_id, name)
    checkpoint_id = child_checkpoint(scope.checkpoint_id, at)
    is_first = session.is_first_visit(node_id, checkpoint_id)
    record = session.riding.find_step(node_id, checkpoint_id)
    if record is None and not is_first:
        record = yield Read(lambda store: store.load_step(session.run_id, node_id, checkpoint_id))
    if record is None:
        record = StepRecord(
            workflow_id=session.run_id,
            node_id=node_id,
            checkpoint_id=checkpoint_id,
            status=StepStatus.IN_PROGRESS,
            ordinal=next(session.ordinals),
            started_at=session.clock.now(),
        )
        session.riding.add_step(record)
        state = StepState(record)
    elif record.status is StepStatus.DONE:
        state = StepState(record, resumed=True)
    else:
        record = replace(record, status=StepStatus.IN_PROGRESS, failure=None, finished_at=None)
        session.riding.add_step(record)
        state = StepState(record, resumed=True)
        yield from _load_outstanding(session, state)
    if said.is_heard():
        said.say(said.about_step(record, resumed=state.resumed))
    return Scope(session, node_id, checkpoint_id, (state, *scope.steps))


def close_step(scope: Scope, failure: Failure | None) -> Doing[None]:
    """Leave a step: ``done``, or ``failed`` with the error. The mark rides."""
    session, state = scope.session, scope.steps[0]
    if state.finished:
        return
    session.riding.add_step((yield from ended(scope, failure)))
    yield from session.flush_if_heavy()


def ended(scope: Scope, failure: Failure | None) -> Doing[StepRecord]:
    """The mark of a step that is over, not yet aboard: a graph sends its checkpoint along."""
    session, state = scope.session, scope.steps[0]
    if failure is None:
        stops.raise_if_stopped(scope)
        yield from stops.close_unasked(scope)
    if failure is None and state.outstanding:
        yield from _refuse(scope, list(state.outstanding.values()), "the step would finish")
        state.outstanding.clear()
    if not state.finished:
        status = StepStatus.DONE if failure is None else StepStatus.FAILED
        now = session.clock.now()
        state.record = replace(state.record, status=status, finished_at=now, failure=failure)
        if said.is_heard():
            said.say(said.about_step(state.record))
    return state.record


def branch(scope: Scope, index: int) -> Scope:
    """The scope of one parallel branch."""
    return replace(scope, node_id=branch_node(scope.node_id, index))


def asked_again(scope: Scope, identity: CallIdentity, row: CallRow | None) -> None:
    """The code asked for this call: it is not outstanding any more.

    Nor are the calls that its own body made: its receipt answers, so nobody asks for them again.
    """
    for state in scope.steps:
        state.outstanding.pop(identity, None)
        state.later.pop(identity, None)
        if row is not None and row.finished_at is not None:
            # A copy: other branches ask at the same time.
            for inner in list(state.outstanding.values()):
                if _made_by(row, inner):
                    state.outstanding.pop(inner.identity, None)


def _made_by(outer: CallRow, inner: CallRow) -> bool:
    """Whether a call began in the same place while another one was under way there."""
    assert outer.finished_at is not None
    same_place = outer.identity[:3] == inner.identity[:3]
    return same_place and outer.created_at <= inner.created_at <= outer.finished_at


def admit(scope: Scope, identity: CallIdentity) -> Iterable[Ask]:
    """Let a new effect through, or refuse it: ``yield from admit(...)``."""
    refuse_in_fork(scope, identity)
    return _admit_into_step(scope, identity) if scope.steps else ()


def _admit_into_step(scope: Scope, identity: CallIdentity) -> Doing[None]:
    """Let a new effect into its step, or refuse it because the code has drifted."""
    state = scope.steps[0]
    if state.finished:
        raise ReplayDriftError(
            f"Step {scope.node_id!r} of run {scope.session.run_id!r} is finished and only "
            f"replays, but the code asks it for a new effect of {identity.tool_name!r}. It was "
            "not sent. If this is another visit, say so: nt.step(name, at=...).",
            call_id=identity.call_id,
        )
    yield from _wait_for_twin(scope, identity)
    here = [
        row
        for open_step_state in scope.steps
        for row in list(open_step_state.outstanding.values())
        if is_inside(row.identity.node_id, scope.node_id) or _is_twin(row, identity)
    ]
    later = [
        row
        for open_step_state in scope.steps
        for row in list(open_step_state.later.values())
        if not branches_differ(row.identity.node_id, scope.node_id)
    ]
    if here or later:
        wants = f"the code asks for a new effect of {identity.tool_name!r}"
        yield from _refuse(scope, here or later, wants)


def refuse_in_fork(scope: Scope, identity: CallIdentity) -> None:
    """A fork makes no attempt at all, neither a first nor another one (L10)."""
    run = scope.session.run
    if run.origin is not None:
        raise NewEffectInFork(
            f"Run {run.workflow_id!r} is a fork of {run.origin!r}, which has no receipt of this "
            f"call of {identity.tool_name!r}. It was not sent: a fork looks at what would have "
            "been, and never does it. Start a run of its own for new effects.",
            call_id=identity.call_id,
            run_id=run.workflow_id,
            origin=run.origin,
        )


def _wait_for_twin(scope: Scope, identity: CallIdentity) -> Doing[None]:
    """Give a sibling branch a moment to ask for the very same effect, which it holds.

    Two branches may mean the same thing twice. But if nobody asks for the one on record, the
    items have changed places, and this would be the second effect for one of them.
    """
    waited = 0.0
    while waited < TWIN_SECONDS and any(
        _is_twin(row, identity) for state in scope.steps for row in list(state.outstanding.values())
    ):
        yield Pause(TWIN_SECONDS / 50)
        waited += TWIN_SECONDS / 50


def _is_twin(row: CallRow, identity: CallIdentity) -> bool:
    return (row.identity.tool_name, row.identity.input_hash) == (
        identity.tool_name,
        identity.input_hash,
    )


def _refuse(scope: Scope, outstanding: list[CallRow], wants: str) -> Doing[None]:
    """Stop for drift, unless a person has accepted it; the acceptance is used up."""
    session, first = scope.session, outstanding[0]
    waiver = session.waivers.pop(first.identity, None)
    if waiver is not None:
        used = waiver.used(now=session.clock.now())
        try:
            yield from session.commit(reviews=(ReviewWrite(used, waiver.version),))
        except Outdated:
            # It was taken back at this very moment: then a person is asked again.
            session.say("the acceptance was taken back", first)
        else:
            for state in scope.steps:
                state.outstanding.clear()
                state.later.clear()
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
    held = yield _calls_of(record)
    for row in held:
        if _is_effect(row):
            state.outstanding[row.identity] = row
    later = yield Read(lambda store: store.steps(session.run_id, after=record.ordinal))
    for step in later:
        if is_inside(step.node_id, record.node_id):
            continue
        rows = yield _calls_of(step)
        for row in rows:
            if _is_effect(row):
                state.later[row.identity] = row


def _calls_of(step: StepRecord) -> Read:
    """What one visit of a step holds, with the steps inside it."""
    run, visit = step.workflow_id, step.checkpoint_id
    return Read(lambda store: store.calls_under(run, step.node_id, visit=visit))


def _is_effect(row: CallRow) -> bool:
    """Whether code that no longer asks for a call has drifted; a child run is made of effects."""
    effectful = row.replay_class.effectful or row.identity.tool_name == SPAWN
    return effectful and row.status is CallStatus.DONE
