"""What will each answer do? The decisions about a review in plain words, and the forms they need.

A person reads the consequence before they choose: what is called once more, what is not, and what
ends. Promises kept here: P322, P324.
"""

from __future__ import annotations

from typing import Annotated

from nottwice.errors import LedgerCorrupt
from nottwice.guard.ledger import Ledger
from nottwice.model.asking.asked import UNDO, Question
from nottwice.model.data.records import frozen_record
from nottwice.model.review import ReviewKind, ReviewStatus, Verb
from nottwice.store.interface import Store
from nottwice.views.commands import CommandLine
from nottwice.views.people.forms import FormView, form_of
from nottwice.views.people.repairs import Repair, repairs_of
from nottwice.views.people.reviews import CaseView, ReviewChoice, look_at, look_past
from nottwice.views.run.resuming import Resumption, who_resumes
from nottwice.views.runs import RunView, view_of
from nottwice.views.shape import LEDGER, Timestamp
from nottwice.views.text import safe, shorten

_LABELS = {
    Verb.HAPPENED.value: "It happened",
    Verb.DID_NOT_HAPPEN.value: "It did not happen",
    Verb.ACCEPT.value: "Accept it as it is",
    Verb.ANSWER.value: "Answer",
    Verb.APPROVE.value: "Approve",
    Verb.REJECT.value: "Reject",
    Verb.RAISE.value: "Allow more",
    Verb.ABORT.value: "Stop this run",
    UNDO: "Take it back",
}
_QUESTIONS = {
    ReviewKind.IN_DOUBT: "Did this happen?",
    ReviewKind.RESULT: "What did this return?",
    ReviewKind.DRIFT: "May these effects stay as they are?",
    ReviewKind.APPROVAL: "May this call be made?",
    ReviewKind.BUDGET: "May this run take more?",
    ReviewKind.UNDEPLOYABLE: "No deployed code can continue this run",
    ReviewKind.RESTORED: "Is everything since the copy accounted for?",
    ReviewKind.CORRUPT: "Rows of this run were changed from outside",
}
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


