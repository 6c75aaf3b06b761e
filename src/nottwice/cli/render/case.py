"""How is one review shown to the person who must decide, and how is that person asked?"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from nottwice.cli.inputs.settings import Settings
from nottwice.cli.render.output import encodable, show_facts, show_json, show_line, show_note
from nottwice.errors import NottwiceError
from nottwice.guard.check.report import duration_text
from nottwice.guard.ledger import Ledger
from nottwice.model import values
from nottwice.model.asking.asked import Question, WantedCall
from nottwice.model.review import ReviewKind
from nottwice.model.sealing.secrets import SHOWN, covered, is_fingerprint
from nottwice.model.tool import Tool
from nottwice.reviews.decide import check_fit, check_schema
from nottwice.views.outcomes import shown_case
from nottwice.views.people.reviews import CaseView, DecisionView
from nottwice.views.run.calls import EvidenceView
from nottwice.views.text import moment_text, safe, shorten

LATER = "later"
MOST_ARGUMENT_CHARACTERS = 2000


def show_case(ledger: Ledger, case: CaseView, settings: Settings) -> None:
    """Print everything that helps to decide: call, arguments, evidence, verbs and their meaning."""
    commands = [settings.command(choice.words) for choice in case.choices]
    if settings.as_json:
        show_json(shown_case(ledger, case, commands))
        return
    review = case.review
    show_facts(
        f"Review {review.review_id}: {review.status.value}",
        (
            ("run", review.run_id),
            ("why", case.asked.text if isinstance(case.asked, Question) else review.summary),
            ("since", moment_text(review.opened_at)),
            *_call_facts(case),
            ("decided", _decided_text(review.decision)),
        ),
    )
    _show_what_is_asked(case)
    if case.evidence:
        evidence = ((moment_text(item.at) or "", _evidence_text(item)) for item in case.evidence)
        show_facts("Evidence", evidence)
    _show_choices(case, commands)


def can_ask() -> bool:
    """Whether a person at a terminal can answer."""
    return sys.stdin.isatty()


def ask_verb(case: CaseView) -> str | None:
    """What the person decides; None if the answer is "later"."""
    choices = [*(choice.verb for choice in case.choices), LATER]
    answer: str = click.prompt(
        "Decide", type=click.Choice(choices), default=LATER, err=True, show_choices=True
    )
    return None if answer == LATER else answer


def ask_result(tool: Tool | None, parse: Callable[[str], Any], schema: Any = None) -> str:
    """The result as JSON, asked for until it can be read and fits the tool."""
    expected = "" if tool is None else f" ({safe(tool.result_type())})"
    if tool is None and schema is not None:
        show_note(f"It must fit this schema: {shorten(json.dumps(schema), 400)}")
    while True:
        text: str = click.prompt(
            encodable(f"The result as JSON{expected}, null for None", sys.stderr), err=True
        )
        try:
            value = parse(text)
            if tool is not None:
                check_fit(tool, value)
            else:
                check_schema(schema, value)
        except (click.UsageError, NottwiceError) as error:
            show_note(error.message)
        else:
            return text


def ask_answer(case: CaseView, parse: Callable[[str], Any]) -> str:
    """The answer to a question, as JSON; asked for until it can be read."""
    asked = case.asked
    kind = asked.answer_type if isinstance(asked, Question) else "any plain data"
    while True:
        prompt = "Your answer" if kind == "str" else f"Your answer as JSON ({safe(kind)})"
        text: str = click.prompt(encodable(prompt, sys.stderr), err=True)
        text = json.dumps(text) if kind == "str" else text
        try:
            parse(text)
        except click.UsageError as error:
            show_note(error.message)
        else:
            return text


def answer_text(decision: DecisionView) -> str:
    """An answer as a person would read it."""
    return "" if decision.result is None else shorten(decision.result.json)


def ask_holder_stopped(case: CaseView) -> bool:
    """Whether the person stopped the old process; without that, one more attempt is refused."""
    who = case.holder or "of unknown identity"
    show_note(f"The old process ({who}) is {case.holder_life.value} and may still do it.")
    return click.confirm("Have you made sure yourself that it is stopped?", err=True)


def ask_why() -> str:
    """The reason; a usage error where there is no terminal to ask."""
    if not can_ask():
        raise click.UsageError(
            "A decision needs a reason, which is kept: --why TEXT. Nothing was decided."
        )
    answer: str = click.prompt("Why? It is kept with the decision", err=True)
    return answer


def _call_facts(case: CaseView) -> Iterator[tuple[str, object]]:
    review, asked = case.review, case.asked
    if review.kind in (ReviewKind.UNDEPLOYABLE, ReviewKind.RESTORED, ReviewKind.CORRUPT):
        # It is about the run as a whole, not about one of its calls.
        return
    if review.kind not in (ReviewKind.QUESTION, ReviewKind.BUDGET):
        yield "what", review.title
        yield "tool", review.tool
        yield "check at", review.look
    yield "step", review.step
    yield "call", review.call_id
    match asked:
        case Question():
            yield "answer", ", ".join(asked.options) or f"of type {asked.answer_type}"
        case WantedCall():
            lasts = asked.lasts_seconds
            yield "class", asked.replay_class
            yield "approval", "counts until it is used" if lasts is None else _lasts_text(lasts)
        case None:
            yield from _row_facts(case)
            yield "attempt", _attempt_text(case)
            unknown = "unknown without --app; a result is only checked when the run is resumed"
            if case.review.result_schema is not None:
                unknown = "a value that fits the schema on record (--json shows it)"
            yield "returns", case.result_type or unknown


def _lasts_text(seconds: float) -> str:
    return f"counts for {duration_text(seconds)} after it was given"


def _show_what_is_asked(case: CaseView) -> None:
    asked = case.asked
    if isinstance(asked, Question):
        if asked.about is not None:
            about = asked.about if isinstance(asked.about, dict) else {"about": asked.about}
            _show_arguments(about, title="About")
        if asked.schema is not None:
            _show_arguments({"schema": asked.schema}, title="Expected")
    elif isinstance(asked, WantedCall):
        _show_arguments(asked.args)
    elif case.call is not None:
        _show_arguments(case.call.arguments)


def _row_facts(case: CaseView) -> Iterator[tuple[str, object]]:
    call = case.call
    if call is None:
        yield "status", "the call is no longer in the ledger"
        return
    yield "class", call.replay_class.declared_as(call.key)
    yield "status", call.status.value
    yield "started", f"{moment_text(call.started_at)}, attempt {call.last.attempt}"
    yield "key", call.key
    yield "again", call.label
    if call.failure is not None:
        yield "failure", shorten(call.failure, 400)


def _attempt_text(case: CaseView) -> str:
    who = case.holder or "an unknown process"
    if case.call is not None and case.call.finished_at is not None:
        return f"over: {who} recorded that it ended"
    if case.attempt_is_over:
        return f"over: its process, {who}, is proven dead"
    return f"may still be running: its process, {who}, is {case.holder_life.value}"


def _decided_text(decision: DecisionView | None) -> str | None:
    if decision is None:
        return None
    result = "" if decision.result is None else f", result {shorten(decision.result.json)}"
    when = moment_text(decision.at)
    because = f", because: {decision.why}" if decision.why else ""
    return f"{decision.verb.value} by {decision.by} at {when}{result}{because}"


def _show_arguments(arguments: dict[str, Any], *, title: str = "Arguments") -> None:
    facts = []
    for name, value in arguments.items():
        text = SHOWN if is_fingerprint(value) else values.encode(covered(value))
        if len(text) > MOST_ARGUMENT_CHARACTERS:
            text = f"{text[:MOST_ARGUMENT_CHARACTERS]}… ({len(text):,} characters; all: --json)"
        facts.append((safe(name), text))
    show_facts(title, facts or [("", "none")])


def _evidence_text(item: EvidenceView) -> str:
    result = "" if item.result is None else f", with result {shorten(item.result.json)}"
    return f"{item.source}: {shorten(item.text, 1000)}{result}"


def _show_choices(case: CaseView, commands: list[str]) -> None:
    if not commands:
        closed = case.review.closed_by or "an unknown process"
        show_line(f"It was closed by {safe(closed)}; nothing is left to decide.")
        return
    show_facts("You can decide", ((choice.verb, choice.meaning) for choice in case.choices))
    if not can_ask():
        show_line("Type one of:", style="bold")
        for command in commands:
            show_line(f"  {safe(command)}", whole=True)
