"""How is one review shown to the person who must decide, and how is that person asked?"""

from __future__ import annotations

import getpass
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from nottwice.cli.documents import case_document
from nottwice.cli.output import (
    encodable,
    safe,
    shorten,
    show_facts,
    show_json,
    show_line,
    show_note,
    utc_text,
)
from nottwice.cli.settings import Settings
from nottwice.cli.views import Holders
from nottwice.errors import NottwiceError
from nottwice.guard.check.report import duration_text
from nottwice.guard.ledger import Ledger
from nottwice.model import values
from nottwice.model.asked import UNDO as UNDO
from nottwice.model.asked import Question, WantedCall, shown_in, words_of
from nottwice.model.review import Decision, ReviewKind, ReviewStatus, Verb
from nottwice.model.sealing.secrets import SHOWN, covered, is_fingerprint
from nottwice.model.tool import Tool
from nottwice.reviews.queue import Case

LATER = "later"
MOST_ARGUMENT_CHARACTERS = 2000


def show_case(ledger: Ledger, case: Case, tool: Tool | None, settings: Settings) -> None:
    """Print everything that helps to decide: call, arguments, evidence, verbs and their meaning."""
    commands = [settings.command(words) for words in _command_words(case)]
    if settings.as_json:
        result_type = None if tool is None else tool.result_type()
        document = case_document(case, Holders(ledger.store), result_type=result_type)
        show_json({"ledger": ledger.location, **document, "commands": commands})
        return
    review = case.review
    show_facts(
        f"Review {review.review_id}: {review.status.value}",
        (
            ("run", review.identity.workflow_id),
            ("why", _why_text(case)),
            ("since", f"{utc_text(review.opened_at)} UTC"),
            *_call_facts(case, tool),
            ("decided", _decided_text(case)),
        ),
    )
    _show_what_is_asked(case)
    if case.evidence:
        evidence = ((f"{utc_text(item.at)}", _evidence_text(item)) for item in case.evidence)
        show_facts("Evidence", evidence)
    _show_verbs(case, commands)


def can_ask() -> bool:
    """Whether somebody sits at a terminal to answer."""
    return sys.stdin.isatty()


def ask_verb(case: Case) -> str | None:
    """What the person decides; None: not now."""
    choices = [*_verbs(case), LATER]
    answer: str = click.prompt(
        "Decide", type=click.Choice(choices), default=LATER, err=True, show_choices=True
    )
    return None if answer == LATER else answer


def ask_result(tool: Tool | None, parse: Callable[[str], Any]) -> str:
    """The result as JSON, asked for until it can be read and fits the tool."""
    expected = "" if tool is None else f" ({safe(tool.result_type())})"
    while True:
        text: str = click.prompt(
            encodable(f"The result as JSON{expected}, null for None", sys.stderr), err=True
        )
        try:
            value = parse(text)
            if tool is not None:
                tool.adopt_result(value)
        except (click.UsageError, NottwiceError) as error:
            show_note(error.message)
        else:
            return text


def ask_answer(case: Case, parse: Callable[[str], Any]) -> str:
    """The answer to a question, as JSON; asked for until it can be read."""
    question = shown_in(case.review)
    kind = question.answer_type if isinstance(question, Question) else "any plain data"
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


def answer_text(decision: Decision) -> str:
    """An answer as a person would read it."""
    return "" if decision.result is None else shorten(decision.result.json)


def ask_holder_stopped(case: Case) -> bool:
    """Whether the person stopped the old process; without that, one more attempt is refused."""
    who = "of unknown identity" if case.holder is None else case.holder.describe()
    show_note(f"The old process ({who}) is {case.holder_life.value} and may still do it.")
    return click.confirm("Have you made sure yourself that it is stopped?", err=True)


def ask_why() -> str:
    """The reason; a usage error where nobody can be asked."""
    if not can_ask():
        raise click.UsageError(
            "A decision needs its reason, which is kept: --why TEXT. Nothing was decided."
        )
    answer: str = click.prompt("Why? It is kept with the decision", err=True)
    return answer


