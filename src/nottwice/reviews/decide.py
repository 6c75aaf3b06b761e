"""A person's decision: checked, bound to what was shown, written once (H2).

A decision changes no call. It waits in the review until the run's holder uses it, and can be undone
until then. "It did not happen" is refused while the old attempt may still be alive, because it
would allow a second attempt beside it. An answer must fit its question. A decision that is sent
again is the same decision. Promises kept here: P18, P323.
"""

from __future__ import annotations

from collections.abc import Callable
from reprlib import repr as _short
from typing import Any

from nottwice.engine import events
from nottwice.engine.clock import Clock
from nottwice.engine.doubts.blocking import decide_command
from nottwice.errors import DecisionConflict, UsageError
from nottwice.guard.plain_data.codec import Codec
from nottwice.model import values
from nottwice.model.asking.asked import Question, options_of, shown_in
from nottwice.model.asking.raises import check_raise
from nottwice.model.call import CallRow, ResultKind, StoredResult
from nottwice.model.review import (
    VERBS,
    AuditEntry,
    Decision,
    Review,
    ReviewKind,
    ReviewStatus,
    Verb,
)
from nottwice.model.sealing.secrets import SHOWN
from nottwice.model.tool import Tool
from nottwice.model.tools.result_schema import misfit
from nottwice.reviews.queue import Case, find_case
from nottwice.reviews.queue import needs_reason as needs_reason
from nottwice.store.interface import Commit, Outdated, ReviewWrite, Store


def decide(
    store: Store,
    clock: Clock,
    review_id: str,
    verb: Verb,
    *,
    by: str,
    why: str,
    result: Any = None,
    has_result: bool = False,
    holder_stopped: bool = False,
    tool: Tool | None = None,
    shown_version: int | None = None,
) -> Review:
    """Record a decision. ``shown_version`` binds it to the review as it was shown.

    The same decision of the same person, sent once more, changes nothing and is no conflict.
    Durable: when it returns. With ``tool``, the result is first checked against its return type.
    """
    case = find_case(store, review_id)
    if shown_version is not None and shown_version != case.review.version:
        given = values.encode(result) if has_result else None
        is_next = case.review.version in (shown_version + 1, shown_version + 2)
        if is_next and _is_repeated(case.review, verb, by=by, why=why, result_json=given):
            return case.review
        raise _changed(store, case.review, "Nothing was decided.")
    _check_people(by, why, verb)
    _check_attempt(case, verb, holder_stopped=holder_stopped)
    decision = Decision(
        verb=verb,
        by=by,
        why=why,
        at=clock.now(),
        result=_result(store, case, verb, result, has_result=has_result, tool=tool),
        holder_stopped=holder_stopped,
    )
    return _write(store, clock, case, lambda review: review.decided(decision), verb.value, by, why)


def undo(
    store: Store,
    clock: Clock,
    review_id: str,
    *,
    by: str,
    why: str,
    shown_version: int | None = None,
) -> Review:
    """Undo a decision that has not been used yet. ``shown_version``: as in ``decide``.

    Durable: when it returns.
    """
    _check_people(by, why, None)
    case = find_case(store, review_id)
    if shown_version is not None and shown_version != case.review.version:
        if case.review.version == shown_version + 1 and _is_undone(
            store, case.review, by=by, why=why
        ):
            return case.review
        raise _changed(store, case.review, "Nothing was changed.")
    return _write(store, clock, case, Review.undone, "undo", by, why)


def read_verb(review: Review, word: str) -> tuple[Verb, str | None]:
    """Return what a person's word means for this review: a verb, or an answer that it offers."""
    if word in options_of(review):
        return Verb.ANSWER, word
    verbs = {verb.value: verb for verb in VERBS[review.kind]}
    if word in verbs:
        return verbs[word], None
    known = ", ".join([*options_of(review), *verbs])
    raise UsageError(
        f"{word!r} is not a decision for a review of kind {review.kind.value!r}. Nothing was "
        f"decided. Choose one of: {known}."
    )


