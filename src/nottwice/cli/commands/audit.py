"""Who did what to which run, and why? `nottwice audit`, for people and for what collects logs.

It only reads; entries are never changed or removed. Promise kept here: P84.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from nottwice.cli.checks.seals import adopt_ledger, verify_ledger
from nottwice.cli.inputs.completing import run_ids
from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.options import all_option, by_option, read_since, why_option
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_command, show_json, show_line, show_table
from nottwice.errors import LedgerTampered, UnknownRun
from nottwice.guard.ledger import Ledger
from nottwice.model.review import AuditEntry
from nottwice.views.outcomes import AuditTrail, EntryView, entry_view
from nottwice.views.runs import find_run
from nottwice.views.shape import to_plain
from nottwice.views.text import local_text, local_zone

MOST_ROWS = 50


@click.command(cls=Command)
@click.argument("run_id", metavar="[RUN]", required=False, shell_complete=run_ids)
@click.option(
    "--since", metavar="WHEN", help="Only from then on: 24h for the last day, or 2026-11-05T08:00."
)
@click.option(
    "--action", metavar="WORD", help="Only this kind: decide, deny, migrate, or a whole action."
)
@click.option("--lines", is_flag=True, help="Print one JSON document per line, oldest first.")
@all_option(f"Show all, not only the last {MOST_ROWS}.")
@click.option(
    "--verify", "verifies", is_flag=True, help="Check that all rows are as nottwice wrote them."
)
@click.option(
    "--adopt", "adopts", is_flag=True, help="Seal all rows as they are, because you vouch for them."
)
@why_option("With --adopt: how you know that the rows are right.")
@by_option
@common_options
@pass_settings
def audit(
    settings: Settings,
    run_id: str | None,
    since: str | None,
    action: str | None,
    lines: bool,
    show_all: bool,
    verifies: bool,
    adopts: bool,
    why: str | None,
    by: str | None,
) -> None:
    """Show the audit trail of a RUN, or of the whole ledger, oldest first.

    It says who decided, migrated, cancelled or denied something, when and why. nottwice adds an
    entry in the same commit as the action, and never changes or removes one; the entries of a run
    stay when the run is removed.

    With --verify every row of the RUN, or of the whole ledger, is checked against its seal, and
    every run against its head: rows that were changed, deleted or restored are named, and the
    exit code is 3. It needs the key (nottwice key). --adopt seals the rows as they are, for a
    ledger from before there was a key, or after you repaired rows by hand.

    \b
    Examples:
      nottwice audit
      nottwice audit ticket-7 --action deny
      nottwice audit --since 24h --lines
      nottwice audit --verify
      nottwice audit --adopt --why "this ledger is older than its key"
    """
    if verifies and adopts:
        raise click.UsageError("--verify checks seals, --adopt makes them: give one of them.")
    if (why is not None or by is not None) and not adopts:
        raise click.UsageError("--why and --by belong to --adopt: add it.")
    if lines and settings.as_json:
        raise click.UsageError("--lines are many JSON documents, --json is one: give one of them.")
    with named_ledger(settings) as ledger:
        if verifies or adopts:
            known = None
            if run_id is not None:
                known = _named(ledger, run_id, settings)
            if verifies:
                verify_ledger(settings, ledger, known, whole=run_id is None)
            else:
                adopt_ledger(settings, ledger, known, by=by, why=why)
            return
        found = list(map(entry_view, _entries(ledger, run_id, settings)))
        after = None if since is None else read_since(since, now=ledger.clock.now())
        found = [entry for entry in found if _is_wanted(entry, after=after, action=action)]
        if lines:
            for entry in found:
                click.echo(json.dumps(to_plain(entry), ensure_ascii=True, allow_nan=False))
        elif settings.as_json:
            show_json(AuditTrail(ledger=ledger.location, entries=tuple(found)))
        else:
            _show(found, settings, run_id or "", show_all=show_all)


def _named(ledger: Ledger, run_id: str, settings: Settings) -> str:
    try:
        return find_run(ledger, run_id, list_command=settings.command("runs")).run_id
    except LedgerTampered:
        # A file that cannot be trusted is found only by the whole id of its run.
        return run_id


def _entries(ledger: Ledger, run_id: str | None, settings: Settings) -> list[AuditEntry]:
    if run_id is None:
        return ledger.store.audit()
    try:
        run = find_run(ledger, run_id, list_command=settings.command("runs"))
    except UnknownRun:
        # The run may have been removed; its audit trail is kept.
        found = ledger.store.audit(run_id)
        if not found:
            raise
        return found
    return ledger.store.audit(run.run_id)


def _is_wanted(entry: EntryView, *, after: float | None, action: str | None) -> bool:
    if after is not None and entry.at < after:
        return False
    return action is None or entry.action == action or entry.action.startswith(f"{action} ")


def _show(found: Sequence[EntryView], settings: Settings, run_id: str, *, show_all: bool) -> None:
    if not found:
        show_line("Nothing of that kind was done.")
        return
    shown = found if show_all else found[-MOST_ROWS:]
    if len(shown) < len(found):
        command = settings.command("audit --all", run_id)
        show_command(f"… and {len(found) - len(shown)} earlier:", command)
    zone = local_zone(shown[-1].at)
    rows = [
        (local_text(each.at, zone), each.run_id, each.who, each.action, each.subject, each.why)
        for each in shown
    ]
    columns = (f"when ({zone})", "run", "who", "action", "about", "why")
    show_table(columns, rows, cut=("who", "about", "why"), spare=("about",))
