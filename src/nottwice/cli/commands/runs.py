"""Which runs are in the ledger, and which versions of the code do they need? `nottwice runs`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import click

from nottwice.cli.inputs.completing import run_ids
from nottwice.cli.inputs.deployed import ledger_for, named_ledger, need_app
from nottwice.cli.inputs.options import all_option
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import cell_width, show_command, show_json, show_line, show_table
from nottwice.model.runs.labels import parse_tag, read_labels
from nottwice.views.ledger import readiness
from nottwice.views.ledger.versions import VersionList, VersionRow, list_versions
from nottwice.views.run.waits import wait_text
from nottwice.views.runs import MOST_ROWS, STATES, RunList, RunView, WaitView, show_runs
from nottwice.views.text import age_text, safe, shorten

WHY = "waits for, or error"


@click.command(cls=Command)
@click.argument("prefix", default="", shell_complete=run_ids)
@click.option("--graph", metavar="NAME", help="Only runs of this graph: name, or name@version.")
@click.option(
    "--state",
    "--status",
    "states",
    multiple=True,
    type=click.Choice(STATES),
    help="Only runs in this state; can be given several times.",
)
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="NAME=VALUE",
    help="Only runs with this tag; can be given several times.",
)
@click.option("--group", metavar="NAME", help="Only runs of this group.")
@click.option(
    "--by-version", is_flag=True, help="For each version: what is open, what can be removed."
)
@click.option(
    "--ready", is_flag=True, help="How many runs wait for a worker, and how long: to scale by."
)
@all_option(f"Show all, not only the last {MOST_ROWS}.")
@common_options
@pass_settings
def runs(
    settings: Settings,
    prefix: str,
    graph: str | None,
    states: tuple[str, ...],
    tags: tuple[str, ...],
    group: str | None,
    by_version: bool,
    ready: bool,
    show_all: bool,
) -> None:
    """List runs, last changed first; with PREFIX only those whose id begins with it.

    A run is *queued* until a worker starts it. It is *interrupted* when its status is running and
    no living process drives it: run your program again, and it continues, or a worker continues it.
    It is *waiting* when a person must decide, or for a time, an event or a child run; the last
    column says for what. It is *idle* between two turns of a conversation.

    With --by-version: for each version of a graph, how many runs are open, since when, what they
    wait for, and with --app which deployed version takes them and whether its code can be removed.

    With --ready: how many runs a worker could pick up now, by graph, and how long the first has
    waited. It is cheap however many runs there are, so an autoscaler can ask every few seconds: it
    stops counting at some point, and prints 10000+ for example.

    \b
    Examples:
      nottwice runs --state interrupted
      nottwice runs --graph refund --state waiting
      nottwice runs --tag customer=acme --group order-7
      nottwice runs ticket- --all --json
      nottwice runs --by-version --app agent:app
      nottwice runs --ready --json
    """
    if ready:
        if prefix or states or tags or group or by_version or show_all:
            raise click.UsageError("--ready goes with --graph only.")
        _show_ready(settings, graph)
        return
    labels = read_labels(dict(map(parse_tag, tags)), group, what="The runs to list")
    if by_version:
        if states:
            raise click.UsageError("--by-version counts all states; leave --state out.")
        if tags or group:
            raise click.UsageError("--by-version counts all runs; leave --tag and --group out.")
        _show_versions(settings, prefix=prefix, graph=graph)
        return
    with named_ledger(settings) as ledger:
        most = None if show_all else MOST_ROWS
        found = show_runs(
            ledger, prefix=prefix, states=states, graph=graph, most=most, labels=labels
        )
    if settings.as_json:
        show_json(found)
    elif not found.runs:
        chosen = prefix or states or graph or tags or group
        show_line("No such runs." if chosen else "No runs.")
    else:
        _show(found, prefix, settings, has_one_state=len(set(states)) == 1)


def _show(found: RunList, prefix: str, settings: Settings, *, has_one_state: bool) -> None:
    rows = [
        (
            run.run_id,
            run.state,
            run.graph,
            age_text(found.now - run.updated_at),
            run.holder,
            _waits_text(run.waits, found.decided) or _error_text(run),
        )
        for run in found.runs
    ]
    columns = ("run", "state", "graph", "changed", "holder", WHY)
    # What a run waits for begins with an id to copy.
    ids = max((cell_width(_first_id(run)) for run in found.runs), default=0)
    show_table(
        columns,
        rows,
        cut=(WHY,),
        spare=("holder", "graph", "changed"),
        least={WHY: ids},
        known=("state",) if has_one_state else (),
    )
    if found.omitted:
        show_command(f"… and {found.omitted} more:", settings.command("runs --all", prefix))


def _waits_text(waits: tuple[WaitView, ...], decided: Collection[str]) -> str | None:
    if not waits:
        return None
    more = f", {len(waits) - 1} more" if len(waits) > 1 else ""
    return wait_text(waits[0], decided=decided) + more


def _first_id(run: RunView) -> str:
    """What a run waits for, up to the id that must be whole."""
    return safe(wait_text(replace(run.waits[0], until=None))) if run.waits else ""


def _error_text(run: RunView) -> str | None:
    return None if run.failure is None else shorten(run.failure, 120)


def _show_ready(settings: Settings, graph: str | None) -> None:
    """Print how much work waits for workers."""
    with named_ledger(settings) as ledger:
        found = readiness.count_ready(ledger, graph=graph)
    if settings.as_json:
        show_json(found)
        return
    if found.graphs:
        rows = [
            (one.graph, _counted(one.ready), age_text(one.oldest_seconds)) for one in found.graphs
        ]
        show_table(("graph", "ready", "oldest"), rows)
    else:
        show_line("No run is ready.")
    if found.abandoned:
        show_line(f"Held by processes that are gone: {found.abandoned}. A worker takes them over.")


def _counted(ready: int) -> str:
    return f"{ready}+" if ready >= readiness.MOST_COUNTED else str(ready)


def _show_versions(settings: Settings, *, prefix: str, graph: str | None) -> None:
    """Print every version with its open runs, and whether its code can be removed."""
    if settings.application() is None:
        deployed, opened = None, settings.open_ledger()
    else:
        app = need_app(settings, what_for="--by-version").app
        deployed = [each.id for each in app.graphs if graph in (None, each.name, each.id)]
        opened = ledger_for(settings, app, create=False)
    with opened as ledger:
        found = list_versions(ledger, prefix=prefix, graph=graph, deployed=deployed)
    if settings.as_json:
        show_json(found)
    elif not found.versions:
        show_line("No runs of graphs, and none that nt.run opened with a version.")
    else:
        _show_version_table(found, known=deployed is not None)


def _show_version_table(found: VersionList, *, known: bool) -> None:
    rows = [
        (
            version.graph or f"nt.run {version.version}",
            version.open,
            None if version.oldest_at is None else age_text(found.now - version.oldest_at),
            ", ".join(f"{number} {what}" for what, number in version.stand.items()) or None,
            _taker(version, known=known),
            version.removal_text,
        )
        for version in found.versions
    ]
    columns = ("graph", "open", "oldest", "how they stand", "taken by", "safe to remove")
    show_table(columns, rows, wrap=("how they stand", "safe to remove"))
    if not known:
        show_line("Name the deployed code to see more: --app module:app.")


def _taker(version: VersionRow, *, known: bool) -> str | None:
    if version.graph is None:
        # An app does not list code that opens runs with nt.run.
        return None
    return version.taken_by or "no" if known else "?"
