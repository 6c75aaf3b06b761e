"""How is an agent spoken to from a terminal? `nottwice talk`: say something, read the answer."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator

import click

from nottwice.agent.state import RunState
from nottwice.cli.inputs.completing import run_ids
from nottwice.cli.inputs.deployed import ledger_for, need_app
from nottwice.cli.inputs.options import quiet_option
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_json, show_line
from nottwice.cli.running.errand import (
    WAITS,
    Errand,
    advance,
    exit_code,
    next_commands,
    tell,
)
from nottwice.cli.running.task import is_agent
from nottwice.errors import UsageError
from nottwice.graphs.app import App
from nottwice.guard.ledger import Ledger
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.run import RunStatus
from nottwice.views.outcomes import TalkOutcome
from nottwice.views.run.agent import agent_view
from nottwice.views.run.graphs import progress_of
from nottwice.views.run.waits import reasons_of
from nottwice.views.runs import find_run
from nottwice.views.text import safe


@click.command(cls=Command)
@click.argument("run_id", metavar="RUN", shell_complete=run_ids)
@click.argument("message", required=False)
@click.option(
    "--id",
    "message_id",
    metavar="ID",
    help="The message's own id: the same one said twice is one message.",
)
@quiet_option("No progress; only the answers.")
@common_options
@pass_settings
@click.pass_context
def talk(
    context: click.Context,
    settings: Settings,
    /,
    run_id: str,
    message: str | None,
    message_id: str | None,
    quiet: bool,
) -> None:
    """Say something to a RUN of an agent, and show its answer.

    A MESSAGE is said once: the same command again is the same message, until something else was
    said. Without a MESSAGE every line of the input is a message; empty lines are skipped, and
    Ctrl-D ends the talk. If you type at a terminal, a run that waits also ends it; lines from a
    pipe are all said. A run that had ended continues, in the newest version of its agent that the
    app has.

    What the agent does goes to stderr. Needs your agents, as `nottwice run` does.

    \b
    Ends with:
      0    it answered
      1    the run failed or was aborted; or another error, which is explained
      3    it waits, for example for a person: it answers after that
      130  you pressed Ctrl-C; what you said is on record

    \b
    Examples:
      nottwice talk ticket-7 'And tell the customer.' --app agent:app
      nottwice talk ticket-7 --app agent:app
    """
    if message is None and message_id is not None:
        raise click.UsageError("--id names one message: talk RUN MESSAGE --id ID.")
    deployed = need_app(settings, what_for="talk")
    with ledger_for(settings, deployed.app, create=False) as ledger:
        app = deployed.in_ledger(ledger)
        name, whole_id = _find_agent(ledger, app, run_id, settings)
        said = [(message, message_id)] if message is not None else _lines()
        code = 0
        for text, its_id in said:
            errand = Errand(
                ledger=ledger,
                app=app,
                graph=name,
                run_id=whole_id,
                input=None,
                stay_seconds=0.0,
                quiet=quiet,
                options={"message": text, "message_id": its_id},
            )
            advance(errand, settings)
            code = _answer(ledger, whole_id, settings)
            if code and (code != WAITS or sys.stdin.isatty()):
                # What stdin holds is said to the end, also to a run that waits.
                break
    context.exit(code)


def _find_agent(ledger: Ledger, app: App, run_id: str, settings: Settings) -> tuple[str, str]:
    """The agent and the id of the run."""
    found = find_run(ledger, run_id, list_command=settings.command("runs"))
    name = None if found.graph is None else split_graph_id(found.graph)[0]
    if name is None or not is_agent(app, name):
        what = "is not a run of a graph" if name is None else f"is a run of {name!r}"
        raise UsageError(
            f"Run {found.run_id!r} {what}, which is not an agent of this app. Nothing was said. "
            "Send an event with: nottwice send"
        )
    return name, found.run_id


def _lines() -> Iterator[tuple[str, str]]:
    """What is typed, or what stdin holds; the same words twice are said twice."""
    while True:
        try:
            line = input("> ") if sys.stdin.isatty() else sys.stdin.readline()
        except EOFError:
            return
        if not line and not sys.stdin.isatty():
            return
        if line.strip():
            yield line.strip(), f"talk-{uuid.uuid4().hex}"


def _answer(ledger: Ledger, run_id: str, settings: Settings) -> int:
    """Show what the agent answered, or the state of the run if it did not."""
    progress = progress_of(ledger, run_id)
    state = progress.state
    if settings.as_json:
        commands = settings.commands()
        reasons = reasons_of(ledger.store, run_id, commands)
        show_json(
            TalkOutcome(
                ledger=ledger.location,
                run=progress.run,
                version=progress.version,
                next=next_commands(progress, reasons, commands),
                agent=None if state is None else agent_view(ledger.store, run_id, state),
            )
        )
        return exit_code(progress)
    if progress.run.state == RunStatus.COMPLETED.value and state is not None:
        for line in (RunState(state).answer or "").splitlines():
            show_line(safe(line))
        return 0
    return tell(ledger, run_id, settings, of_agent=True)
