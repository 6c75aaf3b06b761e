"""How did the state of a run come about? `nottwice history`: its versions, one, or two compared."""

from __future__ import annotations

import json

import click

from nottwice.cli.inputs.completing import run_ids
from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.options import all_option
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_command, show_json, show_line, show_table
from nottwice.views.run.graphs import (
    History,
    StateAt,
    StateDifference,
    difference,
    history_of,
    state_at,
)
from nottwice.views.runs import find_run
from nottwice.views.text import local_text, local_zone, safe

MOST_ROWS = 50


@click.command(cls=Command)
@click.argument("run_id", metavar="RUN", shell_complete=run_ids)
@click.option(
    "--at", type=click.IntRange(min=0), metavar="VERSION", help="Show the state of this version."
)
@click.option(
    "--diff",
    type=(click.IntRange(min=0), click.IntRange(min=0)),
    metavar="A B",
    help="Show what changed from version A to version B.",
)
@all_option(f"Show all, not only the last {MOST_ROWS}.")
@common_options
@pass_settings
def history(
    settings: Settings,
    run_id: str,
    at: int | None,
    diff: tuple[int, int] | None,
    show_all: bool,
) -> None:
    """List the checkpoints of a RUN of a graph, show the state at one of them, or compare two.

    A checkpoint is saved when a node ends, and never changes. Version 0 is the input. None of your
    code is needed to read them.

    \b
    Examples:
      nottwice history ticket-7
      nottwice history ticket-7 --at 3
      nottwice history ticket-7 --diff 2 3
    """
    if at is not None and diff is not None:
        raise click.UsageError("--at shows one version, --diff compares two: give one of them.")
    found: History | StateAt | StateDifference
    with named_ledger(settings) as ledger:
        name = find_run(ledger, run_id, list_command=settings.command("runs")).run_id
        if diff is not None:
            found = difference(ledger, name, *diff)
        elif at is not None:
            found = state_at(ledger, name, at)
        else:
            found = history_of(ledger, name)
    if settings.as_json:
        show_json(found)
        return
    match found:
        case StateDifference():
            _show_changes(found)
        case StateAt():
            _show_state(found)
        case History():
            _show_versions(found, settings, show_all=show_all)


def _show_versions(found: History, settings: Settings, *, show_all: bool) -> None:
    if not found.checkpoints:
        show_line("It has no checkpoints: only runs of a graph have them.")
        return
    shown = found.checkpoints if show_all else found.checkpoints[-MOST_ROWS:]
    earlier = len(found.checkpoints) - len(shown)
    if earlier:
        command = settings.command("history --all", found.run_id)
        show_command(f"… and {earlier} earlier:", command)
    zone = local_zone(shown[-1].at)
    rows = [(one.version, local_text(one.at, zone), one.after) for one in shown]
    show_table(("version", f"saved ({zone})", "after"), rows, cut=("after",))


def _show_state(found: StateAt) -> None:
    node = safe(found.node or "none, finished")
    show_line(f"Version {found.version} of run {safe(found.run_id)}; next node: {node}")
    for line in json.dumps(found.state, ensure_ascii=False, indent=2).splitlines():
        show_line(safe(line), whole=True)


def _show_changes(found: StateDifference) -> None:
    if not found.changes:
        show_line(f"Versions {found.from_} and {found.to} have the same state.")
    for change in found.changes:
        show_line(safe(change.text))
