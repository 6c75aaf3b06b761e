"""What waits for a person, why, and what can be decided about it?

This is all that a page needs to list reviews and to show one; ``nt.Reviews(ledger)`` records the
decision. Promises kept here: P223 (a secret argument is shown as its fingerprint), P410 (a review
is listed even if its call cannot be believed).
"""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import replace
from typing import Annotated, Any, assert_never

from nottwice.engine.doubts.blocking import call_text, written_call
from nottwice.errors import LedgerCorrupt
from nottwice.guard.ledger import Ledger
from nottwice.model import values
from nottwice.model.asking.asked import UNDO, Question, WantedCall, shown_in, words_of
from nottwice.model.call import CallRow
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Decision, Review, ReviewKind, ReviewStatus, Verb, danger_of
from nottwice.model.run import Life
from nottwice.reviews.queue import Case, find_case, find_review, needs_reason
from nottwice.store.interface import ManyFiles, Store
from nottwice.views.run.calls import CallView, ResultView, call_view, evidence_view, result_view
from nottwice.views.run.calls import EvidenceView as EvidenceView
from nottwice.views.runs import Holders
from nottwice.views.shape import LEDGER, Timestamp, moment, one_of
from nottwice.views.wording import ToolTexts

NOT_BELIEVED = (
    "a row of this call is not as nottwice wrote it, so nothing can be decided about it until it "
    "is restored, or a person vouches for it"
)


