"""Copy a ledger while it is in use, and say what became of a copy: `nottwice backup` (L8)."""

from __future__ import annotations

import click

from nottwice.cli.case import login_name
from nottwice.cli.keeping_documents import backup_document
from nottwice.cli.output import safe, show_json, show_line, show_progress
from nottwice.cli.settings import Command, Settings, common_options, pass_settings
from nottwice.engine.clock import Clock
from nottwice.engine.doubts.restored import mark_of
from nottwice.guard.ledger import Ledger
from nottwice.guard.upkeep.backup import account_for, backup, hold_restored

PROGRESS_SECONDS = 1.0


@click.command("backup", cls=Command, short_help="Copy a ledger while it is in use.")
@click.argument("destination", required=False, metavar="[DEST]")
@click.option(
    "--restored",
    is_flag=True,
    help="Say that this ledger was restored from a copy that `nottwice backup` did not make.",
)
@click.option(
    "--accounted-for",
    is_flag=True,
    help="Say of this copy that whatever happened since it was made is accounted for.",
)
@click.option("--by", metavar="NAME", help="Who is on record for it. Else your login name.")
@click.option("--why", metavar="TEXT", help="The reason; it is kept. For the two above.")
@common_options
@pass_settings
def backup_command(
    settings: Settings,
    destination: str | None,
    restored: bool,
    accounted_for: bool,
    by: str | None,
    why: str | None,
) -> None:
    """Copy the ledger to DEST, where nothing is yet, while programs work on it.

    The copy shows one moment, is checked, and is there whole or not at all. It has forgotten what
    is done after that moment, so it is marked: a run of it is held for a person when it is first
    opened, before anything is sent or settled. Restoring is putting it in the place of the ledger
    while no program runs; then decide the reviews as they come up, or, if you know that nothing
    was done since (a planned move, say), account for all of them at once.

    A ledger on PostgreSQL is copied with pg_dump or a base backup, which see all of the database
    at one moment. Say --restored when you have restored one, before any program runs on it.

    \b
    Examples:
      nottwice backup /backups/agent-monday.db
      nottwice backup --accounted-for --why 'moved, nothing ran in between' --store agent.db
      nottwice backup --restored --why 'pg_dump of Monday' --store postgresql://db/agents
    """
    _check(destination, restored, accounted_for, why)
    who = login_name() if by is None else by
    with settings.open_ledger() as ledger:
        if destination is not None:
            _copy(ledger, destination, who, settings)
            return
        if restored:
            hold_restored(ledger, by=who, why=why or "")
            text = "Every run that is in it is held when it is first opened, until one decides."
        else:
            account_for(ledger, by=who, why=why or "")
            text = "Its runs are no longer held."
        if settings.as_json:
            show_json({"ledger": ledger.location, **backup_document(None, mark_of(ledger.store))})
        else:
            show_line(text)


def _check(destination: str | None, restored: bool, accounted_for: bool, why: str | None) -> None:
    """Refuse what cannot be meant, before anything is opened."""
    if [destination is not None, restored, accounted_for].count(True) != 1:
        raise click.UsageError("Say where the copy goes, or one of --restored, --accounted-for.")
    if destination is None and why is None:
        raise click.UsageError("Missing option '--why': the reason is kept.")
    if destination is not None and why is not None:
        raise click.UsageError("--why belongs to --restored or --accounted-for.")


def _copy(ledger: Ledger, destination: str, who: str, settings: Settings) -> None:
    made = backup(destination, store=ledger, by=who, on_progress=_Progress(ledger.clock))
    if settings.as_json:
        show_json({"ledger": ledger.location, **backup_document(made, mark_of(ledger.store))})
        return
    show_line(f"{safe(made.location)} is a copy of {safe(ledger.location)}, {made.bytes:,} bytes.")
    show_line("It is as secret as the ledger. Whoever opens a run of it is asked first.")


class _Progress:
    """Says every second how far it is, to whoever watches."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said_at = clock.now()

    def __call__(self, done: int, total: int) -> None:
        now = self._clock.now()
        if now - self._said_at >= PROGRESS_SECONDS:
            self._said_at = now
            show_progress(f"  {done * 100 // max(total, 1)} % copied")
