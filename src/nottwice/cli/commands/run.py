"""Start a run of a graph, resume it, or say how it ended: `nottwice run`.

One command does all three, so if you are not sure what became of a run, type it again. What nodes
and tools print goes to stderr, like the progress; stdout shows the state of the run.
"""

from __future__ import annotations

import shlex
from typing import Any

import click

from nottwice.cli.inputs.completing import run_ids
from nottwice.cli.inputs.deployed import ledger_for, need_app
from nottwice.cli.inputs.json_input import read_json
from nottwice.cli.inputs.options import json_option, quiet_option
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.running.enqueue import enqueue_runs, read_batch
from nottwice.cli.running.errand import Errand, advance, tell
from nottwice.cli.running.task import Task, is_agent
from nottwice.errors import InvalidTool, NoLedger, UsageError
from nottwice.graphs.app import App
from nottwice.guard.ledger import Ledger
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.tool import parse_duration
from nottwice.views.runs import find_run

FOREVER = "forever"
MOST_SECONDS = 9e9
"""285 years: without a limit, as far as a process is concerned."""


_HELP = """\
Start a run of a GRAPH, resume it, or say how it ended. The same command does all three.

A new run starts with --input. A run that was killed, failed or waited continues from its last
checkpoint, and every effect that has a receipt is replayed, not repeated. A finished run runs
nothing. GRAPH is its name, or name@version; a run that exists knows its own.

Your graphs are found through --app module:app, or `app` under [tool.nottwice] in
pyproject.toml: an nt.App, an nt.Graph, or a module that has one. The ledger is what --store
says, else the app's own, else as for every command; it is created if it does not exist. What
your code prints goes to stderr.

With --detach nothing is run here: the input is checked, the run is enqueued, and a worker starts
it. The same id with the same input is the same run, however often it is enqueued.

\b
Ends with:
  0    the run is completed; with --detach: it is queued, or existed already
  1    it failed or was aborted; or another error, which is explained
  3    it waits: for a person, for time, for an event, for a child run
  130  you pressed Ctrl-C; the same command resumes it

\b
Examples:
  nottwice run refund --id ticket-7 --input '{"order_id": 7}' --app agent:app
  nottwice run --id ticket-7
  nottwice run refund --id ticket-7 --input @order.json --wait 24h --json
  nottwice run refund --detach --batch tickets.jsonl
  nottwice run refund --detach --retry --id ticket-7
  nottwice run triage --id ticket-7 --goal 'Close it' --done-when 'refunded'
  nottwice run --id ticket-7 --message 'And tell the customer.'
"""


@click.command(cls=Command, help=_HELP)
@click.argument("graph", required=False)
@click.option(
    "--id", "run_id", metavar="RUN", help="Your name for the run.", shell_complete=run_ids
)
@json_option("--input", "input_text", "The first state. Not needed to resume.")
@click.option("--goal", metavar="TEXT", help="What an agent is to do: its input, in words.")
@click.option(
    "--done-when",
    multiple=True,
    metavar="TEXT",
    help="What must be true at the end, with evidence; can be given several times.",
)
@click.option(
    "--message", metavar="TEXT", help="Say something to an agent, which continues even if it ended."
)
@click.option(
    "--wait",
    is_flag=False,
    flag_value=FOREVER,
    metavar="[DURATION]",
    help="Stay while the run waits, and continue when it can: 90s, 15m, 24h; default: no limit.",
)
@click.option(
    "--detach", is_flag=True, help="Only enqueue the run: a worker starts it (nottwice worker)."
)
@click.option(
    "--retry",
    is_flag=True,
    help="With --detach: also runs that failed; they continue.",
)
@click.option(
    "--batch",
    metavar="PATH",
    help='With --detach: many runs, a JSON line each: {"id": RUN, "input": {}}; - reads stdin.',
)
@quiet_option("No progress; only the state of the run.")
@common_options
@pass_settings
@click.pass_context
def run(
    context: click.Context,
    settings: Settings,
    /,
    graph: str | None,
    run_id: str | None,
    input_text: str | None,
    wait: str | None,
    detach: bool,
    retry: bool,
    batch: str | None,
    quiet: bool,
    **said: Any,
) -> None:
    """Start a run of a graph, resume it, or say how it ended."""
    stay_seconds = _stay_seconds(wait)
    task, given = Task(**said), None
    if input_text is not None:
        given = read_json(input_text, option="--input", outcome="Nothing was started.")
    given = task.input(given)
    if detach or retry or batch is not None:
        if task.message is not None:
            raise click.UsageError("--detach says nothing to a run; leave --message out.")
        name, runs = _to_enqueue(graph, run_id, given, wait, batch, detach=detach)
        enqueue_runs(settings, name, runs, retry=retry)
        return
    if run_id is None:
        raise click.UsageError("Missing option '--id': your name for the run.")
    deployed = need_app(settings, what_for="run")
    with _open_ledger(settings, deployed.app, graph, given, run_id) as ledger:
        app = deployed.in_ledger(ledger)
        name, run_id = _which(ledger, app, graph, run_id, settings)
        errand = Errand(
            ledger=ledger,
            app=app,
            graph=name,
            run_id=run_id,
            input=given,
            stay_seconds=stay_seconds,
            quiet=quiet,
            options=task.options(app, name),
        )
        advance(errand, settings)
        exit_code = tell(ledger, run_id, settings, of_agent=is_agent(app, name))
    context.exit(exit_code)


