"""Start a run of a graph, resume it, or tell how it ended: `nottwice run`.

One line does all three, so whoever is not sure what became of a run types the same line again.
What nodes and tools print goes to stderr, like the progress; stdout holds how the run stands.
"""

from __future__ import annotations

import contextlib
import shlex
from datetime import timedelta
from typing import Any

import click

from nottwice.cli.agent_task import AgentProgress, Task, is_agent
from nottwice.cli.agent_view import agent_facts, read_state
from nottwice.cli.deployed import ledger_for, need_app
from nottwice.cli.detach import enqueue_runs, read_batch
from nottwice.cli.graph_documents import standing_document
from nottwice.cli.json_input import read_json
from nottwice.cli.output import (
    output_to_stderr,
    safe,
    shorten,
    show_facts,
    show_json,
    show_line,
    show_note,
    show_progress,
)
from nottwice.cli.progress import Progress, show_failure, watched
from nottwice.cli.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.views import Standing, abort_text, find_run, stand
from nottwice.cli.waits import Reason, reasons_of
from nottwice.errors import InvalidTool, NoLedger, RunBusy, UsageError
from nottwice.graphs.app import App
from nottwice.guard.ledger import Ledger
from nottwice.model import values
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.records import frozen_record
from nottwice.model.run import RunStatus
from nottwice.model.tool import parse_duration

FAILED = 1
WAITS = 3
INTERRUPTED = 130
FOREVER = "forever"
MOST_SECONDS = 9e9
"""For ever, as far as a computer is concerned: 285 years."""
MOST_STATE_CHARACTERS = 2000


@frozen_record(frozen=True, slots=True, kw_only=True)
class Errand:
    """A run to advance, and how."""

    ledger: Ledger
    app: App
    graph: str
    run_id: str
    input: Any
    stay_seconds: float
    quiet: bool
    options: dict[str, Any]
    """What only agents take."""

    @property
    def epoch(self) -> int:
        """How often the run was opened."""
        known = self.ledger.store.load_run(self.run_id)
        return 0 if known is None else known.epoch


_HELP = """\
Start a run of a GRAPH, resume it, or tell how it ended. The same line does all three.

A run that is new starts with --input; one that was killed, failed or waited goes on from its
last checkpoint, and every effect that has a receipt is replayed, not repeated; one that is
finished runs nothing. GRAPH is its name, or name@version; a run that exists knows its own.

Your graphs are found through --app module:app, or `app` under [tool.nottwice] in
pyproject.toml: an nt.App, an nt.Graph, or a module that has one. The ledger is what --store
says, else the app's own, else as for every command; it is created if it is not there. What
your code prints goes to stderr.

With --detach nothing is run here: the run is put down, with its input checked, and a worker
begins it. The same id with the same input is the same run, however often it is put down.

\b
Ends with:
  0    the run is completed; with --detach: it is queued, or was there already
  1    it failed or was aborted; or an error that has a name
  3    it waits: for a person, for time, for an event, for a child run
  130  you pressed Ctrl-C; the same line resumes it

\b
Examples:
  nottwice run refund --id ticket-7 --input '{"order_id": 7}' --app agent:app
  nottwice run --id ticket-7
  nottwice run refund --id ticket-7 --input @order.json --wait 24h --json
  nottwice run refund --detach --batch tickets.jsonl
  nottwice run refund --detach --retry --id ticket-7
  nottwice run triage --id ticket-7 --goal 'Close ticket 7' --done-when 'refund issued'
  nottwice run --id ticket-7 --message 'And tell the customer.'
"""


