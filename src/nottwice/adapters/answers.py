"""Which review does an answer decide that comes through a framework? Only its own (P245).

The framework's own yes never says whether something happened. For a doubt it means "look again":
what was decided in the inbox is used, and if nothing was decided the call pauses again.
"""

from __future__ import annotations

import asyncio
from typing import Any

from nottwice.errors import UnknownReview
from nottwice.guard.attached.handle import Handle
from nottwice.model.asking.answers import GivenAnswer, read_answer
from nottwice.model.review import Review, ReviewKind, ReviewStatus, Verb
from nottwice.reviews import decide as decisions


def answer(
    handle: Handle, review_id: str | None, given: object, *, by: str = "a user of the framework"
) -> str | None:
    """Decide the review of one call with what came back through a framework.

    ``review_id``: the review that the call raised. ``given``: a payload made by
    ``nt.happened(...).payload(...)`` and the like. True or False decides an approval and nothing
    else. Returns the decision, or None if nothing was decided: make the call again, and it uses
    what was decided elsewhere or raises its review again. A payload for another review decides
    nothing, either. ``by``: who said yes or no in the framework's own way.
    Durable: the decision, when it returns.
    """
    told = read_answer(given)
    if (told is None and not isinstance(given, bool)) or review_id is None:
        return None
    session = handle.session
    review = session.store.load_review(review_id)
    if review is None or review.identity.workflow_id != session.run_id:
        raise UnknownReview(
            f"Run {session.run_id!r} has no review {review_id!r}. Nothing was decided."
        )
    if told is None:
        told = _said_in_other_words(review, given is True, by)
    if told is None or told.review_id != review.review_id:
        return None
    decisions.decide(
        session.store,
        session.clock,
        review.review_id,
        told.verb,
        by=told.by,
        why=told.why,
        result=told.result,
        has_result=told.has_result,
        tool=session.host.find_tool(review.identity.tool_name),
    )
    return told.verb.value


async def aanswer(
    handle: Handle, review_id: str | None, given: object, *, by: str = "a user of the framework"
) -> str | None:
    """Do the same as ``answer`` without blocking the event loop."""
    return await asyncio.to_thread(answer, handle, review_id, given, by=by)


def abort(review_id: str, *, by: str, why: str) -> dict[str, Any]:
    """Return the payload that says: stop this run permanently."""
    return GivenAnswer(review_id, Verb.ABORT, by, why).payload()


def approve(review_id: str, *, by: str, why: str = "") -> dict[str, Any]:
    """Return the payload that says: this call may be made."""
    return GivenAnswer(review_id, Verb.APPROVE, by, why).payload()


def reject(review_id: str, *, by: str, why: str) -> dict[str, Any]:
    """Return the payload that says: this call must not be made."""
    return GivenAnswer(review_id, Verb.REJECT, by, why).payload()


def _said_in_other_words(review: Review, yes: bool, by: str) -> GivenAnswer | None:
    """Return what a framework's own yes or no means. None: nothing, look again."""
    if review.kind is not ReviewKind.APPROVAL or review.status is not ReviewStatus.OPEN:
        return None
    if yes:
        return GivenAnswer(review.review_id, Verb.APPROVE, by)
    return GivenAnswer(review.review_id, Verb.REJECT, by, "it was not approved")
