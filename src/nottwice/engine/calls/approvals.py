"""Calls that a person must approve before they are made (H3).

An approval is bound to the call's whole identity, and so to its arguments. The commit that records
the first intent uses it up. A run that stops before that commit has not used the approval; a run
that dies after it finds the intent. Later attempts of the same call need no new approval. Promise
kept here: P25.
"""

from __future__ import annotations

import secrets

from nottwice.engine.asks import Doing, Read
from nottwice.engine.doubts import blocking
from nottwice.engine.doubts.aborting import abort_if_decided
from nottwice.engine.session import Scope
from nottwice.engine.waits import questions, stops
from nottwice.errors import RejectedByReviewer
from nottwice.model import values
from nottwice.model.asking.asked import WantedCall, shown_in
from nottwice.model.call import CallRow
from nottwice.model.failure import Failure, FailureClass
from nottwice.model.review import Decision, Review, ReviewKind, ReviewStatus, Verb
from nottwice.model.run import RunStatus
from nottwice.model.tool import Tool
from nottwice.store.interface import CallWrite, Outdated, ReviewWrite, RunUpdate

FUTURE_SECONDS = 60.0
_REJECTED = f"{RejectedByReviewer.__module__}.{RejectedByReviewer.__qualname__}"


def authorise(
    scope: Scope, tool: Tool, intent: CallRow, *, before: CallRow | None, why: str = ""
) -> Doing[tuple[ReviewWrite, ...] | None]:
    """Return what the commit of ``intent`` must write to be allowed.

    ``why``: the reason that a policy gives for asking. Returns None if a person rejected the call;
    the rejection is then on record. Raises ApprovalNeeded if the call is not approved, Outdated if
    a person decides at this moment, and Blocked while the run waits because of a doubt.
    """
    session, identity = scope.session, intent.identity
    last = yield from questions.pending_review(session, identity)
    if last is None and (yield from _is_covered(scope, before)):
        return ()
    if last is None:
        raise (yield from _need(scope, tool, intent, expired=None, why=why))
    decision = last.decision
    if decision is None:
        raise _still_open(scope, last)
    if decision.verb is Verb.REJECT:
        yield from _record_rejection(scope, intent, last, decision, before=before)
        return None
    if decision.verb is not Verb.APPROVE:
        yield from abort_if_decided(session)
        raise Outdated(f"review {last.review_id} was decided otherwise")
    if _is_void(decision, tool, now=session.clock.now()):
        raise (yield from _need(scope, tool, intent, expired=last, why=why))
    if _is_for_other_words(last, tool, intent):
        how = "was for other words"
        raise (yield from _need(scope, tool, intent, expired=last, why=why, how=how))
    session.stops.proceed(identity)
    session.say("use the approval", intent, f"review={last.review_id}")
    return (ReviewWrite(last.used(now=session.clock.now()), last.version),)


def _is_covered(scope: Scope, before: CallRow | None) -> Doing[bool]:
    """Whether a used approval covers another attempt of the call that it was for.

    A rejection is a row too, but it covers nothing: making the call after all needs a new approval.
    """
    if before is None:
        return False
    found = yield Read(lambda store: store.reviews(scope.session.run_id))
    return any(
        one.decision is not None and one.decision.verb is Verb.APPROVE
        for one in found
        if one.identity == before.identity
        and (one.kind, one.status) == (ReviewKind.APPROVAL, ReviewStatus.USED)
    )


def _is_void(decision: Decision, tool: Tool, *, now: float) -> bool:
    """Whether an approval is too old, or too far in the future to be clock skew."""
    if tool.approval_seconds is None:
        return False
    return not -FUTURE_SECONDS <= now - decision.at <= tool.approval_seconds


def _is_for_other_words(review: Review, tool: Tool, intent: CallRow) -> bool:
    """Whether a person approved the same effect with other words than it has now (P202)."""
    shown = shown_in(review) if tool.once_per is not None else None
    return isinstance(shown, WantedCall) and shown.args != values.decode_object(intent.args_json)


def _need(
    scope: Scope,
    tool: Tool,
    intent: CallRow,
    *,
    expired: Review | None,
    why: str,
    how: str = "has expired",
) -> Doing[BaseException]:
    """Ask for approval: write the review and the run's reason to wait in one commit."""
    session, now = scope.session, scope.session.clock.now()
    shown = WantedCall(
        tool=tool.name,
        args=values.decode_object(intent.args_json),
        replay_class=tool.replay_class.value,
        lasts_seconds=tool.approval_seconds,
    )
    summary = f"{blocking.call_text(intent)} needs approval"
    if why:
        summary += f" ({why})"
    writes: tuple[ReviewWrite, ...] = ()
    if expired is not None:
        assert expired.decision is not None
        summary += f", because the one by {expired.decision.by} {how}"
        by = "its time limit" if how == "has expired" else "a call in other words"
        closed = expired.closed(by, now=now)
        writes = (ReviewWrite(closed, expired.version),)
    review = Review(
        review_id=secrets.token_hex(4),
        kind=ReviewKind.APPROVAL,
        status=ReviewStatus.OPEN,
        identity=intent.identity,
        call_id=intent.call_id,
        attempt_id="",
        summary=summary,
        opened_at=now,
        about=shown.to_json(),
    )
    yield from session.commit(
        reviews=(*writes, ReviewWrite(review)),
        # Other branches may still be working. All reasons are written when the run is left.
        run=RunUpdate(RunStatus.RUNNING, now, waits=(stops.wait_for(review),)),
        unless_blocked=not scope.heeds_own_reviews_only,
    )
    session.say("ask for approval", intent, f"review={review.review_id}")
    return _still_open(scope, review)


def _still_open(scope: Scope, review: Review) -> BaseException:
    """Return the exception of a call that is not approved yet, and note it first."""
    session = scope.session
    error = blocking.blocked_by(session, review)
    session.stops.ask(review)
    session.stops.note(review.identity, error, stops.wait_for(review))
    return error


def _record_rejection(
    scope: Scope, intent: CallRow, review: Review, decision: Decision, *, before: CallRow | None
) -> Doing[None]:
    """Record that a rejected call failed permanently, without effect, and why."""
    session, now = scope.session, scope.session.clock.now()
    text = f"{decision.by} did not allow it: {decision.why}"
    row = intent.failed(Failure(FailureClass.PERMANENT, _REJECTED, text), now=now)
    yield from session.commit(
        calls=(CallWrite(row, before.state if before else None),),
        reviews=(ReviewWrite(review.used(now=now), review.version),),
        run=RunUpdate(RunStatus.RUNNING, now),
    )
    session.stops.lift(intent.identity)
    session.say("record the rejection", row, f"review={review.review_id}")
