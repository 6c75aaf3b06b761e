"""A person decides to end a run: nothing more is sent (D11, P133, P415)."""

from __future__ import annotations

from nottwice.engine.asks import Doing, Read
from nottwice.engine.session import Session
from nottwice.errors import RunAborted
from nottwice.model.review import Review, Verb
from nottwice.model.run import RunStatus
from nottwice.store.interface import Outdated, ReviewWrite, RunUpdate


def abort_if_decided(session: Session) -> Doing[list[Review]]:
    """Raise RunAborted if a person has decided so, in a review of any kind.

    It is raised again whatever is done next, because code may swallow it. Otherwise return the
    reviews of the run. Durable: the abort, before it is raised.
    """
    session.stops.raise_if_aborted()
    while True:
        reviews: list[Review] = yield Read(lambda store: store.open_reviews(session.run_id))
        review = next(filter(_aborts, reviews), None)
        if review is None or review.decision is None:
            return reviews
        decision, now = review.decision, session.clock.now()
        try:
            yield from session.commit(
                reviews=(ReviewWrite(review.used(now=now), review.version),),
                run=RunUpdate(RunStatus.ABORTED, now),
            )
        except Outdated:
            # The decision was taken back at this moment, and the review is open again.
            continue
        aborted = RunAborted(
            f"Run {session.run_id!r} was aborted by {decision.by}: {decision.why}. Nothing more "
            "was sent. Start a run with another id if it should be done after all.",
            review_id=review.review_id,
        )
        session.stops.end(aborted)
        raise aborted


def _aborts(review: Review) -> bool:
    return review.decision is not None and review.decision.verb is Verb.ABORT
