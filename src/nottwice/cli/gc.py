"""Remove what nobody needs any more: `nottwice gc` (L8)."""

from __future__ import annotations

from dataclasses import fields

import click

from nottwice.cli.application import load_application
from nottwice.cli.case import login_name
from nottwice.cli.keeping_documents import removed_document
from nottwice.cli.output import (
    safe,
    show_json,
    show_line,
    show_note,
    show_progress,
    show_table,
    utc_text,
)
from nottwice.cli.settings import Command, Settings, common_options, pass_settings
from nottwice.engine.clock import Clock
from nottwice.engine.upkeep.retention import Removed, RemovedRun
from nottwice.guard.upkeep.retention import remove_expired
from nottwice.model.retention import Retention

MOST_ROWS = 20
PROGRESS_SECONDS = 1.0
_PERIODS = [field.name for field in fields(Retention)]


@click.command(cls=Command, short_help="Remove what nobody needs any more.")
@click.option("--dry-run", is_flag=True, help="Tell what would be removed, and remove nothing.")
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
@click.option("--by", metavar="NAME", help="Who is on record for it. Else your login name.")
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
    """Remove what runs that are over have left behind, when its time has come.

    Periods are counted from the end of a run, or of the last of the runs that it has spawned and
    with which it is kept and removed together. Nothing of an open run is ever removed, nor while
    a review of it is open. A removed run leaves a tombstone: its id cannot be used again.

    \b
    What is kept, and for how long:
      checkpoints   30d  all saved versions but the last
      pure          60d  rows of pure tools
      keyed        180d  rows of keyed tools, and never shorter than their window
      unsafe       365d  rows of unsafe tools
      failed        90d  anything of a run that failed and could be resumed

    A tool that says keep= decides for itself, so your tools are needed (--app): rows of others
    stay. Runs in small commits beside programs that work, and can be stopped and repeated.

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
    with settings.open_ledger() as ledger:
        removed = remove_expired(
            ledger,
            retention=retention,
            by=login_name() if by is None else by,
            dry_run=dry_run,
            unknown_tools=unknown_tools,
            on_progress=_Progress(ledger.clock),
        )
        if settings.as_json:
            show_json({"ledger": ledger.location, **removed_document(removed)})
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


class _Progress:
    """Says every second how far it is, to whoever watches."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said_at = clock.now()

    def __call__(self, removed: Removed) -> None:
        now = self._clock.now()
        if now - self._said_at >= PROGRESS_SECONDS:
            self._said_at = now
            show_progress(f"  looked at {removed.families} runs so far: {_counts(removed)}")


def _show(removed: Removed, settings: Settings, *, has_application: bool) -> None:
    if removed.named:
        columns = ("run", "ended", "as", "calls that go", "left", "next part")
        show_table(columns, [_cells(run) for run in removed.named[:MOST_ROWS]])
        more = removed.runs - MOST_ROWS
        if more > 0:
            show_line(f"… and {more} more")
    would = "would be removed" if removed.dry_run else "removed"
    show_line(f"Looked at {removed.families} runs: {_counts(removed)} {would}.")
    if removed.still_open:
        command = settings.command("reviews")
        show_line(f"{removed.still_open} are old enough and still open: {safe(command)}")
    if removed.unknown_tools:
        names = ", ".join(f"{name} ({count})" for name, count in removed.unknown_tools.items())
        wants = "does not declare them" if has_application else "is not named with --app"
        show_note(
            f"Rows were kept because your code {wants}, so nobody knows how long they are needed: "
            f"{names}. If those tools are gone for good: --unknown-tools"
        )


def _cells(run: RemovedRun) -> tuple[object, ...]:
    ended, due = utc_text(run.ended_at), utc_text(run.due_at)
    day = (ended or "")[:10]
    return run.run_id, day, run.ended_as, run.calls, run.calls_left, (due or "")[:10] or None


def _counts(removed: Removed) -> str:
    parts = [
        _many(removed.runs, "run"),
        _many(removed.calls, "call"),
        _many(removed.checkpoints, "checkpoint"),
    ]
    return ", ".join(parts)


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
