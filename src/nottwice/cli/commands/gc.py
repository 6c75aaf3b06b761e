"""Remove what is no longer needed: `nottwice gc` (L8)."""

from __future__ import annotations

from dataclasses import fields

import click

from nottwice.cli.inputs.application import load_application
from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.options import by_option, dry_run_option, login_name
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_command, show_json, show_line, show_note, show_table
from nottwice.cli.render.ticker import Ticker
from nottwice.engine.upkeep.retention import RemovalReport, RemovedRun
from nottwice.guard.upkeep.retention import remove_expired
from nottwice.model.runs.retention import Retention
from nottwice.views.outcomes import removal_view
from nottwice.views.text import local_text

MOST_ROWS = 20
_PERIODS = [field.name for field in fields(Retention)]


@click.command(cls=Command)
@dry_run_option
@click.option(
    "--older-than",
    metavar="DURATION",
    help="The same period for everything, such as 90d; at least 14d.",
)
@click.option(
    "--keep",
    "pairs",
    multiple=True,
    metavar="WHAT=DURATION",
    help=f"Another period for one of {', '.join(_PERIODS)}; can be given several times.",
)
@click.option(
    "--unknown-tools",
    is_flag=True,
    help="Also rows of tools that your code (--app) does not declare, by their class.",
)
@by_option
@common_options
@pass_settings
def gc(
    settings: Settings,
    dry_run: bool,
    older_than: str | None,
    pairs: tuple[str, ...],
    unknown_tools: bool,
    by: str | None,
) -> None:
    """Remove the rows of finished runs whose period has passed.

    Periods are counted from the end of a run, or of the last run that it spawned: a run is kept and
    removed together with those. Nothing is removed from an open run, or from a run with an open
    review. A removed run leaves a tombstone: its id cannot be used again.

    \b
    What is kept, and for how long:
      checkpoints   30d  all saved versions but the last; notices of any run
      pure          60d  rows of pure tools
      keyed        180d  rows of keyed tools, and never shorter than their window
      unsafe       365d  rows of unsafe tools
      failed        90d  anything of a run that failed and could be resumed

    A tool with keep= sets its own period, so your tools are needed (--app): rows of other tools
    stay. It works in small commits while programs run, and can be stopped and repeated.

    \b
    Examples:
      nottwice gc --dry-run --app agent:app
      nottwice gc --keep pure=30d --app agent:app
      nottwice gc --older-than 90d --unknown-tools
    """
    retention = _retention(older_than, pairs)
    application = settings.application()
    if application is not None:
        load_application(application)
    with named_ledger(settings) as ledger:
        removed = remove_expired(
            ledger,
            retention=retention,
            by=login_name() if by is None else by,
            dry_run=dry_run,
            unknown_tools=unknown_tools,
            on_progress=Ticker(ledger.clock, _progress_text),
        )
        if settings.as_json:
            show_json(removal_view(ledger, removed))
        else:
            _show(removed, settings, has_application=application is not None)


def _retention(older_than: str | None, pairs: tuple[str, ...]) -> Retention:
    if older_than is not None:
        if pairs:
            raise click.UsageError("--older-than is the period of everything: leave --keep out.")
        return Retention.of(older_than)
    periods: dict[str, str] = {}
    for pair in pairs:
        what, equals, period = pair.partition("=")
        if what not in _PERIODS or not equals:
            known = ", ".join(_PERIODS)
            raise click.UsageError(f"--keep {pair}: write WHAT=DURATION; WHAT is one of {known}.")
        periods[what] = period
    return Retention(**periods)


def _show(removed: RemovalReport, settings: Settings, *, has_application: bool) -> None:
    if removed.named:
        columns = ("run", "ended", "as", "calls that go", "left", "next part")
        show_table(
            columns,
            [_cells(run) for run in removed.named[:MOST_ROWS]],
            spare=("next part", "left"),
        )
        more = removed.runs - MOST_ROWS
        if more > 0:
            show_line(f"… and {more} more")
    would = "would be removed" if removed.dry_run else "removed"
    show_line(f"Looked at {removed.families} runs: {_counts(removed)} {would}.")
    if removed.still_open:
        command = settings.command("reviews")
        show_command(f"{removed.still_open} are old enough and still open:", command)
    if removed.unknown_tools:
        names = ", ".join(f"{name} ({count})" for name, count in removed.unknown_tools.items())
        wants = "does not declare them" if has_application else "is not named with --app"
        show_note(
            f"Rows were kept because your code {wants}, so it is not known how long they are "
            f"needed: {names}. If those tools no longer exist: --unknown-tools"
        )


def _progress_text(removed: RemovalReport) -> str:
    return f"  looked at {removed.families} runs so far: {_counts(removed)}"


def _cells(run: RemovedRun) -> tuple[object, ...]:
    ended, due = local_text(run.ended_at), local_text(run.due_at)
    day = (ended or "")[:10]
    return run.run_id, day, run.ended_as, run.calls, run.calls_left, (due or "")[:10] or None


def _counts(removed: RemovalReport) -> str:
    parts = [
        _many(removed.runs, "run"),
        _many(removed.calls, "call"),
        _many(removed.checkpoints, "checkpoint"),
    ]
    if removed.notices:
        parts.append(_many(removed.notices, "notice"))
    return ", ".join(parts)


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
