"""Resolves calls in doubt: with the stored key, ``verify``, a decision, or a review (D2, D10).

Promises kept here: P2, P3, P4 (through the decision table), P15 (calls in doubt are reconciled
before user code runs), P16 (a person's licence is consumed by the commit that records the attempt
it allows), P103 (no fingerprint is sent in place of a secret), P132 (a decision is kept until it
can be used, and one doubt has one review).
"""

from __future__ import annotations

from collections.abc import Sequence

from nottwice.engine.asks import Apart, CanInvoke, Doing, Pause, Read, Verify
from nottwice.engine.calls.attempt import Attempted, StillRunning, attempt
from nottwice.engine.calls.in_flight import InFlight
from nottwice.engine.calls.invocation import Invocation, record_suffices
from nottwice.engine.doubts import blocking, lost_results, restored
from nottwice.engine.doubts.aborting import abort_if_decided
from nottwice.engine.doubts.doubt import Doubt, look_into, reviews_of
from nottwice.engine.doubts.telling import Settler, doubt_ended
from nottwice.engine.hiding import kept
from nottwice.engine.session import Scope, Session
from nottwice.errors import NottwiceError, RunAborted, RunBlocked
from nottwice.model import values
from nottwice.model.call import CallRow, ResultKind, call_from_row, own_branch
from nottwice.model.decision import Action, Answer, decide
from nottwice.model.review import Review, ReviewKind, ReviewStatus, Verb
from nottwice.model.tool import Tool
from nottwice.store.interface import Outdated, ReviewWrite


def resolve(
    session: Session,
    tool: Tool,
    row: CallRow,
    mine: InFlight,
    *,
    invocation: Invocation | None,
    unfit: str = "",
) -> Doing[tuple[CallRow, Attempted | None]]:
    """End the doubt about one call, or raise RunBlocked with a review on record.

    ``unfit``: why there is no ``invocation``. Durable: whatever ended the doubt, when this returns.
    """
    if row.identity in session.unrecorded:
        return (yield from _record_what_is_known(session, row)), None
    doubt = yield from look_into(session, tool, row, invocation, unfit=unfit)
    while True:
        try:
            ended = yield from _end_or_learn(doubt, mine)
        except Outdated:
            # At this moment a person decided or took a decision back. Look again.
            doubt = yield from look_into(session, tool, doubt.row, invocation, unfit=unfit)
            continue
        if ended is not None:
            return ended


def _end_or_learn(doubt: Doubt, mine: InFlight) -> Doing[tuple[CallRow, Attempted | None] | None]:
    """Carry out one decision. None: the doubt remains, and more is known about it."""
    session, tool = doubt.session, doubt.tool
    action = decide(doubt.facts())
    session.say(action.value, doubt.row, f"said={doubt.said!r}" if doubt.said else "")
    match action:
        case Action.REISSUE | Action.NEW_ATTEMPT if doubt.may_try_again():
            rest = doubt.rest_seconds()
            if rest > 0.0:
                # What is true now, such as an open window, may not be true after the pause.
                yield Pause(doubt.wait_or_leave(rest))
                return None
            attempted = yield from _attempt_again(doubt, mine)
            if not attempted.row.status.in_doubt:
                by: Settler = "person" if doubt.licensed else "attempt"
                if doubt.answer is Answer.DID_NOT_HAPPEN:
                    by = "verify"
                doubt_ended(session, attempted.row, by)
                return attempted.row, attempted
            doubt.failed_again(attempted.row)
        case Action.ASK_VERIFY:
            doubt.asked_at = session.clock.now()
            known = yield Read(lambda store: store.evidence(session.run_id, doubt.row.call_id))
            limit = doubt.verify_seconds()
            outcome = yield Verify(tool, call_from_row(doubt.row), limit)
            doubt.leave_if_cut_short(outcome)
            doubt.take(outcome, known)
        case Action.WAIT_AND_ASK_AGAIN:
            yield Pause(doubt.wait_or_leave(doubt.next_wait()))
            doubt.answer = None
        case Action.RECORD_HAPPENED:
            return (yield from _record_happened(doubt)), None
        case Action.RECORD_VERDICT:
            return (yield from _record_verdict(doubt)), None
        case _:
            raise (yield from blocking.open_review(session, doubt.row, doubt.reason()))
    return None


def _attempt_again(doubt: Doubt, mine: InFlight) -> Doing[Attempted]:
    """Make one more attempt. The commit of its intent consumes a person's licence."""
    session, row, review = doubt.session, doubt.row, doubt.review
    assert doubt.invocation is not None
    now = session.clock.now()
    intent = row.next_attempt(
        attempt_id=session.new_attempt_id(), holder_id=session.holder.holder_id, now=now
    )
    licensed = doubt.licensed
    if licensed or doubt.answer is Answer.DID_NOT_HAPPEN:
        # It is established that no earlier attempt took effect.
        intent = intent._replace(ambiguous=False)
    writes: tuple[ReviewWrite, ...] = ()
    if review is not None:
        after = review.used(now=now) if licensed else review.closed("another attempt", now=now)
        writes = (ReviewWrite(after, review.version),)
    made = attempt(
        session,
        doubt.tool,
        intent,
        mine,
        before=row,
        invocation=doubt.invocation,
        reviews=writes,
    )
    # A run that is opened in an event loop reconciles in the task of its caller, and an attempt
    # that is cancelled half-way would be in doubt.
    attempted: Attempted = yield Apart(made)
    return attempted


