"""The reviews that wait for a person, with all that is known about them (H2, H4)."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any, TypeVar

from nottwice.engine.doubts.blocking import decide_command
from nottwice.errors import LedgerCorrupt, UnknownReview, UsageError
from nottwice.model import values
from nottwice.model.call import CallRow
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Evidence, Review, Verb
from nottwice.model.run import HolderRecord, Life
from nottwice.model.tools.tool_record import ToolRecord
from nottwice.store.interface import Store

T = TypeVar("T")


@frozen_record(frozen=True, slots=True)
class Case:
    """A review with its call, the evidence for it, and what is known about the old holder."""

    review: Review
    row: CallRow | None
    evidence: tuple[Evidence, ...]
    holder: HolderRecord | None
    holder_life: Life
    tool: ToolRecord | None = None
    """What the ledger knows about the tool of the call."""

    @property
    def result_schema(self) -> Any:
        """The JSON schema of a result; None if it is not known, or anything fits."""
        stored = None if self.tool is None else self.tool.result_json
        return None if stored is None else values.decode(stored)

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
    """Return one review with all that is known about it, by its id or a unique prefix of it."""
    return case_of(store, find_review(store, review_id))


def find_review(store: Store, review_id: str) -> Review:
    """Return one review, by its id or by a unique prefix of it."""
    found = store.find_reviews(review_id) if review_id else []
    exact = [review for review in found if review.review_id == review_id]
    matches = exact or found
    if not matches:
        _refuse_run(store, review_id)
        raise UnknownReview(
            f"There is no review {review_id!r} in {store.location}. Nothing was changed. "
            f"List them with: nottwice reviews --store {shlex.quote(store.location)}"
        )
    if len(matches) > 1:
        names = ", ".join(review.review_id for review in matches[:5])
        raise UsageError(f"{review_id!r} is a prefix of several reviews: {names}.")
    return matches[0]


def _refuse_run(store: Store, run_id: str) -> None:
    """Name the reviews of the run whose id was given instead."""
    waiting = [review.review_id for review in store.open_reviews(run_id)] if run_id else []
    if waiting:
        raise UnknownReview(
            f"{run_id!r} is a run in {store.location}, and this command needs a review of it: "
            f"{', '.join(waiting[:5])}. Nothing was changed. Look at it with: "
            f"{decide_command(waiting[0], store.location)}"
        )


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
        tool=known_tool(store, review.identity.tool_name),
    )


def known_tool(store: Store, name: str) -> ToolRecord | None:
    """Return what is recorded about a tool; None if nothing is, or if it cannot be believed.

    A case must be shown even if its title cannot be. ``nottwice audit --verify`` names the row.
    """
    return believed(lambda: store.load_tool(name), None)


def believed(read: Callable[[], T], otherwise: T) -> T:
    """Return what is read from a ledger, or ``otherwise`` if it cannot be believed.

    It is for what is only shown: one changed row must not hide all others from a person (P410).
    Nothing may act on ``otherwise``. ``nottwice audit --verify`` names the row.
    """
    try:
        return read()
    except LedgerCorrupt:
        return otherwise


def needs_reason(verb: Verb | None) -> bool:
    """Whether a decision must say why; an answer or an approval need not. None is an undo."""
    return verb not in (Verb.ANSWER, Verb.APPROVE)
