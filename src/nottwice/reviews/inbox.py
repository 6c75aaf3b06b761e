"""The reviews of one ledger, for Python programs: list, decide, undo, recheck (H4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from nottwice.guard import registry
from nottwice.guard.check.importing import check_not_importing
from nottwice.guard.ledger import Ledger
from nottwice.model.review import Review
from nottwice.reviews import decide as decisions
from nottwice.reviews.queue import Case, find_case, open_cases
from nottwice.reviews.recheck import Rechecked, recheck

_NOTHING: Final = object()


class Reviews:
    """The reviews in one ledger that wait for a person, and how to decide them.

    ``nt.Reviews("agent.db")`` opens an existing ledger. It never creates one.
    """

    def __init__(self, store: str | Path | Ledger) -> None:
        self._ledger = store if isinstance(store, Ledger) else Ledger(store, create=False)

    def __repr__(self) -> str:
        return f"<Reviews of {self._ledger.location!r}>"

    def close(self) -> None:
        """Close the ledger."""
        self._ledger.close()

    def __enter__(self) -> Reviews:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def open(self, run_id: str | None = None) -> list[Case]:
        """Return all reviews that are open, or decided but not used yet, oldest first."""
        return open_cases(self._ledger.store, run_id)

    def find(self, review_id: str) -> Case:
        """Return one review, by its id or by a unique prefix of it."""
        return find_case(self._ledger.store, review_id)

    def decide(
        self,
        review_id: str,
        verb: str,
        *,
        by: str,
        why: str = "",
        result: Any = _NOTHING,
        holder_stopped: bool = False,
        shown_version: int | None = None,
    ) -> Review:
        """Decide a review. The decision takes effect when the run is opened next.

        A call in doubt: ``"happened"`` (with ``result=``) or ``"did-not-happen"``. Drift:
        ``"accept"``. A question: one of its options, or ``"answer"`` with ``result=``. A call that
        needs approval: ``"approve"`` or ``"reject"``. Any review: ``"abort"``. Answers and
        approvals need no ``why``. All other decisions do.

        Durable: when it returns. If the tool is declared in this process, the result is first
        checked against its return type. Raises DecisionConflict if the review was already decided
        differently.
        """
        check_not_importing(f"Review {review_id!r} is decided")
        case = self.find(review_id)
        meant, option = decisions.read_verb(case.review, verb)
        if option is not None and result is _NOTHING:
            result = option
        return decisions.decide(
            self._ledger.store,
            self._ledger.clock,
            review_id,
            meant,
            by=by,
            why=why,
            result=None if result is _NOTHING else result,
            has_result=result is not _NOTHING,
            holder_stopped=holder_stopped,
            tool=registry.find_tool(case.review.identity.tool_name),
            shown_version=shown_version,
        )

    def undo(self, review_id: str, *, by: str, why: str) -> Review:
        """Undo a decision that has not been used yet.

        Durable: when it returns.
        """
        check_not_importing(f"The decision of review {review_id!r} is undone")
        return decisions.undo(self._ledger.store, self._ledger.clock, review_id, by=by, why=why)

    def recheck(self, tool: str | None = None) -> list[Rechecked]:
        """Run ``verify`` again for all open reviews, or for one tool. Nothing is fired."""
        check_not_importing("Open reviews are rechecked")
        return list(recheck(self._ledger.host, registry.find_tool, tool_name=tool))
