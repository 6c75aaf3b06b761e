"""Copy a ledger while it is in use, and account for a copy: `nottwice backup` (L8)."""

from __future__ import annotations

import click

from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.options import by_option, login_name, why_option
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_json, show_line
from nottwice.cli.render.ticker import Ticker
from nottwice.engine.doubts.restored import mark_of
from nottwice.guard.ledger import Ledger
from nottwice.guard.upkeep.backup import backup, hold_restored
from nottwice.reviews.accounting import account_for
from nottwice.views.outcomes import backup_view
from nottwice.views.text import safe


@click.command("backup", cls=Command)
@click.argument("destination", required=False, metavar="[DEST]")
@click.option(
    "--restored",
    is_flag=True,
    help="Say that this ledger was restored from a copy that `nottwice backup` did not make.",
)
@click.option(
    "--accounted-for",
    is_flag=True,
    help="Say that everything that happened since this copy was made is accounted for.",
)
@by_option
@why_option("The reason; it is kept. For --restored and --accounted-for.")
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
    """Copy the ledger to DEST, which must not exist, while programs work on it.

    The copy shows one moment, is checked, and is either complete or not there. It lacks what is
    done after that moment, so it is marked: each of its runs is held for a person when it is first
    opened, before anything is sent or settled. To restore it, put it in the place of the ledger
    while no program runs; then decide the reviews as they come up. If you know that nothing was
    done since, for example after a planned move, account for all of them with one command.

    A ledger on PostgreSQL is copied with pg_dump or a base backup, which see all of the database
    at one moment. Say --restored when you have restored one, before any program runs on it.

    \b
    Examples:
      nottwice backup /backups/agent-monday.db
      nottwice backup --accounted-for --why 'moved, nothing ran in between'
      nottwice backup --restored --why 'pg_dump of Monday'
    """
    _check(destination, restored, accounted_for, why)
    who = login_name() if by is None else by
    with named_ledger(settings) as ledger:
        if destination is not None:
            _copy(ledger, destination, who, settings)
            return
        if restored:
            hold_restored(ledger, by=who, why=why or "")
            text = "Each of its runs is held when it is next opened, until a person decides."
        else:
            account_for(ledger, by=who, why=why or "")
            text = "Its runs are no longer held."
        if settings.as_json:
            show_json(backup_view(ledger, None, mark_of(ledger.store)))
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
    made = backup(destination, store=ledger, by=who, on_progress=Ticker(ledger.clock, _copied))
    if settings.as_json:
        show_json(backup_view(ledger, made, mark_of(ledger.store)))
        return
    show_line(f"{safe(made.location)} is a copy of {safe(ledger.location)}, {made.bytes:,} bytes.")
    show_line("It is as secret as the ledger. Its runs are held until a person decides.")


def _copied(done: int, total: int) -> str:
    return f"  {done * 100 // max(total, 1)} % copied"
