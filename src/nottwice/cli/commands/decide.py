"""What did a person decide? `nottwice decide`: check it, write it, say what resumes the run.

Promise kept here: P18, as far as a command line can: a decision is bound to the review as it was
shown, and nothing is written before the result is known to be JSON and, with --app, to fit. How a
case is shown and how a person is asked is in `case.py`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click

from nottwice.cli.inputs.application import Application, load_application
from nottwice.cli.inputs.completing import review_ids, verbs
from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.json_input import parse_json, text_of
from nottwice.cli.inputs.options import by_option, json_option, login_name, why_option
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render import case as cases
from nottwice.cli.render.output import show_json, show_line, show_note
from nottwice.errors import UsageError
from nottwice.guard import registry
from nottwice.guard.ledger import Ledger
from nottwice.model.asking.asked import UNDO
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Review, ReviewStatus, Verb
from nottwice.model.run import Life
from nottwice.model.tool import Tool
from nottwice.reviews import decide as decisions
from nottwice.reviews.queue import Case, find_case
from nottwice.views.outcomes import Decided
from nottwice.views.people.reviews import CaseView, ReviewView, case_view, list_reviews, review_view
from nottwice.views.run.waits import resume_command
from nottwice.views.runs import Holders, run_view
from nottwice.views.text import safe

NOTHING_DECIDED = 2
_NOTHING = "Nothing was decided."
_ANSWERS = tuple(verb.value for verb in Verb if verb.answers)

_HELP = """Decide what a run waits for; without a VERB, show the case and ask.

\b
Verbs:
  happened        the effect took place; --result becomes the receipt
  did-not-happen  it did not; allows exactly one more attempt
  accept          effects that the code no longer asks for may stay as they
                  are; for a restored copy: what the run did since is
                  accounted for
  answer          the answer to a question: --text or --result; an option of
                  the question is a verb of its own
  approve         the call may be made, with these arguments and no others
  reject          the call is not made; the code gets the reason
  raise           the run may spend that much more: --result '{"usd": 2}',
                  or tokens, turns, seconds
  abort           stop this run permanently
  undo            take back a decision that has not been used yet

If something may have happened, check the upstream first: the mailbox, the payment provider, the
database. `did-not-happen` is refused while the old process may be alive, because it could still
act: stop that process, or confirm with --holder-stopped that you did. A decision runs nothing by
itself: your program uses it when it opens the run again.

With --app the result is checked against the return type of the tool. Without it, the result is
checked against the schema that the ledger has of the tool, if it has one, and again when the run is
resumed. The same decision twice is harmless; a different one is refused.

\b
Examples:
  nottwice decide 1a2b
  nottwice decide 1a2b happened --result '{"id": 7}' --why 'in the outbox'
  nottwice decide 1a2b did-not-happen --why 'no such refund at the bank'
  nottwice decide 1a2b approve
  nottwice decide 1a2b answer --text 'only the first parcel'
