"""What is the state of the ledger? Bare `nottwice`."""

from __future__ import annotations

import click

from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.settings import Settings
from nottwice.cli.render.output import show_facts, show_json, show_line
from nottwice.model.runs.tally import DECIDED
from nottwice.views.ledger.overview import Overview, look_over
from nottwice.views.text import count_text, safe, second_text

UNREADABLE = 3


def show_status(settings: Settings) -> None:
    """Print the state of the ledger and the commands worth typing next."""
    with named_ledger(settings) as ledger:
        overview = look_over(ledger, settings.commands())
    if settings.as_json:
        show_json(overview)
    else:
        _show(overview)
    if overview.unreadable:
        raise click.exceptions.Exit(UNREADABLE)


def _show(overview: Overview) -> None:
    total = sum(overview.runs.values())
    show_facts(
        f"Ledger {overview.ledger}",
        (
            ("runs", f"{total}: {count_text(overview.runs.items())}" if total else "none yet"),
            ("reviews", count_text(overview.reviews.items())),
            ("waiting", _waiting_text(overview.waiting)),
            ("workers", _workers_text(overview.workers)),
            ("in doubt", _doubts_text(overview.calls_in_doubt)),
            ("failover" if overview.failover else "a copy", _copy_text(overview)),
            ("not told", _not_told_text(overview.not_told)),
            *(("unreadable", text) for text in overview.unreadable),
        ),
    )
    show_line()
    show_line("Next", style="bold")
    for hint in overview.hints:
        show_line(f"  {safe(hint.command)}", whole=True)
        show_line(f"      {safe(hint.reason)}", style="dim")


def _doubts_text(number: int | None) -> str:
    if number is None:
        return "not counted: a row cannot be trusted"
    return f"{number} {'call' if number == 1 else 'calls'}" if number else "nothing"


def _workers_text(workers: dict[str, int]) -> str | None:
    """How many workers are there; None if there is none."""
    return count_text(workers.items()) if any(workers.values()) else None


def _not_told_text(number: int) -> str | None:
    """That notifications did not arrive; None if all did."""
    what = "1 notification" if number == 1 else f"{number} notifications"
    return f"{what} lost in 7 days; to try again: nottwice notify --again" if number else None


def _copy_text(overview: Overview) -> str | None:
    """That the ledger may have lost changes; None if it is not a copy."""
    copied_at = overview.copied_at
    made = None if copied_at is None else second_text(copied_at)
    if overview.failover:
        return (
            f"{overview.failover}; the last change in it is from {made}. Its runs are held "
            "until the processes that worked on them vouch for them, or a person decides"
        )
    return f"made at {made}; its runs are held until a person decides" if made else None


_WAITED_FOR = {
    "review": "a person",
    "timer": "time",
    "event": "an event",
    "child": "a child run",
    DECIDED: "you to resume it: a person has decided",
}


def _waiting_text(waiting: dict[str, int]) -> str | None:
    """How many runs wait for what; None if no run waits."""
    shown = [f"{number} for {_WAITED_FOR[kind]}" for kind, number in waiting.items() if number]
    return ", ".join(shown) or None