@frozen_record(frozen=True, slots=True, kw_only=True)
class Consequence:
    """One decision, and what it does."""

    verb: Annotated[str, "what `nottwice decide` takes"]
    label: Annotated[str, "what a person says with it"]
    effect: Annotated[str, "what it does, in plain words"]
    acts: Annotated[bool, "whether a tool is called because of it"]
    is_answer: Annotated[bool, "whether it is one of the answers that a question offers"]
    form: Annotated[FormView | None, "the fields of the result or the answer, or null"]
    needs_reason: Annotated[bool, "whether a reason must be given"]
    must_confirm: Annotated[str | None, "what a person must confirm to have done, or null"]
    command: Annotated[str, "the command that does the same"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that is known about a call."""

    at: Annotated[Timestamp, "when it was noted"]
    who: Annotated[str, "a process, or who noted it"]
    text: Annotated[str, "what is known"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class Docket:
    """One review with what is known, what can be decided, and what follows."""

    ledger: Annotated[str, LEDGER]
    question: Annotated[str, "what is asked, in one line"]
    case: Annotated[CaseView, "the review, its call and the evidence"]
    run: Annotated[RunView, "the run that waits; see run"]
    facts: Annotated[tuple[Fact, ...], "what is known, in the order of time; see fact"]
    consequences: Annotated[tuple[Consequence, ...], "what can be decided now; see consequence"]
    repairs: Annotated[
        tuple[Repair, ...], "what helps if rows cannot be trusted; otherwise empty; see repair"
    ]
    blocks: Annotated[str, "what waits for it, in words"]
    resumption: Annotated[Resumption, "what continues the run afterwards; see resumption"]
    now: float


def open_docket(ledger: Ledger, review_id: str, commands: CommandLine) -> Docket:
    """One review, by its id or by a prefix that only one has, ready to be decided."""
    try:
        case, is_believed = look_at(ledger, review_id), True
    except LedgerCorrupt:
        case, is_believed = look_past(ledger, review_id), False
    run = view_of(ledger, case.review.run_id)
    children = len(ledger.store.children(run.run_id))
    review = case.review
    needs_repair = not is_believed or (review.kind is ReviewKind.CORRUPT and review.is_open)
    asked = case.asked.text if isinstance(case.asked, Question) else _QUESTIONS.get(review.kind)
    return Docket(
        ledger=ledger.location,
        question=asked or review.summary,
        case=case,
        run=run,
        facts=_facts(case),
        consequences=tuple(
            _consequence(ledger.store, case, choice, children, commands) for choice in case.choices
        ),
        repairs=repairs_of(run.run_id, commands) if needs_repair else (),
        blocks=blocks_text(review.blocks, run, children),
        resumption=who_resumes(ledger, run, commands),
        now=ledger.clock.now(),
    )


def result_form(case: CaseView) -> FormView:
    """The fields of the result or the answer that a review asks for."""
    asked = case.asked
    if not isinstance(asked, Question):
        return form_of(case.review.result_schema)
    about = asked.about
    suggested = about.get("suggested") if isinstance(about, dict) else None
    known = asked.schema
    if known is None and asked.answer_type in _TYPES:
        known = {"type": _TYPES[asked.answer_type]}
    return form_of(known, suggested=suggested if asked.kind is ReviewKind.BUDGET else None)


def blocks_text(blocks: bool, run: RunView, children: int) -> str:
    """What waits for a review, in words."""
    name = safe(run.run_id)
    text = f"every new effect of {name}" if blocks else f"only the code of {name} that asked"
    if blocks and children:
        text += f", which has {children} child run{'s' if children > 1 else ''}"
    if run.parent is not None:
        text += f"; and {safe(run.parent)}, which waits for it"
    return text


_OWN_SOURCES = ("engine", "ownership")
"""The parts of nottwice that record evidence, as the ledger names them."""


def _facts(case: CaseView) -> tuple[Fact, ...]:
    """The attempts and the evidence, in the order of time."""
    found: list[Fact] = []
    for one in () if case.call is None else case.call.attempts:
        ended = "no receipt" if one.outcome is None else f"it ended: {one.outcome}"
        text = f"attempt {one.attempt} began; {ended}"
        found.append(Fact(at=one.started_at, who=one.holder, text=text))
    for item in case.evidence:
        more = "" if item.result is None else f" {shorten(item.result.json)}"
        # A doubt is described where the facts are shown. Here is only when it was found.
        text = "a person is asked" if item.text == case.review.summary else f"{item.text}{more}"
        who = "nottwice" if item.source in _OWN_SOURCES else item.source
        found.append(Fact(at=item.at, who=who, text=text))
    return tuple(sorted(found, key=lambda fact: fact.at))


def _consequence(
    store: Store, case: CaseView, choice: ReviewChoice, children: int, commands: CommandLine
) -> Consequence:
    review = case.review
    is_answer = choice.verb not in _LABELS or (
        isinstance(case.asked, Question) and choice.verb in case.asked.options
    )
    label = choice.verb if is_answer else _LABELS[choice.verb]
    effect, acts = ("The run continues with this answer.", False)
    if not is_answer:
        effect, acts = _effect(store, case, choice.verb, children)
    stopped = None
    if choice.needs_holder_stopped:
        who = case.holder or "the old process"
        stopped = f"I stopped {who} myself. nottwice cannot prove that it is dead."
    return Consequence(
        verb=choice.verb,
        label=label,
        effect=effect,
        acts=acts,
        is_answer=is_answer,
        form=result_form(case) if choice.takes_result else None,
        needs_reason=choice.needs_reason,
        must_confirm=stopped,
        command=f"nottwice {choice.words}{commands.store_words()}"
        if review.status in (ReviewStatus.OPEN, ReviewStatus.DECIDED)
        else "",
    )


def _effect(store: Store, case: CaseView, verb: str, children: int) -> tuple[str, bool]:
    """What a verb does, and whether a tool is called because of it."""
    review = case.review
    tool = shorten(review.tool, 60)
    if verb == UNDO:
        return "It has not been used. If you take it back, the review is open again.", False
    match Verb(verb):
        case Verb.HAPPENED if review.kind is ReviewKind.RESULT:
            return f"{tool} is not called. The run continues with the result below.", False
        case Verb.HAPPENED:
            return (
                f"{tool} is NOT called again. The result below is what the code gets, and the run "
                "continues.",
                False,
            )
        case Verb.DID_NOT_HAPPEN:
            return (
                f"{tool} WILL BE CALLED once more, with these arguments, when the run is opened "
                "again. If it happened after all, it happens twice.",
                True,
            )
        case Verb.APPROVE:
            return (
                f"{tool} WILL BE CALLED with these arguments, and no others, when the run is "
                "opened again.",
                True,
            )
        case Verb.REJECT:
            return f"{tool} is NOT called. The code gets your reason as an error.", False
        case Verb.ABORT:
            return _abort_text(store, case, children), False
        case Verb.ACCEPT:
            return f"Nothing is called now. {_accepted(review.kind)}", False
        case _:
            return "The run continues with what you give below.", False


def _accepted(kind: ReviewKind) -> str:
    if kind is ReviewKind.RESTORED:
        return "You vouch for what the run did since the copy was made. It continues from here."
    return "The effects stay on record, and the run continues without asking for them."


def _abort_text(store: Store, case: CaseView, children: int) -> str:
    run_id = case.review.run_id
    name, done = safe(run_id), store.count_calls(run_id)
    also = f", and so do its {children} child runs" if children else ""
    stay = "1 call of it stays" if done == 1 else f"{done} calls of it stay"
    return f"Nothing is called. {name} ends permanently{also}. {stay} on record; nothing is undone."
