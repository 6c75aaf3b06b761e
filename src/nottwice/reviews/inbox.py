"""The reviews of one ledger, for Python programs: list, decide, undo, ask ``verify`` again (H4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from nottwice.guard import registry
from nottwice.guard.check.importing import check_not_importing
from nottwice.guard.ledger import Ledger, open_ledger
from nottwice.model.review import Review
from nottwice.reviews import decide as decisions
from nottwice.reviews.queue import Case, find_case, open_cases
from nottwice.reviews.recheck import Rechecked, recheck

_NOTHING: Final = object()


class Reviews:
    """What waits for a person in one ledger, and how to answer.

    ``nt.Reviews("agent.db")`` opens a ledger that is there; it never creates one.
    """

    def __init__(self, store: str | Path | Ledger) -> None:
        self._ledger = store if isinstance(store, Ledger) else open_ledger(store, create=False)

    def close(self) -> None:
        """Close the ledger."""
        self._ledger.close()

    def __enter__(self) -> Reviews:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def open(self, run_id: str | None = None) -> list[Case]:
        """All reviews that are open, or decided and not used yet, oldest first."""
        return open_cases(self._ledger.store, run_id)

    def find(self, review_id: str) -> Case:
        """One review, by its id or a prefix of it that names only one."""
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
        """Decide a review; it takes effect when the run is opened the next time.

        What may have happened: ``"happened"`` (with ``result=``) or ``"did-not-happen"``. Drift:
        ``"accept"``. A question: one of its options, or ``"answer"`` with ``result=``. A call that
        needs approval: ``"approve"`` or ``"reject"``. Each: ``"abort"``. To answer or to approve
        needs no ``why``; all else does.

        Durable: when it returns. If the tool is declared in this process, the result is checked
        against its return type first. Raises DecisionConflict if somebody decided otherwise.
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
        """Take a decision back that nobody has used yet.

        Durable: when it returns.
        """
        check_not_importing(f"The decision of review {review_id!r} is taken back")
        return decisions.undo(self._ledger.store, self._ledger.clock, review_id, by=by, why=why)

    def recheck(self, tool: str | None = None) -> list[Rechecked]:
        """Ask ``verify`` again about everything open, or about one tool. Nothing is fired."""
        check_not_importing("Hooks are asked about open reviews")
        store, clock = self._ledger.store, self._ledger.clock
        return list(recheck(store, clock, registry.find_tool, tool_name=tool))