@click.command(cls=Command, help=_HELP, short_help="Start a run of a graph, or resume it.")
@click.argument("graph", required=False)
@click.option("--id", "run_id", metavar="RUN", help="Your name for the run.")
@click.option(
    "--input",
    "input_text",
    metavar="JSON",
    help="What the state begins with; - reads stdin, @PATH a file. Not needed to resume.",
)
@click.option("--goal", metavar="TEXT", help="What an agent is to do: its input, in words.")
@click.option(
    "--done-when",
    multiple=True,
    metavar="TEXT",
    help="What must be true then; the agent needs evidence for it. Can be given several times.",
)
@click.option(
    "--message", metavar="TEXT", help="Say something to an agent, which goes on even if it ended."
)
@click.option(
    "--wait",
    is_flag=False,
    flag_value=FOREVER,
    metavar="[DURATION]",
    help="Stay while it waits, and go on when that has come: 90s, 15m, 24h; else for ever.",
)
@click.option(
    "--detach", is_flag=True, help="Only put the run down: a worker begins it (nottwice worker)."
)
@click.option(
    "--retry", is_flag=True, help="With --detach: also runs that failed, to go on where they did."
)
@click.option(
    "--batch",
    metavar="PATH",
    help='With --detach: many runs, a JSON line each: {"id": RUN, "input": {}}; - reads stdin.',
)
@click.option("-q", "--quiet", is_flag=True, help="No progress; only how the run stands.")
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
    """Start a run of a graph, resume it, or tell how it ended."""
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
        try:
            advance(errand, settings)
        except (KeyboardInterrupt, SystemExit) as stop:
            context.exit(interrupted(errand, stop, settings))
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
    """The graph and the runs that are to be put down, if the options say so clearly."""
    if not detach:
        raise click.UsageError(
            "--batch and --retry put runs down for a worker; say so with --detach. (A single run "
            "that failed is tried again here without --retry.)"
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
    """The ledger of the run; created for a run that can start, and for nothing else."""
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
    """The graph and the run that are meant. A mistyped id must not start another run."""
    if graph is not None:
        return graph, run_id
    if not ledger.store.runs(prefix=run_id, limit=1):
        raise UsageError(
            f"There is no run {run_id!r} in {ledger.location}. Nothing was started. "
            f"{_how_to_start(app, run_id)}"
        )
    found = find_run(ledger, run_id, list_command=settings.command("runs"))
    if found.graph_id is None:
        raise UsageError(
            f"Run {found.workflow_id!r} is not a run of a graph: a program opened it with nt.run. "
            "Nothing was done. Run that program: it continues by itself."
        )
    return split_graph_id(found.graph_id)[0], found.workflow_id


def _how_to_start(app: App, run_id: str) -> str:
    known = ", ".join(sorted({each.name for each in app.graphs}))
    command = f"nottwice run GRAPH --id {shlex.quote(run_id)}"
    return f"To start run {run_id!r}, name its graph: {command}. The app has: {known}."


def advance(errand: Errand, settings: Settings) -> None:
    """Advance the run as far as it goes; a failure that is on record is shown, not raised."""

    def show_waits() -> None:
        if errand.stay_seconds:
            known = errand.ledger.store.load_run(errand.run_id)
            for reason in [] if known is None else reasons_of(errand.ledger.store, known, settings):
                how = "" if reason.command is None else f"  ({reason.command})"
                show_progress(f"  waits   for {reason.text}{how}", style="yellow")

    before = errand.epoch
    title = f"Run {errand.run_id} of {errand.graph} {'goes on' if before else 'starts'}."
    show = AgentProgress if is_agent(errand.app, errand.graph) else Progress
    watch = watched(errand.run_id, title=title, on_wait=show_waits, show=show)
    try:
        with output_to_stderr(), contextlib.nullcontext() if errand.quiet else watch:
            errand.app.run(
                errand.graph,
                errand.run_id,
                errand.input,
                wait_seconds=errand.stay_seconds,
                stay=timedelta(seconds=errand.stay_seconds) if errand.stay_seconds else None,
                **errand.options,
            )
    except Exception as error:
        known = errand.ledger.store.load_run(errand.run_id)
        failed = known is not None and known.status is RunStatus.FAILED
        if isinstance(error, RunBusy) or not failed or errand.epoch == before:
            raise
        if not errand.quiet:
            show_failure(error)


def interrupted(errand: Errand, stop: BaseException, settings: Settings) -> int:
    """Tell how to resume a run whose process was asked to end."""
    ended = isinstance(stop, SystemExit)
    show_note(
        f"{'Your code ended the process' if ended else 'Interrupted'}. Run {errand.run_id!r} keeps "
        f"what it has, and goes on from there: {settings.resume_command(errand.run_id)}"
    )
    return FAILED if ended else INTERRUPTED


def tell(
    ledger: Ledger, run_id: str, settings: Settings, *, of_agent: bool, quiet: bool = False
) -> int:
    """Say how the run stands and what to type next; return the exit code that says so, too."""
    standing = stand(ledger, run_id)
    reasons = reasons_of(ledger.store, standing.view.run, settings)
    commands = _commands(standing, reasons, settings)
    if quiet:
        return _exit_code(standing)
    if settings.as_json:
        show_json({"ledger": ledger.location, **standing_document(standing, commands)})
    else:
        _show_standing(ledger, standing, reasons, commands, of_agent=of_agent)
    return _exit_code(standing)


def what_to_type(ledger: Ledger, standing: Standing, settings: Settings) -> list[str]:
    """What to type next, for a run that is not over."""
    return _commands(standing, reasons_of(ledger.store, standing.view.run, settings), settings)


def _commands(standing: Standing, reasons: list[Reason], settings: Settings) -> list[str]:
    """What to type next: what ends the waits, then what goes on from there."""
    run = standing.view.run
    if run.status.is_final:
        return []
    found = [reason.command for reason in reasons if reason.command is not None]
    return [*found, settings.resume_command(run.root_id or run.workflow_id)]


def _show_standing(
    ledger: Ledger,
    standing: Standing,
    reasons: list[Reason],
    commands: list[str],
    *,
    of_agent: bool,
) -> None:
    run = standing.view.run
    failure = run.failure
    facts: list[tuple[str, object]]
    if of_agent:
        facts = agent_facts(read_state(ledger.store, run.workflow_id, standing.state))
    else:
        facts = [("state", shorten(values.encode(standing.state), MOST_STATE_CHARACTERS))]
    show_facts(
        f"Run {run.workflow_id}: {standing.view.state}",
        (
            ("graph", run.graph_id),
            ("ledger", ledger.location),
            ("checkpoint", standing.version),
            *facts,
            (
                "failure",
                None if failure is None else shorten(f"{failure.error_type}: {failure.message}"),
            ),
            ("aborted", abort_text(ledger.store, run)),
            *(("waits for", _reason_text(reason, run.workflow_id)) for reason in reasons),
        ),
    )
    for number, command in enumerate(commands):
        show_line(f"{'Next' if number == 0 else 'Then'}: {safe(command)}")


def _reason_text(reason: Reason, run_id: str) -> str:
    return reason.text if reason.run_id == run_id else f"{reason.text} (run {reason.run_id})"


def _exit_code(standing: Standing) -> int:
    match standing.view.run.status:
        case RunStatus.COMPLETED:
            return 0
        case RunStatus.WAITING:
            return WAITS
        case _:
            return FAILED
