"""Move runs to another version of their graph: `nottwice migrate` (V4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from nottwice.cli.inputs import completing
from nottwice.cli.inputs.application import load_application
from nottwice.cli.inputs.deployed import ledger_for, need_app
from nottwice.cli.inputs.options import (
    by_option,
    dry_run_option,
    login_name,
    map_option,
    restart_steps_option,
    upgrade_option,
    why_option,
)
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_json, show_line, show_progress
from nottwice.errors import NottwiceError, UsageError
from nottwice.guard.ledger import Ledger
from nottwice.versions.migrate_plan import Migration, MigrationOrder, Upgrade
from nottwice.versions.migrating import attempt, open_runs, order_of
from nottwice.views.outcomes import MigrationReport, migration_view
from nottwice.views.runs import find_run
from nottwice.views.text import safe

SOME_REFUSED = 3
_STYLES = {"migrated": "green", "would migrate": "cyan", "refused": "red"}


@click.command(cls=Command)
@click.argument("run_ids", metavar="[RUN]...", nargs=-1, shell_complete=completing.run_ids)
@click.option("--to", required=True, metavar="GRAPH", help="The version: refund@2.0.0.")
@click.option("--from", "from_graph", metavar="GRAPH", help="All open runs of this version.")
@map_option()
@by_option
@why_option()
@upgrade_option()
@restart_steps_option()
@click.option(
    "--repeats",
    multiple=True,
    metavar="TOOL",
    help="Allow this tool to repeat what the run has done with it; once for each tool.",
)
@dry_run_option
@common_options
@pass_settings
@click.pass_context
def migrate(
    context: click.Context,
    settings: Settings,
    run_ids: tuple[str, ...],
    to: str,
    from_graph: str | None,
    pairs: tuple[str, ...],
    by: str | None,
    why: str | None,
    upgrade: str | None,
    restart_steps: bool,
    repeats: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Move each RUN to another version of its graph; exit code 3 if any was refused.

    Needs your graphs (--app), GRAPH among them, and an admin: nt.App(admins=...) names the admins.
    Every node that a run is at must be mapped, even if it keeps its name; a run of an agent needs
    no map.
    Runs are migrated one by one, each completely or not at all. A refused run does not stop the
    others, and the same command again takes those that are left. Children keep their own version.

    \b
    Refused, with the reason:
      a call in doubt, an open review about one, a decision that is not used yet
      a step that has not ended and has made effects, spawned a child or received
        an event
      a node that is not mapped, or that the new version does not have
      a state that does not fit the new version, after --upgrade if there is one
      without --restart-steps: a timer, a question or an answer of a step that has
        not ended
      without --repeats TOOL: a node that would call a tool whose receipt the run
        holds

    \b
    Examples:
      nottwice migrate ticket-7 --to refund@2.0.0 --map notify=tell --why 'a typo'
      nottwice migrate --from refund@1.2.0 --to refund@2.0.0 --map pay=pay \\
        --map notify=tell --upgrade upgrades:to_2 --dry-run
    """
    if bool(run_ids) == (from_graph is not None):
        raise click.UsageError("Which runs? Name them, or say --from GRAPH for all open ones.")
    if why is None and not dry_run:
        raise click.UsageError("Missing option '--why': the reason is kept.")
    mapping = read_mapping(pairs)
    deployed = need_app(settings, what_for="migrate")
    order = order_of(
        deployed.app,
        to=to,
        mapping=mapping,
        by=login_name() if by is None else by,
        why="a dry run" if why is None else why,
        upgrade=load_upgrade(upgrade),
        restart_steps=restart_steps,
        repeats=repeats,
    )
    with ledger_for(settings, deployed.app, create=False) as ledger:
        names = run_ids if from_graph is None else open_runs(ledger.store, from_graph)
        found = list(_migrate(ledger, list(names), order, settings, dry_run=dry_run))
        if settings.as_json:
            show_json(_report(ledger, found, order, dry_run=dry_run))
        else:
            show_line(_summary(found, from_graph))
    context.exit(SOME_REFUSED if any(one.error is not None for one in found) else 0)


def read_mapping(pairs: tuple[str, ...]) -> dict[str, str]:
    """Which node becomes which, from words like OLD=NEW."""
    found: dict[str, str] = {}
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not (old and equals and new):
            raise click.UsageError(f"--map {pair}: write OLD=NEW, two names of nodes.")
        if found.setdefault(old, new) != new:
            raise click.UsageError(f"--map says two things about {old}: {found[old]} and {new}.")
    return found


def load_upgrade(target: str | None) -> Upgrade | None:
    """The function of a state that MODULE:FUNCTION names."""
    if target is None:
        return None
    named: Any = load_application(target).named
    if ":" not in target or not callable(named):
        raise UsageError(f"{target} names no function. Nothing was done. Write MODULE:FUNCTION.")
    upgrade: Upgrade = named
    return upgrade


def _migrate(
    ledger: Ledger, names: list[str], order: MigrationOrder, settings: Settings, *, dry_run: bool
) -> Iterator[Migration]:
    """One after the other; each outcome is shown as soon as it is known."""
    for number, name in enumerate(names, 1):
        try:
            run = find_run(ledger, name, list_command=settings.command("runs"))
            done = attempt(ledger, run.run_id, order, dry_run=dry_run)
        except NottwiceError as error:
            done = Migration(run_id=name, old=None, new=order.to.id, outcome="refused", error=error)
        count = f"[{number}/{len(names)}] " if len(names) > 1 else ""
        if settings.as_json:
            show_progress(f"{count}{done.outcome}: {done.run_id}")
        else:
            _show(done, count)
        yield done


def _show(done: Migration, count: str) -> None:
    nodes = "".join(f", {old} → {new}" for old, new in done.nodes)
    way = f"{done.old} → {done.new}{nodes}" if done.error is None else str(done.error)
    line = f"{count}{done.outcome}: {safe(done.run_id)}: {safe(way)}"
    show_line(line, style=_STYLES.get(done.outcome))
    for change in done.changes:
        show_line(f"  {safe(change)}")
    for text in done.begins_again:
        show_line(f"  begins again: {safe(text)}")


def _report(
    ledger: Ledger, found: list[Migration], order: MigrationOrder, *, dry_run: bool
) -> MigrationReport:
    return MigrationReport(
        ledger=ledger.location,
        to=order.to.id,
        dry_run=dry_run,
        migrations=tuple(map(migration_view, found)),
        refused=sum(one.error is not None for one in found),
    )


def _summary(found: list[Migration], from_graph: str | None) -> str:
    if not found:
        return f"No open run of {from_graph}."
    counts: dict[str, int] = {}
    for one in found:
        counts[one.outcome] = counts.get(one.outcome, 0) + 1
    return ", ".join(f"{number} {outcome}" for outcome, number in counts.items())