def login_name() -> str:
    """Who is at the keyboard, as far as the system knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        # A container may run under a number that has no name.
        return f"uid {os.getuid()}"


def _why_text(case: Case) -> str:
    question = shown_in(case.review)
    return question.text if isinstance(question, Question) else case.review.summary


def _call_facts(case: Case, tool: Tool | None) -> Iterator[tuple[str, object]]:
    review, identity = case.review, case.review.identity
    if review.kind in (ReviewKind.UNDEPLOYABLE, ReviewKind.RESTORED, ReviewKind.CORRUPT):
        # It is about the run as a whole, not about a call of it.
        return
    if review.kind not in (ReviewKind.QUESTION, ReviewKind.BUDGET):
        yield "tool", identity.tool_name
    yield "step", identity.node_id
    yield "call", review.call_id
    shown = shown_in(review)
    match shown:
        case Question():
            yield "answer", ", ".join(shown.options) or f"of type {shown.answer_type}"
        case WantedCall():
            lasts = shown.lasts_seconds
            yield "class", shown.replay_class
            yield "approval", "counts until it is used" if lasts is None else _lasts_text(lasts)
        case None:
            yield from _row_facts(case)
            yield "attempt", _attempt_text(case)
            yield "returns", _type_text(tool)


def _lasts_text(seconds: float) -> str:
    return f"counts for {duration_text(seconds)} after it was given"


def _show_what_is_asked(case: Case) -> None:
    shown = shown_in(case.review)
    if isinstance(shown, WantedCall):
        _show_arguments(values.encode(shown.args))
    elif isinstance(shown, Question):
        if shown.about is not None:
            about = shown.about if isinstance(shown.about, dict) else {"about": shown.about}
            _show_arguments(values.encode(about), title="About")
        if shown.schema is not None:
            _show_arguments(values.encode({"schema": shown.schema}), title="Expected")
    elif case.row is not None:
        _show_arguments(case.row.args_json)


def _row_facts(case: Case) -> Iterator[tuple[str, object]]:
    row = case.row
    if row is None:
        yield "status", "the call is no longer in the ledger"
        return
    yield "class", row.replay_class.value
    yield "status", row.status.value
    yield "started", f"{utc_text(row.created_at)} UTC, attempt {row.attempt}"
    yield "key", row.key
    yield "again", row.label
    if row.failure is not None:
        yield "failure", shorten(f"{row.failure.error_type}: {row.failure.message}", 400)


def _attempt_text(case: Case) -> str:
    who = "an unknown process" if case.holder is None else case.holder.describe()
    if case.row is not None and case.row.finished_at is not None:
        return f"over: {who} recorded that it ended"
    if case.attempt_is_over:
        return f"over: its process, {who}, is proven dead"
    return f"may still be running: its process, {who}, is {case.holder_life.value}"


def _type_text(tool: Tool | None) -> str:
    if tool is None:
        return "unknown without --app; a result is only checked when the run is resumed"
    return tool.result_type()


def _decided_text(case: Case) -> str | None:
    decision = case.review.decision
    if decision is None:
        return None
    result = "" if decision.result is None else f", result {shorten(decision.result.json)}"
    when = f"{utc_text(decision.at)} UTC"
    because = f", because: {decision.why}" if decision.why else ""
    return f"{decision.verb.value} by {decision.by} at {when}{result}{because}"


def _show_arguments(args_json: str, *, title: str = "Arguments") -> None:
    arguments = values.decode_object(args_json)
    facts = []
    for name, value in arguments.items():
        text = SHOWN if is_fingerprint(value) else values.encode(covered(value))
        if len(text) > MOST_ARGUMENT_CHARACTERS:
            text = f"{text[:MOST_ARGUMENT_CHARACTERS]}… ({len(text):,} characters; all: --json)"
        facts.append((safe(name), text))
    show_facts(title, facts or [("", "none")])


def _evidence_text(item: Any) -> str:
    result = "" if item.result is None else f", with result {shorten(item.result.json)}"
    return f"{item.source}: {shorten(item.text, 1000)}{result}"


def _show_verbs(case: Case, commands: list[str]) -> None:
    if not commands:
        closed = case.review.closed_by or "nobody"
        show_line(f"It is over, ended by {safe(closed)}; nothing is left to decide.")
        return
    show_facts("You can decide", _verbs(case).items())
    if not can_ask():
        show_line("Type one of:", style="bold")
        for command in commands:
            show_line(f"  {safe(command)}")


def _verbs(case: Case) -> dict[str, str]:
    """What can be said now, each with its meaning."""
    if case.review.status is ReviewStatus.OPEN:
        return words_of(case.review)
    if case.review.status is ReviewStatus.DECIDED:
        return {UNDO: "take the decision back; it has not been used yet"}
    return {}


def _wanted(question: Question) -> str:
    """What to type as the answer: what the run itself suggests, if it does."""
    about = question.about
    suggested = about.get("suggested") if isinstance(about, dict) else None
    if question.kind is not ReviewKind.BUDGET or suggested is None:
        return "JSON"
    return shlex.quote(values.encode(suggested))


def _command_words(case: Case) -> list[str]:
    found = []
    shown = shown_in(case.review)
    options = shown.options if isinstance(shown, Question) else ()
    for verb in _verbs(case):
        words = f"decide {case.review.review_id} {shlex.quote(verb)}"
        if verb == Verb.HAPPENED.value:
            words += " --result JSON"
        if verb == Verb.DID_NOT_HAPPEN.value and not case.attempt_is_over:
            words += " --holder-stopped"
        if isinstance(shown, Question) and verb == shown.verb.value:
            words += " --text TEXT" if shown.answer_type == "str" else f" --result {_wanted(shown)}"
        if verb not in (*options, Verb.ANSWER.value, Verb.APPROVE.value):
            words += " --why TEXT"
        found.append(words)
    return found