def _is_repeated(review: Review, verb: Verb, *, by: str, why: str, result_json: str | None) -> bool:
    """Whether the review has this decision already, from the same person."""
    known = review.decision
    if known is None or (known.verb, known.by, known.why) != (verb, by, why):
        return False
    return result_json == (None if known.result is None else known.result.json)


def _is_undone(store: Store, review: Review, *, by: str, why: str) -> bool:
    """Whether the last thing done to the review was this undo, by the same person."""
    if review.status is not ReviewStatus.OPEN:
        return False
    subject = _subject(review)
    said = [each for each in store.audit(review.identity.workflow_id) if each.subject == subject]
    return bool(said) and (said[-1].action, said[-1].who, said[-1].why) == ("decide undo", by, why)


def _changed(store: Store, review: Review, outcome: str) -> DecisionConflict:
    return DecisionConflict(
        f"Review {review.review_id} has changed since it was shown. {outcome} "
        f"Look at it again: {decide_command(review.review_id, store.location)}"
    )


def _subject(review: Review) -> str:
    return f"review {review.review_id}"


def _check_people(by: str, why: str, verb: Verb | None) -> None:
    needed = (("by", by), ("why", why)) if needs_reason(verb) else (("by", by),)
    for name, text in (("by", by), ("why", why)):
        if not isinstance(text, str):
            raise UsageError(
                f"{name}={_short(text)} must be text: who decided and why are recorded. Nothing "
                "was decided."
            )
    for name, text in needed:
        if not text.strip():
            raise UsageError(
                f"A decision needs {name}=... (--{name}): who decided and why are recorded. "
                "Nothing was decided."
            )
    values.check_plain(by, root="by")
    values.check_plain(why, root="why")


def _check_attempt(case: Case, verb: Verb, *, holder_stopped: bool) -> None:
    if verb is not Verb.DID_NOT_HAPPEN or case.attempt_is_over or holder_stopped:
        return
    who = case.holder.describe() if case.holder else "a process that cannot be identified"
    raise UsageError(
        f"The attempt may still be running: its holder, {who}, is {case.holder_life.value}. "
        "'It did not happen' would allow a second attempt beside it. Nothing was decided. Stop "
        "that process first. If you have stopped it yourself, confirm that with "
        "holder_stopped=True (--holder-stopped)."
    )


def _result(
    store: Store, case: Case, verb: Verb, result: Any, *, has_result: bool, tool: Tool | None
) -> StoredResult | None:
    if verb.answers:
        return _answer(store, case.review, result, has_result=has_result)
    if verb is not Verb.HAPPENED:
        if has_result:
            raise UsageError(f"{verb.value!r} takes no result. Nothing was decided.")
        return None
    if not has_result:
        expected = f" It returns {tool.result_type()}." if tool else ""
        raise UsageError(
            "'It happened' needs the result that the tool would have returned, because the run "
            "continues with it: result=... (--result JSON), None or null if it returns nothing."
            f"{expected} "
            "Nothing was decided."
        )
    if case.review.kind is ReviewKind.RESULT and _is_secret(case.row):
        raise UsageError(
            f"The result of review {case.review.review_id} is secret, and a secret is never "
            "written to the ledger. Nothing was decided. Give the tool a verify hook that finds "
            "it, or let it return a value that is not secret. Otherwise abort the run."
        )
    if tool is not None:
        # Only checked here. The holder reads the same JSON again with its own annotations.
        check_fit(tool, result)
    return StoredResult(ResultKind.PLAIN, values.encode(result))


def check_schema(schema: Any, result: Any) -> None:
    """Refuse a result that does not fit the schema that the ledger has of its tool (P222).

    For people who type one. A program may know the tool better than the ledger does: the schema is
    that of the code which last used the tool, and the run checks every result again.
    """
    why = None if schema is None else misfit(schema, result)
    if why is not None:
        raise UsageError(
            f"This cannot be the result of the tool: {why}. Nothing was decided. The schema is in: "
            "nottwice reviews --json"
        )


