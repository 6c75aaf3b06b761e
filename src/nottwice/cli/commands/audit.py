"""Who did what to which run, and why? `nottwice audit`, for people and for what collects logs.

It only reads: nobody changes or removes an entry. Promise kept here: P84.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from nottwice.cli.checks.seals import adopt_ledger, verify_ledger
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import iso_text, safe, show_json, show_line, show_table, utc_text
from nottwice.cli.views import find_run
from nottwice.errors import InvalidTool, UnknownRun
from nottwice.guard.ledger import Ledger
from nottwice.model.review import AuditEntry
from nottwice.model.tool import parse_duration

MOST_ROWS = 50


@click.command(cls=Command, short_help="Show who did what, and why.")
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option(
    "--since", metavar="WHEN", help="Only from then on: 24h for the last day, or 2026-11-05T08:00."
)
@click.option(
    "--action", metavar="WORD", help="Only this kind: decide, deny, migrate, or a whole action."
)
@click.option("--lines", is_flag=True, help="Print one JSON document a line, oldest first.")
@click.option("--all", "show_all", is_flag=True, help=f"Also beyond the last {MOST_ROWS}.")
@click.option(
    "--verify", "verifies", is_flag=True, help="Check that all rows are as nottwice wrote them."
)
@click.option("--adopt", "adopts", is_flag=True, help="Seal all rows as they are, on your word.")
@click.option("--why", metavar="TEXT", help="How you know that what --adopt seals is right.")
@click.option("--by", metavar="NAME", help="Who is on record for --adopt. Else your login name.")
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

    It says who decided, migrated, cancelled or denied something, when and why. Nottwice adds to it
    with the very commit that does what it tells of, and never changes or removes what is there;
    what was audited stays when a run is removed.

    With --verify every row of the RUN, or of the whole ledger, is checked against its seal, and
    every run against its head: rows that were changed, taken away or put back are named, and the
    exit code is 3. It needs the key (nottwice key). --adopt seals what is there, for a ledger from
    before there was a key, or after somebody mended rows by hand.

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
        raise click.UsageError("--why and --by say who takes the word for --adopt: give that, too.")
    if lines and settings.as_json:
        raise click.UsageError("--lines are many JSON documents, --json is one: give one of them.")
    with settings.open_ledger() as ledger:
        if verifies or adopts:
            known = None
            if run_id is not None:
                known = find_run(ledger, run_id, list_command=settings.command("runs")).workflow_id
            if verifies:
                verify_ledger(settings, ledger, known, whole=run_id is None)
            else:
                adopt_ledger(settings, ledger, known, by=by, why=why)
            return
        found = _entries(ledger, run_id, settings)
        after = None if since is None else _moment(since, now=ledger.clock.now())
        found = [entry for entry in found if _is_wanted(entry, after=after, action=action)]
        if lines:
            for entry in found:
                click.echo(json.dumps(entry_document(entry), ensure_ascii=True, allow_nan=False))
        elif settings.as_json:
            documents = [entry_document(entry) for entry in found]
            show_json({"ledger": ledger.location, "entries": documents})
        else:
            _show(found, settings, run_id or "", show_all=show_all)


def entry_document(entry: AuditEntry) -> dict[str, Any]:
    """An entry as JSON; its fields are documented in ``documents.py``."""
    return {
        "at": iso_text(entry.at),
        "run_id": entry.workflow_id,
        "who": entry.who,
        "action": entry.action,
        "subject": entry.subject,
        "why": entry.why,
    }


def _entries(ledger: Ledger, run_id: str | None, settings: Settings) -> list[AuditEntry]:
    if run_id is None:
        return ledger.store.audit()
    try:
        run = find_run(ledger, run_id, list_command=settings.command("runs"))
    except UnknownRun:
        # It may have been removed; what was done to it is still told.
        found = ledger.store.audit(run_id)
        if not found:
            raise
        return found
    return ledger.store.audit(run.workflow_id)


def _moment(text: str, *, now: float) -> float:
    """A moment from how long ago it was, or from a date, in UTC unless it says otherwise."""
    try:
        return now - parse_duration(text, what="--since")
    except InvalidTool:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"--since {text!r} is neither a time ago, such as 24h or 7d, nor a date, such as "
            "2026-11-05 or 2026-11-05T08:00."
        ) from None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _is_wanted(entry: AuditEntry, *, after: float | None, action: str | None) -> bool:
    if after is not None and entry.at < after:
        return False
    return action is None or entry.action == action or entry.action.startswith(f"{action} ")


def _show(found: Sequence[AuditEntry], settings: Settings, run_id: str, *, show_all: bool) -> None:
    if not found:
        show_line("Nothing of that kind was done.")
        return
    shown = found if show_all else found[-MOST_ROWS:]
    if len(shown) < len(found):
        command = settings.command("audit --all", run_id)
        show_line(f"… and {len(found) - len(shown)} earlier: {safe(command)}")
    rows = [
        (utc_text(each.at), each.workflow_id, each.who, each.action, each.subject, each.why)
        for each in shown
    ]
    show_table(("when (UTC)", "run", "who", "action", "about", "why"), rows)
