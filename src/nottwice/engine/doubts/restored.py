"""A ledger that is a copy may lack receipts. Its runs ask a person before they continue (L8).

A copy carries a mark: an audit entry of the ledger itself that belongs to no run. While the mark is
there, every run that existed when the copy was made is held when it is first opened, before any
doubt is settled. The run may have continued elsewhere, and the copy does not know what it did. A
person states, for the run or for the whole ledger, that this is accounted for.
Promise kept here: P91.
"""

from __future__ import annotations

from nottwice.engine.asks import Doing, Read
from nottwice.engine.doubts import blocking
from nottwice.engine.session import Session
from nottwice.model import values
from nottwice.model.call import FIRST_CHECKPOINT, ROOT_NODE, CallIdentity
from nottwice.model.data.calendar import utc
from nottwice.model.review import (
    ACCOUNTED_FOR,
    COPIED,
    FAILOVER,
    HELD,
    LOST,
    VOUCHED,
    AuditEntry,
    Review,
    ReviewKind,
    ReviewStatus,
    Verb,
    found_text,
)
from nottwice.model.run import RunStatus
from nottwice.model.tool import OWN_PREFIX
from nottwice.store.interface import LEDGER, Outdated, ReviewWrite, RunUpdate, Store

_ABOUT = f"{OWN_PREFIX}copy"


def mark_of(store: Store) -> AuditEntry | None:
    """Return the entry that marks a ledger as a copy. None: it is not a copy, or no longer."""
    entries = [one for one in store.audit(LEDGER) if one.action in (COPIED, ACCOUNTED_FOR)]
    return entries[-1] if entries and entries[-1].action == COPIED else None


def is_failover(mark: AuditEntry) -> bool:
    """Whether a copy was made by a failover and not by a backup."""
    return mark.subject.startswith(FAILOVER)


def hold_if_copied(session: Session) -> Doing[None]:
    """Raise RunBlocked for a run that may have continued elsewhere since this copy was made.

    Durable: the review, when it is raised.
    """
    run = session.run
    if not session.standing.ledger_audit:
        return
    mark: AuditEntry | None = yield Read(mark_of)
    if mark is None or run.created_at > mark.at:
        return
    if (yield Read(lambda store: _is_vouched_for(store, run.workflow_id, mark))):
        return
    wanted = _review(run.workflow_id, mark, now=session.clock.now())
    known: Review | None = yield Read(lambda store: store.load_review(wanted.review_id))
    if known is None:
        update = RunUpdate(RunStatus.WAITING, wanted.opened_at, waits=session.stops.waits([wanted]))
        audit = _as_found(session, mark)
        yield from session.commit(reviews=(ReviewWrite(wanted),), run=update, audit=audit)
        session.say("ask a person", wanted.identity, f"review={wanted.review_id}")
        raise blocking.blocked_by(session, wanted)
    accepted = known.decision is not None and known.decision.verb is Verb.ACCEPT
    if known.status is ReviewStatus.OPEN:
        raise blocking.blocked_by(session, known)
    if known.status is ReviewStatus.DECIDED and accepted:
        yield from end_hold(session, known)


def end_hold(session: Session, review: Review) -> Doing[None]:
    """Use the decision about a held run, or close it if the whole copy is accounted for."""
    now = session.clock.now()
    if review.status is ReviewStatus.DECIDED:
        after = review.used(now=now)
    elif (yield Read(mark_of)) is None:
        after = review.closed("an account for the whole copy", now=now)
    else:
        raise blocking.blocked_by(session, review)
    try:
        yield from session.commit(reviews=(ReviewWrite(after, review.version),))
    except Outdated:
        # At this moment a person decides or takes a decision back.
        raise blocking.blocked_by(session, review) from None


def _is_vouched_for(store: Store, run_id: str, mark: AuditEntry) -> bool:
    """Whether the process that held the run has found its last commit in this copy."""
    return any(one.action == VOUCHED and one.subject == mark.subject for one in store.audit(run_id))


def _as_found(session: Session, mark: AuditEntry) -> tuple[AuditEntry, ...]:
    """Record how the run was before this claim, for processes that may still vouch for it."""
    found = session.found
    if found is None or not is_failover(mark):
        return ()
    why = found_text(found.epoch, found.updated_at)
    who = session.holder.describe()
    return (AuditEntry(found.workflow_id, mark.at, who, HELD, mark.subject, why),)


def _review(run_id: str, mark: AuditEntry, *, now: float) -> Review:
    about = values.hash_of({"copy": mark.subject})
    identity = CallIdentity(run_id, ROOT_NODE, FIRST_CHECKPOINT, _ABOUT, about)
    made = f"{utc(mark.at):%Y-%m-%d %H:%M:%S}"
    missing = "whatever the run has done since is not in it"
    summary = f"this ledger is a copy made on {made} UTC, and {missing}"
    if is_failover(mark):
        summary = f"{mark.why}; the last change that the ledger knows is of {made} UTC"
    elif mark.subject.startswith(LOST):
        summary = f"{mark.why} from this ledger, as found on {made} UTC"
    return Review(
        # Derived from the subject, so that the next process to open the run asks the same question.
        review_id=identity.call_id[:8],
        kind=ReviewKind.RESTORED,
        status=ReviewStatus.OPEN,
        identity=identity,
        call_id=identity.call_id,
        attempt_id="",
        summary=summary,
        opened_at=now,
    )