def check_fit(tool: Tool, result: Any) -> None:
    """Refuse a result that does not fit the tool, or that the run could not keep.

    A run that cannot keep it would ask for it again, each time it is opened.
    """
    stored = tool.adopt_result(result)
    if stored.kind is not ResultKind.NOT_KEPT or _is_masked(stored):
        return
    note = values.decode_object(stored.json)
    remedy = "Give a shorter result."
    if "characters" not in note:
        remedy = (
            f"Change the return annotation of the tool, {tool.result_type()}, to one whose values "
            "can be kept (list[int] and not set[int], str and not bytes), and decide again."
        )
    raise UsageError(
        "The run could not keep this result and would ask for it again, each time it is opened. "
        f"Nothing was decided. {str(note['why']).rstrip('.')}. {remedy}"
    )


def _is_secret(row: CallRow | None) -> bool:
    """Whether a result was not stored because it is secret."""
    if row is None or row.result is None or row.result.kind is not ResultKind.NOT_KEPT:
        return False
    return _is_masked(row.result)


def _is_masked(stored: StoredResult) -> bool:
    """Whether the note in place of a result hides its text, because it is secret."""
    return values.decode_object(stored.json).get("text") == SHOWN


def _answer(store: Store, review: Review, answer: Any, *, has_result: bool) -> StoredResult:
    """Check that an answer fits its question, as far as possible without the code that asked."""
    question = shown_in(review)
    if not isinstance(question, Question):
        raise UsageError(
            f"Review {review.review_id} is not a question, so it takes no answer. Nothing "
            f"was decided. Look at it: {decide_command(review.review_id, store.location)}"
        )
    if not has_result:
        options = f" It is one of: {', '.join(question.options)}." if question.options else ""
        raise UsageError(
            "An answer is missing: result=... (--result JSON), of type "
            f"{question.answer_type}.{options} "
            "Nothing was decided."
        )
    if question.options and answer not in question.options:
        raise UsageError(
            f"{answer!r} is not one of the offered answers: {', '.join(question.options)}. "
            "Nothing was decided."
        )
    known = _SIMPLE_TYPES.get(question.answer_type)
    if review.kind is ReviewKind.BUDGET:
        check_raise(answer)
    elif known is not None:
        # The code that asked knows other types and checks again when it uses the answer.
        Codec(known, where="the answer").validate_plain(answer)
    return StoredResult(ResultKind.PLAIN, values.encode(answer))


_SIMPLE_TYPES: dict[str, type] = {kind.__name__: kind for kind in (str, int, float, bool)}


def _write(
    store: Store,
    clock: Clock,
    case: Case,
    change: Callable[[Review], Review],
    action: str,
    by: str,
    why: str,
) -> Review:
    review = change(case.review)
    if review is case.review:
        return review
    entry = AuditEntry(
        workflow_id=review.identity.workflow_id,
        at=clock.now(),
        who=by,
        action=f"decide {action}",
        subject=_subject(review),
        why=why,
    )
    commit = Commit(
        workflow_id=review.identity.workflow_id,
        reviews=(ReviewWrite(review, case.review.version),),
        audit=(entry,),
    )
    try:
        store.commit(commit)
    except Outdated:
        raise DecisionConflict(
            f"Review {review.review_id} has just been changed elsewhere. Nothing was decided. "
            f"Look at it again: {decide_command(review.review_id, store.location)}"
        ) from None
    if events.listeners:
        events.tell(
            events.ReviewDecided(
                ledger=store.location,
                run_id=review.identity.workflow_id,
                review_id=review.review_id,
                decision=action,
                by=by,
            ),
            store,
        )
        events.tell_of_commit(commit, store)
    return review
