"""How did the state of a run come about? `nottwice history`: its versions, one, or two compared."""

from __future__ import annotations

import json

import click

from nottwice.cli.deployed import named_ledger
from nottwice.cli.graph_documents import change_document, checkpoint_document
from nottwice.cli.output import safe, show_json, show_line, show_table, utc_text
from nottwice.cli.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.views import after_text, find_run
from nottwice.engine.upkeep import history as versions
from nottwice.guard.ledger import Ledger

MOST_ROWS = 50


@click.command(cls=Command, short_help="Show the checkpoints of a run, or compare two.")
@click.argument("run_id", metavar="RUN")
@click.option(
    "--at", type=click.IntRange(min=0), metavar="VERSION", help="Show the state of this version."
)
@click.option(
    "--diff",
    type=(click.IntRange(min=0), click.IntRange(min=0)),
    metavar="A B",
    help="What is different in version B, seen from version A.",
)
@click.option("--all", "show_all", is_flag=True, help=f"Also beyond the last {MOST_ROWS}.")
@common_options
@pass_settings
def history(
    settings: Settings,
    run_id: str,
    at: int | None,
    diff: tuple[int, int] | None,
    show_all: bool,
) -> None:
    """List the checkpoints of a RUN of a graph, show the state of one, or compare two.

    A checkpoint is saved when a node ends, and never changes. Version 0 is the input. None of your
    code is needed to look at them.

    \b
    Examples:
      nottwice history ticket-7
      nottwice history ticket-7 --at 3
      nottwice history ticket-7 --diff 2 3
    """
    if at is not None and diff is not None:
        raise click.UsageError("--at shows one version, --diff compares two: give one of them.")
    with named_ledger(settings) as ledger:
        run = find_run(ledger, run_id, list_command=settings.command("runs"))
        if diff is not None:
            _show_changes(ledger, run.workflow_id, *diff, settings)
        elif at is not None:
            _show_version(ledger, run.workflow_id, at, settings)
        else:
            _show_versions(ledger, run.workflow_id, settings, show_all=show_all)


def _show_versions(ledger: Ledger, run_id: str, settings: Settings, *, show_all: bool) -> None:
    found = versions.history(ledger.store, run_id)
    if settings.as_json:
        documents = [checkpoint_document(version) for version in found]
        show_json({"ledger": ledger.location, "run_id": run_id, "checkpoints": documents})
        return
    if not found:
        show_line("It has no checkpoints: only runs of a graph have.")
        return
    shown = found if show_all else found[-MOST_ROWS:]
    if len(shown) < len(found):
        command = settings.command("history --all", run_id)
        show_line(f"… and {len(found) - len(shown)} earlier: {safe(command)}")
    before = [None, *found][len(found) - len(shown) : -1]
    rows = [
        (version.version, utc_text(version.at), after_text(version, earlier))
        for version, earlier in zip(shown, before, strict=True)
    ]
    show_table(("version", "saved (UTC)", "after"), rows)


def _show_version(ledger: Ledger, run_id: str, at: int, settings: Settings) -> None:
    image = versions.load_whole(ledger.store, run_id, at)
    state, node = image["state"], image["position"]["node"]
    if settings.as_json:
        document = {"run_id": run_id, "version": at, "node": node, "state": state}
        show_json({"ledger": ledger.location, **document})
        return
    show_line(f"Version {at} of run {safe(run_id)}; next node: {safe(node or 'none, finished')}")
    for line in json.dumps(state, ensure_ascii=False, indent=2).splitlines():
        show_line(safe(line))


def _show_changes(ledger: Ledger, run_id: str, one: int, other: int, settings: Settings) -> None:
    found = versions.compare(ledger.store, run_id, one, other)
    if settings.as_json:
        documents = [change_document(change) for change in found]
        document = {"run_id": run_id, "from": one, "to": other, "changes": documents}
        show_json({"ledger": ledger.location, **document})
        return
    if not found:
        show_line(f"Versions {one} and {other} have the same state.")
    for change in found:
        show_line(safe(str(change)))
