"""How a run comes to wait for a person: the review, and the error that says how to decide.

Promises kept here: P14 (the commit that stops the run also writes the review), P133 (an error names
a review only if no other review can be meant).
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nottwice.engine.asks import Doing, Read
from nottwice.engine.session import Session
from nottwice.errors import (
    ApprovalNeeded,
    BudgetSpent,
    QuestionOpen,
    ReplayDriftError,
    ReplayUnsafeError,
    ResultNotKept,
    RunBlocked,
)
from nottwice.model import values
from nottwice.model.asking.asked import options_of
from nottwice.model.call import CallRow, call_from_row
from nottwice.model.review import Evidence, Review, ReviewKind, ReviewStatus
from nottwice.model.run import RunStatus
from nottwice.model.sealing.secrets import COVER, covered
from nottwice.model.tools.templates import fill, fill_look
from nottwice.store.interface import ReviewWrite, RunUpdate

MOST_ARGUMENT_CHARACTERS = 200


def open_review(
    session: Session,
    row: CallRow,
    reason: str,
    *,
    kind: ReviewKind = ReviewKind.IN_DOUBT,
) -> Doing[RunBlocked]:
    """Make the run wait for a person, and return the error that says so.

    Durable: the review, its reason and the run's status, when this returns.
    """
    now = session.clock.now()
    tool = session.host.find_tool(row.identity.tool_name)
    if tool is not None:
        # The person sees the words and the schema of the code that asks now.
        session.tools.note(tool, now=now)
    found = yield Read(lambda store: store.open_reviews(session.run_id))
    review = next((one for one in found if is_about(one, row, kind)), None)
    writes: tuple[ReviewWrite, ...] = ()
    if review is None:
        review = new_review(row, kind, reason, now=now)
        writes = (ReviewWrite(review),)
    known = yield Read(lambda store: store.evidence(session.run_id, row.call_id))
    evidence: tuple[Evidence, ...] = ()
    if not any((item.attempt_id, item.text) == (row.attempt_id, reason) for item in known):
        # The reason is recorded once, however often the run is opened while it waits.
        evidence = (Evidence(session.run_id, row.call_id, row.attempt_id, now, "engine", reason),)
    waits = session.stops.waits([review])
    yield from session.commit(
        reviews=writes, evidence=evidence, run=RunUpdate(RunStatus.WAITING, now, waits=waits)
    )
    session.say("ask a person", row, f"review={review.review_id} reason={reason!r}")
    known = yield Read(lambda store: store.evidence(session.run_id, row.call_id))
    # The review keeps the reason for which it was opened, perhaps by a process with other code.
    asked = replace(review, summary=reason)
    return blocked_by(session, asked, row=row, evidence=known, is_unused=True)


def new_review(row: CallRow, kind: ReviewKind, reason: str, *, now: float) -> Review:
    """Return a question to a person about one call."""
    return Review(
        review_id=secrets.token_hex(4),
        kind=kind,
        status=ReviewStatus.OPEN,
        identity=row.identity,
        call_id=row.call_id,
        attempt_id=row.attempt_id,
        summary=reason,
        opened_at=now,
    )


def is_about(review: Review, row: CallRow, kind: ReviewKind) -> bool:
    """Whether this review asks, or has asked, this question: one question, one review (P132)."""
    # An accepted drift is used where it occurs. A later refusal is a different drift.
    open_still = review.status is ReviewStatus.OPEN or kind is not ReviewKind.DRIFT
    return (
        open_still
        and review.kind is kind
        and review.identity == row.identity
        and review.attempt_id == row.attempt_id
    )


def blocked_by(
    session: Session,
    review: Review,
    *,
    row: CallRow | None = None,
    evidence: Sequence[Evidence] = (),
    is_unused: bool = False,
) -> RunBlocked:
    """Return the error of a run that waits for this review.

    ``is_unused``: a decision that was made cannot be used yet, for the reason of the review.
    """
    command = decide_command(review.review_id, session.store.location)
    kind, did_not = _ERRORS[review.kind]
    waits = f"The run waits for a person. Decide with: {command}"
    if review.decision is not None:
        said = f"{review.decision.by} decided {review.decision.verb.value!r}, which is"
        waits = (
            f"{said} used when the code asks for this call again: ask for it before any new effect."
        )
        if is_unused:
            waits = (
                f"{said} kept, and cannot be used yet for that reason. Once that has changed, open "
                f"the run again; or take the decision back: {command} undo --why TEXT"
            )
    return kind(
        f"{_what(session, review, row)} {did_not} {_where_to_look(session, review, row)}{waits}",
        review_id=review.review_id,
        review_ids=(review.review_id,),
        run_id=session.run_id,
        call=call_from_row(row) if row else None,
        call_id=review.call_id,
        evidence=tuple(f"{item.source}: {item.text}" for item in evidence),
        command=command,
    )


def blocked_by_all(
    session: Session, blocked: Sequence[RunBlocked], *, refused: CallRow | None = None
) -> RunBlocked:
    """Return one error for everything that the run waits for.

    It has a ``review_id`` only if the run waits for exactly one. ``refused``: the intent of a call
    that was not made because of them. Its caller must not answer for another call, so then there is
    no ``review_id`` at all (P133).
    """
    errors = list({error.review_id or id(error): error for error in reversed(blocked)}.values())
    errors.reverse()
    only = errors[0] if len(errors) == 1 else None
    if only is not None and (refused is None or only.facts.get("call_id") == refused.call_id):
        return only
    waits = " ".join(f"({number}) {error.message}" for number, error in enumerate(errors, 1))
    what = f"Run {session.run_id!r} waits for {len(errors)} decisions, and nothing new was sent:"
    if refused is not None:
        what = (
            f"{call_text(refused)} was not run, and nothing was sent for it: run "
            f"{session.run_id!r} makes no new effect while it waits because of another call."
        )
    kinds = {type(error) for error in errors}
    kind = kinds.pop() if len(kinds) == 1 else RunBlocked
    return kind(
        f"{what} {waits}",
        review_id=None,
        review_ids=tuple(error.review_id for error in errors if error.review_id is not None),
        run_id=session.run_id,
        call=call_from_row(refused) if refused else None,
        call_id=refused.call_id if refused else None,
        evidence=(),
        command=f"nottwice reviews --store {shlex.quote(session.store.location)}",
    )


def refused_by(session: Session, reviews: Sequence[Review], refused: CallRow) -> RunBlocked:
    """Return the error of a call that was not made because of these reviews (D11)."""
    blocked = [blocked_by(session, review) for review in reviews]
    return blocked_by_all(session, blocked, refused=refused)


def _what(session: Session, review: Review, row: CallRow | None) -> str:
    """Say in one sentence what the review is about."""
    run_id = review.identity.workflow_id
    if review.kind is ReviewKind.QUESTION:
        options = options_of(review)
        answers = f" Answers: {', '.join(options)}." if options else ""
        return f"Run {run_id!r} asks: {review.summary}{answers}"
    if review.kind in (
        ReviewKind.APPROVAL,
        ReviewKind.BUDGET,
        ReviewKind.RESTORED,
        ReviewKind.CORRUPT,
    ):
        return f"Run {run_id!r}: {review.summary}."
    call = call_text(row) if row else review.identity.tool_name
    tool = session.host.find_tool(review.identity.tool_name)
    if row is not None and tool is not None and tool.title is not None:
        call = f"{fill(tool.title, values.decode_object(row.args_json))}: {call}"
    return f"{call} in run {run_id!r}: {review.summary}."


def _where_to_look(session: Session, review: Review, row: CallRow | None) -> str:
    """Say where a person checks whether a call happened, if its tool declares it."""
    tool = session.host.find_tool(review.identity.tool_name)
    asks = review.kind in (ReviewKind.IN_DOUBT, ReviewKind.RESULT) and review.decision is None
    if not asks or row is None or tool is None or tool.look is None:
        return ""
    args = values.decode_object(row.args_json)
    return f"Check upstream: {fill_look(tool.look, args, call_id=row.call_id, key=row.key)} "


_ERRORS: dict[ReviewKind, tuple[type[RunBlocked], str]] = {
    ReviewKind.IN_DOUBT: (
        ReplayUnsafeError,
        "It was not run again, and no result was invented.",
    ),
    ReviewKind.RESULT: (
        ResultNotKept,
        "It was not run again, and nothing was returned in its place.",
    ),
    ReviewKind.DRIFT: (ReplayDriftError, "Nothing was sent."),
    ReviewKind.QUESTION: (QuestionOpen, "It has not been answered yet, and nothing more was done."),
    ReviewKind.UNDEPLOYABLE: (RunBlocked, "Nothing was sent."),
    ReviewKind.CORRUPT: (RunBlocked, "Nothing was sent."),
    ReviewKind.RESTORED: (
        RunBlocked,
        "Nothing was sent, and nothing that was in doubt was settled. Look up what it did since.",
    ),
    ReviewKind.BUDGET: (BudgetSpent, "It has not been raised yet, and no model was asked."),
    ReviewKind.APPROVAL: (ApprovalNeeded, "It has not been approved yet, and was not sent."),
}


def decide_command(review_id: str, location: str) -> str:
    """Return the command that a person types to decide."""
    return f"nottwice decide {review_id} --store {shlex.quote(location)}"


def call_text(row: CallRow) -> str:
    """Return a call as a person would write it, shortened."""
    return written_call(row.identity.tool_name, values.decode_object(row.args_json))


def written_call(tool_name: str, args: Mapping[str, Any]) -> str:
    """Return the same text for a call without a row. Secrets are not shown."""
    told = ((name, covered(value, COVER)) for name, value in args.items())
    inside = ", ".join(f"{name}={value!r}" for name, value in told)
    if len(inside) > MOST_ARGUMENT_CHARACTERS:
        inside = inside[:MOST_ARGUMENT_CHARACTERS] + "…"
    return f"{tool_name}({inside})"


def closing_reviews(session: Session, row: CallRow, *, by: str) -> Doing[tuple[ReviewWrite, ...]]:
    """Return the writes that close the open reviews of a call whose doubt has ended."""
    now = session.clock.now()
    found = yield Read(lambda store: store.open_reviews(session.run_id))
    return tuple(
        ReviewWrite(review.closed(by, now=now), review.version)
        for review in found
        if review.identity == row.identity and review.kind is ReviewKind.IN_DOUBT
    )
