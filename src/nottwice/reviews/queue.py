"""The reviews that wait for a person, with all that is known about them (H2, H4)."""

from __future__ import annotations

from nottwice.errors import UnknownReview, UsageError
from nottwice.model.call import CallRow
from nottwice.model.records import frozen_record
from nottwice.model.review import Evidence, Review, Verb
from nottwice.model.run import HolderRecord, Life
from nottwice.store.interface import Store


@frozen_record(frozen=True, slots=True)
class Case:
    """A review with its call, the evidence for it, and what is known about the old holder."""

    review: Review
    row: CallRow | None
    evidence: tuple[Evidence, ...]
    holder: HolderRecord | None
    holder_life: Life

    @property
    def attempt_is_over(self) -> bool:
        """Whether the doubtful attempt is proven over: recorded so, or its process is dead."""
        if self.row is not None and self.row.finished_at is not None:
            return True
        return self.holder_life is Life.DEAD


def open_cases(store: Store, workflow_id: str | None = None) -> list[Case]:
    """Return all reviews that are open, or decided but not used yet, oldest first."""
    return [case_of(store, review) for review in store.open_reviews(workflow_id)]


def find_case(store: Store, review_id: str) -> Case:
    """Return one review, by its id or by a unique prefix of it."""
    found = store.find_reviews(review_id) if review_id else []
    exact = [review for review in found if review.review_id == review_id]
    matches = exact or found
    if not matches:
        raise UnknownReview(
            f"There is no review {review_id!r} in {store.location}. Nothing was changed. "
            "List them with: nottwice reviews"
        )
    if len(matches) > 1:
        names = ", ".join(review.review_id for review in matches[:5])
        raise UsageError(f"{review_id!r} is a prefix of several reviews: {names}.")
    return case_of(store, matches[0])


def case_of(store: Store, review: Review) -> Case:
    """Return a review with all that is known about it."""
    row = store.load_call(review.identity)
    holder = store.load_holder(row.holder_id) if row is not None else None
    life = store.life_of(row.holder_id) if row is not None else Life.NOT_PROVEN
    return Case(
        review=review,
        row=row,
        evidence=tuple(store.evidence(review.identity.workflow_id, review.call_id)),
        holder=holder,
        holder_life=life,
    )


def needs_reason(verb: Verb | None) -> bool:
    """Whether a decision must say why; an answer or an approval need not. None is an undo."""
    return verb not in (Verb.ANSWER, Verb.APPROVE)
