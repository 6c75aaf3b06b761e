"""What waits for a person, and what does `verify` say now? `nottwice reviews` and `recheck`."""

from __future__ import annotations

import contextlib
import sys

import click

from nottwice.cli.application import need_application
from nottwice.cli.deployed import named_ledger
from nottwice.cli.documents import case_document, review_document
from nottwice.cli.output import age_text, safe, shorten, show_json, show_line, show_table
from nottwice.cli.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.views import Holders, is_pending, subject_text
from nottwice.engine.doubts.blocking import call_text
from nottwice.errors import DecisionConflict
from nottwice.guard import registry
from nottwice.guard.ledger import Ledger
from nottwice.model.review import Review, ReviewStatus
from nottwice.reviews.queue import open_cases
from nottwice.reviews.recheck import Rechecked
from nottwice.reviews.recheck import recheck as ask_again
from nottwice.store.interface import Outdated

FOUND_SOMETHING = 3


@click.command(cls=Command, short_help="List what waits for a person.")
@click.option("--all", "show_all", is_flag=True, help="Also those that are over.")
@click.option(
    "--fail-if-open", is_flag=True, help="End with exit code 3 if a review is still undecided."
)
@common_options
@pass_settings
@click.pass_context
def reviews(context: click.Context, settings: Settings, show_all: bool, fail_if_open: bool) -> None:
    """List what waits for a person: reviews that are open, or decided and not used yet.

    A review is written when an effect may or may not have happened and only a person can tell, or
    when the code no longer asks for effects that the ledger holds: its run sends nothing new until
    somebody decides. Questions (nt.ask) and calls that need approval (approve=True) are reviews as
    well: they hold back only the code that asked.

    \b
    Examples:
      nottwice reviews
      nottwice reviews --fail-if-open      # for a monitor: exit code 3 if somebody is needed
    """
    with named_ledger(settings) as ledger:
        found = ledger.store.reviews() if show_all else ledger.store.open_reviews()
        undecided = [review for review in found if review.status is ReviewStatus.OPEN]
        if settings.as_json:
            documents = [review_document(review) for review in found]
            show_json({"ledger": ledger.location, "reviews": documents, "open": len(undecided)})
        else:
            _show_reviews(ledger, found, settings)
    if fail_if_open and undecided:
        context.exit(FOUND_SOMETHING)


def _show_reviews(ledger: Ledger, found: list[Review], settings: Settings) -> None:
    if not found:
        show_line("Nothing waits for a person.")
        return
    now = ledger.clock.now()
    rows = [
        (
            review.review_id,
            review.kind.value,
            review.status.value,
            review.identity.workflow_id,
            _call_of(ledger, review),
            age_text(now - review.opened_at),
            _outcome_of(review),
        )
        for review in found
    ]
    show_table(("review", "kind", "status", "run", "about", "opened", "decision"), rows)
    undecided = [review for review in found if review.status is ReviewStatus.OPEN]
    if undecided:
        show_line()
        words = f"decide {undecided[0].review_id}"
        show_line(f"Look at one and decide: {safe(settings.command(words))}")
    elif any(map(is_pending, found)):
        show_line()
        show_line("Decided ones are used when your program opens their run again.")


def _call_of(ledger: Ledger, review: Review) -> str:
    return shorten(subject_text(review, ledger.store.load_call(review.identity)), 80)


def _outcome_of(review: Review) -> str | None:
    if review.decision is not None:
        if review.decision.verb.answers and review.decision.result is not None:
            said = shorten(review.decision.result.json, 40)
            return f"answer {said} by {shorten(review.decision.by, 40)}"
        return f"{review.decision.verb.value} by {shorten(review.decision.by, 40)}"
    return None if review.closed_by is None else f"closed by {shorten(review.closed_by, 40)}"


@click.command(cls=Command, short_help="Ask the verify hooks again; no tool is run.")
@click.option("--tool", metavar="NAME", help="Only reviews about this tool.")
@common_options
@pass_settings
def recheck(settings: Settings, tool: str | None) -> None:
    """Ask the verify hooks again about open reviews. No tool is run.

    Needs your code (--app), for the hooks are in it. Only "it happened" ends a doubt here: it is
    recorded as the decision, and the run goes on from it when your program opens it again. Any
    other answer is kept as evidence, and the review stays open.

    \b
    Examples:
      nottwice recheck --app agent
      nottwice recheck --app agent.py --tool send_email
    """
    application = need_application(settings, what_for="recheck")
    with named_ledger(settings) as ledger:
        answers: list[Rechecked] = []
        # A hook may print; what it says must not mix with what a script reads.
        with contextlib.redirect_stdout(sys.stderr):
            try:
                answers.extend(
                    ask_again(ledger.store, ledger.clock, registry.find_tool, tool_name=tool)
                )
            except Outdated:
                raise DecisionConflict(
                    "Somebody decided a review while its verify hook was asked. That decision "
                    f"stands. Ask again: {settings.command(f'recheck --app {application.name}')}"
                ) from None
        left = sum(review.status is ReviewStatus.OPEN for review in ledger.store.open_reviews())
        if settings.as_json:
            _show_answers_as_json(ledger, answers, left)
        else:
            _show_answers(answers, left, settings)


def _show_answers_as_json(ledger: Ledger, answers: list[Rechecked], left: int) -> None:
    holders = Holders(ledger.store)
    # The cases are read again: an answer may have decided its review.
    now = {case.review.review_id: case for case in open_cases(ledger.store)}
    documents = [
        {
            "answer": one.answer,
            "resolved": one.resolved,
            **case_document(
                now.get(one.case.review.review_id, one.case), holders, result_type=None
            ),
        }
        for one in answers
    ]
    show_json({"ledger": ledger.location, "rechecked": documents, "open": left})


def _show_answers(answers: list[Rechecked], left: int, settings: Settings) -> None:
    if not answers:
        show_line("No open review to ask about.")
        return
    rows = [
        (
            one.case.review.review_id,
            one.case.review.identity.workflow_id,
            one.case.review.identity.tool_name if one.case.row is None else call_text(one.case.row),
            one.answer,
        )
        for one in answers
    ]
    show_table(("review", "run", "call", "answer"), rows)
    show_line()
    for one in answers:
        if one.resolved:
            run_id = one.case.review.identity.workflow_id
            show_line(f"Open run {safe(repr(run_id))} again to go on: run your program.")
    if left:
        show_line(f"Still open: {left}. See: {safe(settings.command('reviews'))}")