"""


@frozen_record(frozen=True, slots=True, kw_only=True)
class Wish:
    """The decision, from the command line or from the person who was asked."""

    verb: str | None
    result_text: str | None
    text: str | None
    by: str | None
    why: str | None
    holder_stopped: bool
    shown_version: int | None


NO_WISH: dict[str, Any] = {
    "verb": None,
    "result_text": None,
    "text": None,
    "by": None,
    "why": None,
    "holder_stopped": False,
    "shown_version": None,
}
"""The options of a decision that a person is asked for."""


@click.command(cls=Command, help=_HELP)
@click.argument("review_id", metavar="ID", shell_complete=review_ids)
@click.argument("verb", required=False, metavar="[VERB]", shell_complete=verbs)
@json_option(
    "--result",
    "result_text",
    "What the tool would have returned, or the answer, for `happened`, `answer` and `raise`.",
)
@click.option("--text", metavar="TEXT", help="The answer as text, without the quotes of JSON.")
@by_option
@why_option("The reason; it is kept. On a terminal you are asked for it.")
@click.option(
    "--holder-stopped",
    is_flag=True,
    help="You made sure yourself that the old process is stopped. For `did-not-happen`.",
)
@click.option(
    "--shown-version",
    type=click.IntRange(min=1),
    metavar="N",
    help="Refuse if the review has changed since this version of it was shown.",
)
@common_options
@pass_settings
@click.pass_context
def decide(context: click.Context, settings: Settings, /, review_id: str, **given: Any) -> None:
    """Decide what a run waits for."""
    wish = _checked(Wish(**given))
    application = _load_tools(settings)
    with named_ledger(settings) as ledger:
        case = find_case(ledger.store, review_id)
        tool = registry.find_tool(case.review.identity.tool_name)
        result_type = None if tool is None else tool.result_type()
        shown = case_view(case, Holders(ledger.store), result_type=result_type)
        wish = _understood(case, wish)
        if wish.verb is None:
            cases.show_case(ledger, shown, settings)
            if not shown.review.is_pending:
                return
            if settings.as_json or not cases.can_ask():
                context.exit(NOTHING_DECIDED)
            wish = _understood(case, _asked(shown, wish))
        wish = _completed(shown, tool, wish)
        after = review_view(ledger.store, _write(ledger, case, tool, wish))
        _show_outcome(ledger, shown.review, after, tool, application, settings)


def _checked(wish: Wish) -> Wish:
    """Refuse what makes no sense, before anything is opened."""
    if wish.text is not None:
        if wish.result_text is not None or wish.verb not in (None, Verb.ANSWER.value):
            raise click.UsageError("--text belongs to the verb `answer`, without --result.")
        text = parse_result(json.dumps(wish.text))
        return replace(wish, verb=Verb.ANSWER.value, result_text=json.dumps(text))
    if wish.result_text is None:
        return wish
    if wish.verb is None:
        raise click.UsageError(
            "--result belongs to the verb `happened`, `answer` or `raise`: add the verb."
        )
    text = text_of(wish.result_text, option="--result", outcome=_NOTHING)
    parse_result(text)
    return replace(wish, result_text=text)


def _understood(case: Case, wish: Wish) -> Wish:
    """The wish with a verb of this review: an option that it offers is an answer."""
    if wish.verb is None or wish.verb == UNDO:
        return wish
    try:
        verb, option = decisions.read_verb(case.review, wish.verb)
    except UsageError as error:
        if wish.verb in [known.value for known in Verb]:
            raise
        raise click.UsageError(safe(error)) from None
    if option is not None:
        if wish.result_text is not None:
            raise click.UsageError(f"{option!r} is the answer already: leave --result out.")
        wish = replace(wish, result_text=json.dumps(option))
    return replace(wish, verb=verb.value)


def parse_result(text: str) -> Any:
    """Read what was given as a result."""
    return parse_json(text, option="--result", outcome=_NOTHING)


def _load_tools(settings: Settings) -> Application | None:
    """The tools, if the command line names them; a person on call may not have them."""
    if settings.app is not None:
        return load_application(settings.app)
    configured = settings.configured_application()
    try:
        return None if configured is None else load_application(configured)
    except UsageError as error:
        show_note(f"Without your tools: {error}")
        return None


def _asked(case: CaseView, wish: Wish) -> Wish:
    verb = cases.ask_verb(case)
    if verb is None:
        show_note("Nothing was decided.")
        raise click.exceptions.Exit(NOTHING_DECIDED)
    return replace(wish, verb=verb)


def _completed(case: CaseView, tool: Tool | None, wish: Wish) -> Wish:
    """Ask for what is still missing, where a person can answer."""
    if cases.can_ask():
        if wish.verb == Verb.HAPPENED.value and wish.result_text is None:
            schema = case.review.result_schema
            wish = replace(wish, result_text=cases.ask_result(tool, parse_result, schema))
        if wish.verb in _ANSWERS and wish.result_text is None:
            wish = replace(wish, result_text=cases.ask_answer(case, parse_result))
        if wish.verb == Verb.DID_NOT_HAPPEN.value and not case.attempt_is_over:
            stopped = wish.holder_stopped or cases.ask_holder_stopped(case)
            wish = replace(wish, holder_stopped=stopped)
    by = login_name() if wish.by is None else wish.by
    verb = None if wish.verb == UNDO else Verb(wish.verb)
    why = wish.why
    if why is None:
        why = cases.ask_why() if decisions.needs_reason(verb) else ""
    return replace(wish, by=by, why=why)


def _write(ledger: Ledger, case: Case, tool: Tool | None, wish: Wish) -> Review:
    review = case.review
    # The case was read before the person was asked, so this is what was shown.
    shown = review.version if wish.shown_version is None else wish.shown_version
    by, why = wish.by or "", wish.why or ""
    if wish.verb == UNDO:
        return decisions.undo(
            ledger.store, ledger.clock, review.review_id, by=by, why=why, shown_version=shown
        )
    result = None if wish.result_text is None else parse_result(wish.result_text)
    if tool is None and wish.verb == Verb.HAPPENED.value and wish.result_text is not None:
        decisions.check_schema(case.result_schema, result)
    return decisions.decide(
        ledger.store,
        ledger.clock,
        review.review_id,
        Verb(wish.verb),
        by=by,
        why=why,
        result=result,
        has_result=wish.result_text is not None,
        holder_stopped=wish.holder_stopped,
        tool=tool,
        shown_version=shown,
    )


def _show_outcome(
    ledger: Ledger,
    before: ReviewView,
    after: ReviewView,
    tool: Tool | None,
    application: Application | None,
    settings: Settings,
) -> None:
    """Say what was written; the last line says what resumes the run."""
    changed = after.version != before.version
    last = _what_next(ledger, after, settings)
    if settings.as_json:
        show_json(Decided(ledger=ledger.location, review=after, changed=changed, next=last))
        return
    if not changed:
        show_line(f"Review {after.review_id} already has this decision; nothing was changed.")
    elif after.decision is None:
        show_line(f"Review {after.review_id} is open again.")
    else:
        decision = after.decision
        said = f" {cases.answer_text(decision)}" if decision.verb.answers else ""
        by = safe(decision.by)
        show_line(f"Review {after.review_id}: {decision.verb.value}{said}, by {by}.")
        if decision.result is not None and tool is None and not after.kind.asks_first:
            why = "no --app was given" if application is None else "the app does not declare it"
            checked = "The result is only checked"
            if after.result_schema is not None:
                checked = "The result fits the schema on record. Its type is only checked"
            show_line(f"{checked} when the run is resumed, because {why}.")
    show_line(safe(last))


def _what_next(ledger: Ledger, review: ReviewView, settings: Settings) -> str:
    run_id = review.run_id
    if review.is_open:
        return f"Run {run_id!r} waits. {settings.command(f'decide {review.review_id}')}"
    others = [one for one in list_reviews(ledger, run_id=run_id).reviews if one.is_open]
    if review.status is not ReviewStatus.DECIDED or review.decision is None:
        if not others:
            return f"Run {run_id!r} has used it already; nothing is left to do."
        # The same call may have asked again since, so the id that was typed may be an old one.
        ids = ", ".join(one.review_id for one in others)
        command = settings.command(f"decide {others[0].review_id}")
        return f"Run {run_id!r} has used it already and now waits for review {ids}: {command}"
    if review.decision.verb is Verb.ABORT:
        return (
            f"Open run {run_id!r} again to end it: your program gets RunAborted, and nothing more "
            "is sent."
        )
    if others:
        command = settings.command(f"decide {others[0].review_id}")
        return f"Run {run_id!r} still waits for {len(others)} more: {command}"
    known = ledger.store.load_run(run_id)
    run = None if known is None else run_view(known, Holders(ledger.store))
    if run is not None and run.holder_life is Life.ALIVE:
        return (
            f"Run {run_id!r} is open in a live process, which uses this at its next effect; "
            "otherwise run your program again when that process has ended."
        )
    resume = None if run is None else resume_command(run, settings.commands())
    how = resume or "run your program."
    return f"Open run {run_id!r} again to continue: {how}"