@frozen_record(frozen=True, slots=True, kw_only=True)
class DecisionView:
    """What a person decided."""

    verb: Annotated[Verb, "what was decided"]
    by: Annotated[str, "the person who decided"]
    why: Annotated[str, "the reason, which may be empty for an answer or an approval"]
    at: Annotated[Timestamp, "when it was decided"]
    result: Annotated[ResultView | None, "the result or the answer, or null; as in a call"]
    holder_stopped: Annotated[bool, "whether the person said that the old process is stopped"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class ReviewView:
    """One review, with the call that it is about."""

    review_id: Annotated[str, "what `nottwice decide` takes"]
    run_id: Annotated[str, "the run that waits"]
    kind: Annotated[
        ReviewKind,
        "in doubt: did it happen? result: what did it return? drift: may effects stay "
        "that the code no longer makes? question: what is the answer? approval: may the call be "
        "made? budget: may it spend more?",
    ]
    status: Annotated[ReviewStatus, one_of(ReviewStatus)]
    version: Annotated[int, "grows with every change; see --shown-version"]
    call_id: Annotated[str, "the call it is about"]
    tool: Annotated[str, "the tool of that call"]
    step: Annotated[str, "the step of that call"]
    summary: Annotated[str, "why a person is needed"]
    opened_at: Annotated[Timestamp, "since when the run waits"]
    about: Annotated[
        Any,
        "what is asked, or null: of a question or a budget `question`, `options`, "
        "`about`, `answer_type`, `schema`; of an approval `tool`, `args`, `replay_class`, "
        "`lasts_seconds`",
    ]
    verbs: Annotated[dict[str, str], "what can be decided, each with its meaning"]
    decision: Annotated[
        DecisionView | None,
        "an object with `verb`, `by`, `why`, `at`, `result`, `holder_stopped`; or null",
    ]
    closed_by: Annotated[str | None, "what closed it, or null"]
    closed_at: Annotated[Timestamp | None, "when it was closed, or null"]
    subject: Annotated[str, "what it is about in one line, with secrets covered"]
    arguments: Annotated[
        dict[str, Any] | None,
        "the arguments of that call as plain data, a secret as its fingerprint; null if the "
        "review is not about a call, or the call is gone",
    ]
    title: Annotated[str | None, "what the tool's title= says about that call, or null"]
    look: Annotated[str | None, "where the tool's look= says to check upstream, or null"]
    result_schema: Annotated[
        Any, "the JSON schema that the result of that call must fit; null if not known"
    ]
    blocks: Annotated[bool, "whether every new effect of the run waits for it"]

    @property
    def is_open(self) -> bool:
        """Whether it is undecided."""
        return self.status is ReviewStatus.OPEN

    @property
    def is_pending(self) -> bool:
        """Whether it still holds up its run: it is undecided, or its decision is not used yet."""
        return self.status in (ReviewStatus.OPEN, ReviewStatus.DECIDED)


@frozen_record(frozen=True, slots=True, kw_only=True)
class ReviewList:
    """The reviews that were asked for, the most dangerous first."""

    ledger: Annotated[str, LEDGER]
    reviews: Annotated[
        tuple[ReviewView, ...], "the reviews, the most dangerous first, then the oldest; see review"
    ]
    open: Annotated[int, "how many of them are undecided"]
    unreadable: Annotated[
        tuple[str, ...], "what is wrong with each file that cannot be read: its reviews are missing"
    ]
    now: float


@frozen_record(frozen=True, slots=True, kw_only=True)
class ReviewChoice:
    """One decision that a person can take now."""

    verb: str
    """What ``nt.Reviews(ledger).decide`` takes."""
    meaning: str
    words: str
    """The command that does it, without the name of the program and of the ledger."""
    takes_result: bool
    needs_reason: bool
    needs_holder_stopped: bool


@frozen_record(frozen=True, slots=True, kw_only=True)
class CaseView:
    """One review with all that helps to decide it."""

    review: Annotated[ReviewView, "see review"]
    call: Annotated[CallView | None, "see call; null if the call is gone"]
    result_type: Annotated[str | None, "what the tool returns, if --app names it; else null"]
    attempt_is_over: Annotated[bool, "whether the doubtful attempt has provably ended"]
    holder: Annotated[str | None, "the process that made the doubtful attempt, or null"]
    holder_life: Annotated[Life, "alive, dead or not proven"]
    evidence: tuple[EvidenceView, ...]
    asked: Question | WantedCall | None
    """What is asked before anything is done; None for what may have happened."""
    choices: tuple[ReviewChoice, ...]


def list_reviews(
    ledger: Ledger,
    *,
    run_id: str | None = None,
    over: bool = False,
    kinds: Collection[str] = (),
    tool: str | None = None,
    since: float | None = None,
) -> ReviewList:
    """The reviews that are open, or decided and not used yet; with ``over`` all of them.

    ``kinds``, ``tool`` and ``since``: only reviews of these kinds, about this tool, opened since.
    """
    store = ledger.store
    found = [
        review
        for review in (store.reviews(run_id) if over else store.open_reviews(run_id))
        if (not kinds or review.kind.value in kinds)
        and (tool is None or review.identity.tool_name == tool)
        and (since is None or review.opened_at >= since)
    ]
    found.sort(key=lambda review: (review.status is not ReviewStatus.OPEN, danger_of(review)))
    tools = ToolTexts(store)
    reviews = tuple(review_view(store, review, tools) for review in found)
    return ReviewList(
        ledger=ledger.location,
        reviews=reviews,
        open=sum(review.is_open for review in reviews),
        unreadable=unreadable_files(store),
        now=ledger.clock.now(),
    )


def unreadable_files(store: Store) -> tuple[str, ...]:
    """What is wrong with each file of a ledger that cannot be read. No list shows what is in it."""
    return tuple(store.unreadable()) if isinstance(store, ManyFiles) else ()


def look_at(ledger: Ledger, review_id: str, *, result_type: str | None = None) -> CaseView:
    """One review, by its id or by a prefix that only one review has."""
    case = find_case(ledger.store, review_id)
    return case_view(case, Holders(ledger.store), result_type=result_type)


def look_past(ledger: Ledger, review_id: str) -> CaseView:
    """One review, if a row that is needed to decide it cannot be believed. It offers no choice."""
    store = ledger.store
    review = find_review(store, review_id)
    return CaseView(
        review=_not_believed(review, ToolTexts(store)),
        call=None,
        result_type=None,
        attempt_is_over=False,
        holder=None,
        holder_life=Life.NOT_PROVEN,
        evidence=(),
        asked=shown_in(review),
        choices=(),
    )


def review_view(store: Store, review: Review, tools: ToolTexts | None = None) -> ReviewView:
    """A review as it is shown."""
    tools = tools or ToolTexts(store)
    try:
        return _review_view(review, store.load_call(review.identity), tools)
    except LedgerCorrupt:
        return _not_believed(review, tools)


def _not_believed(review: Review, tools: ToolTexts) -> ReviewView:
    return replace(
        _review_view(review, None, tools),
        subject=f"{review.identity.tool_name}, whose row cannot be trusted",
        summary=NOT_BELIEVED,
    )


def _review_view(review: Review, row: CallRow | None, tools: ToolTexts) -> ReviewView:
    identity = review.identity
    tool, args = identity.tool_name, _arguments(review, row)
    return ReviewView(
        review_id=review.review_id,
        run_id=identity.workflow_id,
        kind=review.kind,
        status=review.status,
        version=review.version,
        call_id=review.call_id,
        tool=tool,
        step=identity.node_id,
        summary=review.summary,
        opened_at=Timestamp(review.opened_at),
        about=None if review.about is None else values.decode(review.about),
        verbs=words_of(review),
        decision=_decision_view(review.decision),
        closed_by=review.closed_by,
        closed_at=moment(review.closed_at),
        subject=subject_text(review, row),
        arguments=args,
        title=tools.title(tool, args),
        look=tools.look(tool, args, call_id=review.call_id, key=None if row is None else row.key),
        result_schema=None if args is None else tools.result_schema(tool),
        blocks=review.blocks,
    )


def case_view(case: Case, holders: Holders, *, result_type: str | None = None) -> CaseView:
    """A case as it is shown."""
    call = None
    if case.row is not None:
        reviews = (case.review.review_id,)
        call = call_view(case.row, holders, evidence=case.evidence, reviews=reviews)
    asked = shown_in(case.review)
    return CaseView(
        review=_review_view(case.review, case.row, holders.tools),
        call=call,
        result_type=result_type,
        attempt_is_over=case.attempt_is_over,
        holder=None if case.holder is None else case.holder.describe(),
        holder_life=case.holder_life,
        evidence=tuple(map(evidence_view, case.evidence)),
        asked=asked,
        choices=tuple(_choice(case, asked, *known) for known in _verbs(case.review).items()),
    )


def subject_text(review: Review, row: CallRow | None) -> str:
    """What a review is about, in one line: a question, or a call."""
    shown = shown_in(review)
    match shown:
        case Question():
            return shown.text
        case WantedCall():
            return written_call(shown.tool, shown.args)
        case None:
            if review.kind in _ABOUT_THE_RUN:
                return _ABOUT_THE_RUN[review.kind]
            return review.identity.tool_name if row is None else call_text(row)
        case _:
            assert_never(shown)


_ABOUT_THE_RUN = {
    ReviewKind.UNDEPLOYABLE: "the version of its graph",
    ReviewKind.RESTORED: "this copy of the ledger",
    ReviewKind.CORRUPT: "its rows and seals",
}


def _arguments(review: Review, row: CallRow | None) -> dict[str, Any] | None:
    shown = shown_in(review)
    if isinstance(shown, WantedCall):
        return shown.args
    if shown is not None or row is None or review.kind in _ABOUT_THE_RUN:
        return None
    return values.decode_object(row.args_json)


def _decision_view(decision: Decision | None) -> DecisionView | None:
    if decision is None:
        return None
    return DecisionView(
        verb=decision.verb,
        by=decision.by,
        why=decision.why,
        at=Timestamp(decision.at),
        result=result_view(decision.result),
        holder_stopped=decision.holder_stopped,
    )


def _verbs(review: Review) -> dict[str, str]:
    """What can be decided now, each with its meaning."""
    if review.status is ReviewStatus.OPEN:
        return words_of(review)
    if review.status is ReviewStatus.DECIDED:
        return {UNDO: "take the decision back; it has not been used yet"}
    return {}


def _choice(
    case: Case, asked: Question | WantedCall | None, verb: str, meaning: str
) -> ReviewChoice:
    question = asked if isinstance(asked, Question) else None
    is_option = question is not None and verb in question.options
    answers = question is not None and verb == question.verb.value
    known = None if is_option or verb == UNDO else Verb(verb)
    stopped = known is Verb.DID_NOT_HAPPEN and not case.attempt_is_over
    reason = not is_option and needs_reason(known)
    words = f"decide {case.review.review_id} {shlex.quote(verb)}"
    if known is Verb.HAPPENED:
        words += " --result JSON"
    if stopped:
        words += " --holder-stopped"
    if question is not None and answers:
        is_text = question.answer_type == "str"
        words += " --text TEXT" if is_text else f" --result {_wanted(question)}"
    if reason:
        words += " --why TEXT"
    return ReviewChoice(
        verb=verb,
        meaning=meaning,
        words=words,
        takes_result=known is Verb.HAPPENED or answers,
        needs_reason=reason,
        needs_holder_stopped=stopped,
    )


def _wanted(question: Question) -> str:
    """The answer to type: what the run itself suggests, if it suggests one."""
    about = question.about
    suggested = about.get("suggested") if isinstance(about, dict) else None
    if question.kind is not ReviewKind.BUDGET or suggested is None:
        return "JSON"
    return shlex.quote(values.encode(suggested))