def _record_what_is_known(session: Session, row: CallRow) -> Doing[CallRow]:
    """Write an outcome that this process saw but could not write before."""
    write = session.unrecorded[row.identity]
    yield from session.commit(calls=(write,))
    session.outcome_is_written(row.identity)
    session.say("record the outcome that could not be written before", write.row)
    return write.row


def _record_happened(doubt: Doubt) -> Doing[CallRow]:
    session, now = doubt.session, doubt.session.clock.now()
    stored = kept(doubt.tool, doubt.result)
    row = doubt.row.done(stored, now=now, settled_by="verify")
    closing = yield from blocking.closing_reviews(session, row, by="verify")
    yield from session.commit_row(row, after=doubt.row, reviews=closing)
    doubt_ended(session, row, "verify")
    return row


def _record_verdict(doubt: Doubt) -> Doing[CallRow]:
    """Turn the result that a person gave into the receipt if it fits the tool. Else ask again."""
    session, review, now = doubt.session, doubt.review, doubt.session.clock.now()
    assert review is not None
    assert review.decision is not None
    given = review.decision.result
    try:
        if given is not None and given.kind is ResultKind.NOT_KEPT:
            # Verify found an effect whose result cannot be kept, and that is what is on record.
            stored = given
        else:
            stored = doubt.tool.adopt_result(values.decode(given.json) if given else None)
    except NottwiceError as error:
        doubt.note("engine", f"the result given by {review.decision.by} does not fit: {error}")
        yield from session.commit(reviews=(ReviewWrite(review.undone(), review.version),))
        raise blocking.blocked_by(session, review, row=doubt.row) from error
    row = doubt.row.done(stored, now=now, settled_by=f"decision by {review.decision.by}")
    used = (ReviewWrite(review.used(now=now), review.version),)
    yield from session.commit_row(row, after=doubt.row, reviews=used)
    doubt_ended(session, row, "person")
    return row


def reconcile_all(session: Session, *, for_all: bool = True) -> Doing[None]:
    """End every doubt that can be ended when a run is claimed, before user code runs.

    Raises RunBlocked for all open reviews, after all calls in doubt have been tried. ``for_all``:
    False if a review about one call holds back only this call (P241).
    """
    if not session.standing.reviews and not session.standing.in_doubt:
        return
    yield from abort_if_decided(session)
    blocked: list[RunBlocked] = []
    for row in (yield Read(lambda store: store.calls_in_doubt(session.run_id))):
        try:
            yield from reconcile_one(session, row)
        except RunBlocked as error:
            if for_all:
                blocked.append(error)
    yield from raise_if_blocked(session, known=blocked, for_all=for_all)


def reconcile_one(session: Session, row: CallRow) -> Doing[None]:
    """End the doubt about one recorded call, without its caller."""
    tool = session.host.find_tool(row.identity.tool_name)
    if tool is None:
        yield from _without_tool(session, row)
        return
    mine, ours = session.in_flight.enter(row.identity, None)
    if not ours:
        return
    # Calls made by its body belong to where it was called, not to where it is resolved.
    mine.scope = Scope(session, row.identity.node_id, row.identity.checkpoint_id)
    late = False
    rebuild = tool.rebuild if record_suffices(tool, row) else None
    try:
        if rebuild is None or not (yield CanInvoke(tool)):
            yield from _without_caller(session, tool, row)
            return
        invocation: Invocation | None = None
        unfit = ""
        try:
            invocation = rebuild(values.decode_object(row.args_json))
        except NottwiceError as error:
            unfit = str(error)
            session.say("arguments no longer fit", row, repr(unfit))
        yield from resolve(session, tool, row, mine, invocation=invocation, unfit=unfit)
    except StillRunning as error:
        late = True
        raise error.blocked from None
    finally:
        if not late:
            session.in_flight.leave(mine)


def _without_caller(session: Session, tool: Tool, row: CallRow) -> Doing[None]:
    """Handle a doubt that waits for its caller.

    Without running the body, only the fact that the call happened can be recorded.
    """
    while True:
        doubt = yield from look_into(session, tool, row, None)
        if decide(doubt.facts()) is not Action.RECORD_VERDICT:
            session.say("leave in doubt until it is asked for", row)
            return
        try:
            yield from _record_verdict(doubt)
        except Outdated:
            # The person took the decision back at this moment.
            continue
        return


