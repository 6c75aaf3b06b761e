"""What waits for a person? `nottwice reviews`."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.options import all_option, read_since
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import (
    show_command,
    show_json,
    show_line,
    show_note,
    show_table,
)
from nottwice.model.data.records import frozen_record
from nottwice.model.review import DANGER
from nottwice.model.tool import parse_duration
from nottwice.views.people.reviews import ReviewList, ReviewView, list_reviews
from nottwice.views.text import age_text, safe, shorten

FOUND_SOMETHING = 3
WALKING = "d: look and decide, n: next, q: stop"
MOST_SECONDS = 3600.0
"""For how long a walk waits for a key. After that, it stops."""


@click.command(cls=Command)
@all_option("Include those that are closed or used.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice([kind.value for kind in DANGER]),
    help="Only reviews of this kind; can be given several times.",
)
@click.option("--tool", metavar="NAME", help="Only reviews about calls of this tool.")
@click.option(
    "--since", metavar="WHEN", help="Only from then on: 24h for the last day, or 2026-11-05T08:00."
)
@click.option("--walk", is_flag=True, help="Go through the open ones, and decide or skip each.")
@click.option(
    "--fail-if-open",
    is_flag=True,
    help="End with exit code 3 if a review is still undecided, or a file cannot be read.",
)
@click.option(
    "--fail-if-older",
    metavar="DURATION",
    help="End with exit code 3 if one has been undecided for longer, such as 1h, or a file cannot "
    "be read.",
)
@common_options
@pass_settings
@click.pass_context
def reviews(context: click.Context, settings: Settings, /, **given: Any) -> None:
    """List what waits for a person: reviews that are open, or decided and not used yet.

    A review is opened when an effect may or may not have happened and only a person can tell, or
    when the code no longer asks for effects that are in the ledger. The run makes no new effect
    until a person decides. Questions (nt.ask) and calls that need approval (approve=True) are
    also reviews; they hold back only the code that asked. The most dangerous come first, then the
    oldest.

    With --walk each open review is shown in turn. One key, without Enter, decides it, skips it or
    stops.

    \b
    Examples:
      nottwice reviews
      nottwice reviews --kind 'in doubt' --tool refund --since 24h
      nottwice reviews --walk
      nottwice reviews --fail-if-open      # for a monitor
      nottwice reviews --fail-if-older 1h  # for cron
    """
    asked = WantedReviews(**given)
    older = None
    if asked.fail_if_older is not None:
        older = parse_duration(asked.fail_if_older, what="--fail-if-older")
    if asked.walk and (settings.as_json or not sys.stdin.isatty()):
        raise click.UsageError("--walk asks you about each review: use it in a terminal.")
    with named_ledger(settings) as ledger:
        now = ledger.clock.now()
        found = list_reviews(
            ledger,
            over=asked.show_all,
            kinds=asked.kinds,
            tool=asked.tool,
            since=None if asked.since is None else read_since(asked.since, now=now),
        )
    if settings.as_json:
        show_json(found)
    elif asked.walk:
        _walk(context, found)
    else:
        _show(found, settings)
    undecided = [one for one in found.reviews if one.is_open]
    too_old = older is not None and any(found.now - one.opened_at > older for one in undecided)
    # What waits in a file that cannot be read is not known. A monitor must not be silent then.
    must_fail = found.unreadable and (asked.fail_if_open or older is not None)
    if too_old or must_fail or (asked.fail_if_open and undecided):
        context.exit(FOUND_SOMETHING)


@frozen_record(frozen=True, slots=True, kw_only=True)
class WantedReviews:
    """What the command line asks for."""

    show_all: bool
    kinds: tuple[str, ...]
    tool: str | None
    since: str | None
    walk: bool
    fail_if_open: bool
    fail_if_older: str | None


def _walk(context: click.Context, found: ReviewList) -> None:
    """Show each open review, and let a key decide what happens with it."""
    # Only here, because this loads what checks results (P226).
    from nottwice.cli.commands.decide import NO_WISH, decide

    # Only a terminal has keys, and there is none on every system.
    from nottwice.cli.demo.keys import Keyboard

    undecided = [review for review in found.reviews if review.is_open]
    for number, review in enumerate(undecided, 1):
        about = shorten(review.title or review.subject, 120)
        age = age_text(found.now - review.opened_at)
        show_line(f"{number} of {len(undecided)}: {review.kind.value}, {age}", style="bold")
        show_line(f"  {about} in run {safe(review.run_id)}")
        with Keyboard(sys.stdin.fileno()) as keyboard:
            show_note(WALKING)
            key = keyboard.wait_for("dnq\n", seconds=MOST_SECONDS)
        if key in ("q", None):
            left = len(undecided) - number + 1
            show_line(f"Stopped. {left} {'is' if left == 1 else 'are'} left.")
            return
        if key == "d":
            # Without a decision it ends with its exit code for that. The walk continues.
            with contextlib.suppress(click.exceptions.Exit):
                context.invoke(decide, review_id=review.review_id, **NO_WISH)
    show_line("That was all." if undecided else "Nothing waits for a person.")


def _show(found: ReviewList, settings: Settings) -> None:
    if not found.reviews:
        but = " in what could be read" if found.unreadable else ""
        show_line(f"Nothing waits for a person{but}.")
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
