"""What did doubts cost, and what was saved? `nottwice report`."""

from __future__ import annotations

import click

from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_command, show_json, show_line, show_table
from nottwice.model.tool import parse_duration
from nottwice.views.ledger.report import CostReport, report_on
from nottwice.views.text import age_text, count_noun, safe, shorten


@click.command(cls=Command)
@click.option(
    "--since", default="7d", show_default=True, metavar="TIME", help="How far back: 1h, 7d."
)
@common_options
@pass_settings
def report(settings: Settings, since: str) -> None:
    """Say what doubts cost, tool by tool, and what the ledger has saved.

    For each tool: its calls, how many came into doubt, who settled them, how long people took, and
    how long runs waited. The tools that cost most come first: a verify hook pays most there.

    \b
    Examples:
      nottwice report
      nottwice report --since 30d --json
    """
    seconds = parse_duration(since, what="--since")
    with named_ledger(settings) as ledger:
        found = report_on(ledger, seconds)
    if settings.as_json:
        show_json(found)
    else:
        _show(found, since, settings)


def _show(found: CostReport, since: str, settings: Settings) -> None:
    done = found.activity
    counted = [
        count_noun(done.runs, "run"),
        count_noun(done.calls, "call"),
        count_noun(done.effects, "effect"),
        count_noun(done.resumed, "resume"),
        f"{count_noun(done.killed, 'opening')} ended by a killed process",
    ]
    show_line(f"Last {safe(since)}: {', '.join(counted)}.")
    if done.not_believed:
        show_line(
            f"{count_noun(done.not_believed, 'run')} with rows that cannot be trusted, whose calls "
            "are not counted."
        )
        show_command("See what does not fit:", settings.command("audit --verify"))
    saved = [count_noun(done.receipts, "call")]
    if done.tokens_saved:
        saved.append(count_noun(done.tokens_saved, "token"))
    if done.usd_saved:
        saved.append(f"{done.usd_saved:.2f} USD")
    show_line(f"Answered from receipts, and not repeated: {', '.join(saved)}.")
    show_line(f"Duplicates prevented: {done.duplicates}.")
    rows = [
        (
            shorten(one.tool, 40),
            one.calls,
            one.doubts,
            f"{one.per_thousand:.1f}",
            one.by_verify,
            one.by_person,
            one.open,
            None if one.median_seconds is None else _length(one.median_seconds),
            _length(one.waited_seconds),
        )
        for one in found.costs
    ]
    if rows:
        show_line()
        names = ("tool", "calls", "doubts", "per 1000", "verify", "people", "open")
        show_table((*names, "median", "waited"), rows, spare=("calls",))
    if found.advice:
        show_line()
    for line in found.advice:
        show_line(safe(line))


def _length(seconds: float) -> str:
    return age_text(seconds).removesuffix(" ago")
