"""How is an agent spoken to from a terminal? `nottwice talk`: say something, read the answer."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator

import click

from nottwice.agent.state import RunState
from nottwice.cli.agent_task import is_agent
from nottwice.cli.agent_view import agent_document, read_state
from nottwice.cli.deployed import ledger_for, need_app
from nottwice.cli.graph_documents import standing_document
from nottwice.cli.output import safe, show_json, show_line
from nottwice.cli.run import WAITS, Errand, advance, interrupted, tell, what_to_type
from nottwice.cli.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.views import find_run, stand
from nottwice.errors import UsageError
from nottwice.graphs.app import App
from nottwice.guard.ledger import Ledger
from nottwice.model.graph import split_graph_id
from nottwice.model.run import RunStatus


@click.command(cls=Command, short_help="Talk to an agent.")
@click.argument("run_id", metavar="RUN")
@click.argument("message", required=False)
@click.option(
    "--id",
    "message_id",
    metavar="ID",
    help="The message's own id: the same one said twice is one message.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress; only the answers.")
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

    With a MESSAGE it is said once: the same line again is the same message until something else was
    said. Without one every line that you type, or that stdin holds, is a message of its own; an
    empty line is none, and the end of the input (Ctrl-D) ends the talk. A run that waits ends it,
    too, if you type; what stdin holds is said to the end. A run that had ended continues, in the
    newest version of its agent that the app has.

    What the agent does meanwhile goes to stderr. Needs your agents, as `nottwice run` does.

    \b
    Ends with:
      0    it answered
      1    the run failed or was aborted; or an error that has a name
      3    it waits, for a person say: it answers when that has come
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
        exit_code = 0
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
            try:
                advance(errand, settings)
            except (KeyboardInterrupt, SystemExit) as stop:
                context.exit(interrupted(errand, stop, settings))
            exit_code = _answer(ledger, whole_id, settings)
            if exit_code and (exit_code != WAITS or sys.stdin.isatty()):
                # What stdin holds is said to the end, also to a run that waits meanwhile.
                break
    context.exit(exit_code)


def _find_agent(ledger: Ledger, app: App, run_id: str, settings: Settings) -> tuple[str, str]:
    """The agent and the run that are meant."""
    found = find_run(ledger, run_id, list_command=settings.command("runs"))
    name = None if found.graph_id is None else split_graph_id(found.graph_id)[0]
    if name is None or not is_agent(app, name):
        what = "is not a run of a graph" if name is None else f"is a run of {name!r}"
        raise UsageError(
            f"Run {found.workflow_id!r} {what}, which is no agent of this app. Nothing was said. "
            "An event is sent with: nottwice send"
        )
    return name, found.workflow_id


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
    """Show what the agent answered; how the run stands, if it did not."""
    standing = stand(ledger, run_id)
    if settings.as_json:
        state = standing.state
        read = None if state is None else read_state(ledger.store, run_id, state)
        document = standing_document(standing, what_to_type(ledger, standing, settings))
        del document["state"], document["nodes"]
        show_json({"ledger": ledger.location, **document, "agent": agent_document(read)})
    elif standing.view.run.status is RunStatus.COMPLETED and standing.state is not None:
        for line in (RunState(standing.state).answer or "").splitlines():
            show_line(safe(line))
        return 0
    return tell(ledger, run_id, settings, of_agent=True, quiet=settings.as_json)
