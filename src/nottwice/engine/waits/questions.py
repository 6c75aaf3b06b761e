"""Open questions and approvals of a run: what became of them, and which are not needed (H1)."""

from __future__ import annotations

from nottwice.engine.asks import Doing, Read
from nottwice.engine.session import Scope, Session
from nottwice.model.call import CallIdentity
from nottwice.model.review import Review, ReviewStatus
from nottwice.model.runs.places import is_inside, is_visit_of
from nottwice.store.interface import Outdated, ReviewWrite


def pending_review(session: Session, identity: CallIdentity) -> Doing[Review | None]:
    """Return the unused question or approval about this call, as it is now.

    Only the holder asks, and it knows what was open when it claimed the run. What people decided
    since is looked up for this call alone.
    """
    known = session.stops.asked.get(identity)
    if known is None:
        return None
    now: Review | None = yield _stored(known)
    if now is None or now.status not in (ReviewStatus.OPEN, ReviewStatus.DECIDED):
        session.stops.forget(identity)
        return None
    session.stops.ask(now)
    return now


def close_unasked(scope: Scope) -> Doing[None]:
    """Close the questions and approvals of a step that finishes without asking for them.

    The code has changed or took another path. A person must not be left with a question whose
    answer is not needed. Durable: when this returns.
    """
    session = scope.session
    visit = scope.steps[0].record
    for identity, review in list(session.stops.asked.items()):
        inside = is_inside(identity.node_id, visit.node_id)
        if inside and is_visit_of(identity.checkpoint_id, visit.checkpoint_id):
            yield from _close(session, review, by=f"step {visit.node_id!r}, which did not ask")
            session.stops.forget(identity)


def _close(session: Session, review: Review, *, by: str) -> Doing[None]:
    while True:
        now: Review | None = yield _stored(review)
        if now is None or now.status not in (ReviewStatus.OPEN, ReviewStatus.DECIDED):
            return
        closed = now.closed(by, now=session.clock.now())
        try:
            yield from session.commit(reviews=(ReviewWrite(closed, now.version),))
        except Outdated:
            # A person decides at this moment. The decision is kept, and the review is closed
            # anyway.
            continue
        return


def _stored(review: Review) -> Read:
    return Read(lambda store: store.load_review(review.review_id))