def _without_tool(session: Session, row: CallRow) -> Doing[None]:
    """Handle a doubt about a tool that this process does not know.

    A result that a person gave is adopted (P132). Durable: the receipt, or the review, when this
    returns or raises.
    """
    reviews = yield from reviews_of(session, row)
    for review in reviews:
        decision = review.decision
        if decision is None or review.attempt_id != row.attempt_id:
            continue
        if decision.verb is Verb.HAPPENED:
            done = lost_results.given_without_tool(row, decision, now=session.clock.now())
            used = (ReviewWrite(review.used(now=session.clock.now()), review.version),)
            yield from session.commit_row(done, after=row, reviews=used)
            doubt_ended(session, done, "person")
            return
        if decision.verb is Verb.DID_NOT_HAPPEN and session.opening.lists_tools:
            # The code that asked for it tells its model that the tool is gone, and uses it (P231).
            session.say("leave in doubt until it is asked for", row)
            return
    if session.run.graph_id is None and own_branch(row.identity) == row.identity:
        # A program that is attached to the run asked for it, and brings the body with the next
        # call (P240).
        session.say("leave in doubt until it is asked for", row)
        return
    reason = (
        "it may or may not have happened, and the process that opened the run does not declare "
        "its tool: import the module that declares it, then open the run again"
    )
    raise (yield from blocking.open_review(session, row, reason))


def raise_if_blocked(
    session: Session,
    *,
    known: Sequence[RunBlocked] = (),
    refused: CallRow | None = None,
    for_all: bool = True,
) -> Doing[None]:
    """Use the decisions that people have made since. Raise if a review is still open (D11, P133).

    ``known``: errors that occurred before. ``refused``: the intent of a call that is not made
    because of them. ``for_all``: False if reviews about one call are no reason to raise.
    """
    # A review that was open when it was met may have been decided since. Then it is used below.
    met = {error.review_id: error for error in known}
    blocked = [error for error in known if error.review_id is None]
    for review in (yield from abort_if_decided(session)):
        try:
            yield from _use_or_wait(session, review)
        except RunAborted:
            raise
        except RunBlocked as error:
            if for_all or not review.is_about_one_call:
                blocked.append(met.get(review.review_id, error))
        except Outdated:
            # At this moment a person decides, or another thread uses a decision. Look again.
            yield from raise_if_blocked(session, known=known, refused=refused, for_all=for_all)
            return
    if blocked:
        raise blocking.blocked_by_all(session, blocked, refused=refused)


def _use_or_wait(session: Session, review: Review) -> Doing[None]:
    """Use one decision, or raise RunBlocked if this review blocks the run."""
    decided = review.status is ReviewStatus.DECIDED
    if review.kind is ReviewKind.DRIFT and decided:
        session.drift.accept(review)
    elif review.kind.asks_first:
        # It holds back only the code that asks for it. That code looks for itself.
        session.stops.ask(review)
    elif review.kind is ReviewKind.UNDEPLOYABLE:
        yield from _close_undeployable(session, review)
    elif review.kind is ReviewKind.CORRUPT:
        # It was checked when the run was opened.
        return
    elif review.kind is ReviewKind.RESTORED:
        yield from restored.end_hold(session, review)
    elif review.kind is ReviewKind.RESULT:
        yield from lost_results.use_or_wait(session, review)
    elif review.kind is ReviewKind.IN_DOUBT:
        yield from _use_about_doubt(session, review)
    else:
        raise blocking.blocked_by(session, review)


def _use_about_doubt(session: Session, review: Review) -> Doing[None]:
    row = yield _reviewed_call(review)
    now = session.clock.now()
    if row is not None and _ended_by_itself(row, review):
        # The attempt returned between its time limit and this review.
        closed = review.closed("the late outcome", now=now)
        yield from session.commit(reviews=(ReviewWrite(closed, review.version),))
    elif review.status is not ReviewStatus.DECIDED:
        raise blocking.blocked_by(session, review, row=row)
    elif row is not None and row.status.in_doubt:
        yield from reconcile_one(session, row)
    else:
        # The doubt ended in another way. The decision is noted and changes nothing.
        used = review.used(now=now)
        yield from session.commit(reviews=(ReviewWrite(used, review.version),))


def _close_undeployable(session: Session, review: Review) -> Doing[None]:
    """Close a review that says no worker has the code: the holder of the run has it."""
    closed = review.closed("a version that can take the run", now=session.clock.now())
    try:
        yield from session.commit(reviews=(ReviewWrite(closed, review.version),))
    except Outdated:
        # A person decided at this moment.
        yield from abort_if_decided(session)


def _ended_by_itself(row: CallRow, review: Review) -> bool:
    """Whether the attempt that a review asks about has recorded its own outcome."""
    settled = not row.status.in_doubt and row.settled_by is None
    return settled and row.attempt_id == review.attempt_id


def _reviewed_call(review: Review) -> Read:
    return Read(lambda store: store.load_call(review.identity))
