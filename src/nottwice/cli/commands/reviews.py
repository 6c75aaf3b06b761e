"""What waits for a person? `nottwice reviews`."""

from __future__ import annotations

import click

from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.options import all_option
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_command, show_json, show_line, show_table
from nottwice.views.reviews import ReviewList, ReviewView, list_reviews
from nottwice.views.text import age_text, shorten

FOUND_SOMETHING = 3


@click.command(cls=Command)
@all_option("Also those that are closed or used.")
@click.option(
    "--fail-if-open", is_flag=True, help="End with exit code 3 if a review is still undecided."
)
@common_options
@pass_settings
@click.pass_context
def reviews(context: click.Context, settings: Settings, show_all: bool, fail_if_open: bool) -> None:
    """List what waits for a person: reviews that are open, or decided and not used yet.

    A review is opened when an effect may or may not have happened and only a person can tell, or
    when the code no longer asks for effects that are in the ledger. The run makes no new effect
    until a person decides. Questions (nt.ask) and calls that need approval (approve=True) are
    reviews, too; they hold back only the code that asked.

    \b
    Examples:
      nottwice reviews
      nottwice reviews --fail-if-open      # for a monitor: exit code 3 if a person is needed
    """
    with named_ledger(settings) as ledger:
        found = list_reviews(ledger, over=show_all)
    if settings.as_json:
        show_json(found)
    else:
        _show(found, settings)
    if fail_if_open and found.open:
        context.exit(FOUND_SOMETHING)


def _show(found: ReviewList, settings: Settings) -> None:
    if not found.reviews:
        show_line("Nothing waits for a person.")
        return
    rows = [
        (
            review.review_id,
            review.kind.value,
            review.status.value,
            review.run_id,
            shorten(review.title or review.subject, 80),
            age_text(found.now - review.opened_at).removesuffix(" ago"),
            _outcome_of(review),
        )
        for review in found.reviews
    ]
    columns = ("review", "kind", "status", "run", "about", "age", "decision")
    show_table(columns, rows, cut=("about", "decision"), spare=("status",))
    undecided = [review for review in found.reviews if review.is_open]
    if undecided:
        show_line()
        words = f"decide {undecided[0].review_id}"
        show_command("Look at one and decide:", settings.command(words))
    elif any(review.is_pending for review in found.reviews):
        show_line()
        show_line("A decision is used when your program opens the run again.")


def _outcome_of(review: ReviewView) -> str | None:
    decision = review.decision
    if decision is None:
        return None if review.closed_by is None else f"closed by {shorten(review.closed_by, 40)}"
    by = shorten(decision.by, 40)
    if decision.verb.answers and decision.result is not None:
        return f"answer {shorten(decision.result.json, 40)} by {by}"
    return f"{decision.verb.value} by {by}"