def _to_enqueue(
    graph: str | None,
    run_id: str | None,
    given: Any,
    wait: str | None,
    batch: str | None,
    *,
    detach: bool,
) -> tuple[str, dict[str, Any]]:
    """The graph and the runs to enqueue, if the options are complete."""
    if not detach:
        raise click.UsageError(
            "--batch and --retry enqueue runs for a worker; they need --detach. (A single run that "
            "failed is tried again here without --retry.)"
        )
    if graph is None:
        raise click.UsageError("--detach needs the GRAPH of the run.")
    if wait is not None:
        raise click.UsageError("--detach does not wait; leave --wait out.")
    if batch is None and run_id is not None:
        return graph, {run_id: given}
    if batch is None:
        raise click.UsageError("--detach needs --id, or --batch.")
    if run_id is not None or given is not None:
        raise click.UsageError("--batch has the ids and inputs; leave --id and --input out.")
    return graph, read_batch(batch)


def _stay_seconds(wait: str | None) -> float:
    if wait is None:
        return 0.0
    if wait == FOREVER:
        return MOST_SECONDS
    try:
        return parse_duration(wait, what="--wait")
    except InvalidTool as error:
        raise click.UsageError(f"{error} Write GRAPH before --wait.") from None


def _open_ledger(
    settings: Settings, app: App, graph: str | None, given: Any, run_id: str
) -> Ledger:
    """The ledger of the run; it is created only for a run that can start."""
    try:
        return ledger_for(settings, app, create=False)
    except NoLedger as error:
        if graph is None:
            raise NoLedger(f"{error} {_how_to_start(app, run_id)}") from None
    app.newest(graph).state.first(given)
    return ledger_for(settings, app, create=True)


def _which(
    ledger: Ledger, app: App, graph: str | None, run_id: str, settings: Settings
) -> tuple[str, str]:
    """The graph and the id of the run. A mistyped id must not start another run."""
    if graph is not None:
        return graph, run_id
    if not ledger.store.runs(prefix=run_id, limit=1):
        raise UsageError(
            f"There is no run {run_id!r} in {ledger.location}. Nothing was started. "
            f"{_how_to_start(app, run_id)}"
        )
    found = find_run(ledger, run_id, list_command=settings.command("runs"))
    if found.graph is None:
        raise UsageError(
            f"Run {found.run_id!r} is not a run of a graph: a program opened it with nt.run. "
            "Nothing was done. Run that program again, and it continues."
        )
    return split_graph_id(found.graph)[0], found.run_id


def _how_to_start(app: App, run_id: str) -> str:
    known = ", ".join(sorted({each.name for each in app.graphs}))
    command = f"nottwice run GRAPH --id {shlex.quote(run_id)}"
    return f"To start run {run_id!r}, name its graph: {command}. The app has: {known}."
