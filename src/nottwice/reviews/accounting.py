"""A person accounts for a whole copy: its runs continue, even those that already wait (P286)."""

from __future__ import annotations

from nottwice.engine.doubts.restored import mark_of
from nottwice.errors import DecisionConflict
from nottwice.guard.ledger import Ledger
from nottwice.guard.upkeep import backup
from nottwice.model.review import Review, ReviewKind, ReviewStatus, Verb
from nottwice.reviews.decide import decide


def account_for(ledger: Ledger, *, by: str, why: str) -> None:
    """Record that everything since a copy was made is accounted for, in all its runs.

    A run that is held already waits for a review, and no worker opens it before that is decided. So
    each of these reviews gets the same answer. If this is interrupted, repeat it.
    Durable: when it returns.
    """
    waiting = _held(ledger)
    if mark_of(ledger.store) is not None or not waiting:
        backup.account_for(ledger, by=by, why=why)
    if mark_of(ledger.store) is not None:
        return  # It was marked again meanwhile, and that is not accounted for.
    for review in _held(ledger):
        try:
            decide(ledger.store, ledger.clock, review.review_id, Verb.ACCEPT, by=by, why=why)
        except DecisionConflict:
            continue  # Another person was quicker, or the run was just opened.


def _held(ledger: Ledger) -> list[Review]:
    found = ledger.store.open_reviews()
    held = (review for review in found if review.kind is ReviewKind.RESTORED)
    return [review for review in held if review.status is ReviewStatus.OPEN]
