"""How is a run of a graph advanced from a terminal, and how is its outcome reported?

`run` and `talk` share this. What nodes and tools print goes to stderr, like the progress.
"""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import click

from nottwice.cli.inputs.settings import Settings
from nottwice.cli.render.agent import agent_facts
from nottwice.cli.render.output import (
    output_to_stderr,
    show_command,
    show_facts,
    show_json,
    show_note,
    show_progress,
)
from nottwice.cli.render.progress import RunDisplay, show_failure, watched
from nottwice.cli.running.task import AgentDisplay, is_agent
from nottwice.errors import RunBusy
from nottwice.graphs.app import App
from nottwice.guard.ledger import Ledger
from nottwice.model import values
from nottwice.model.data.records import frozen_record
from nottwice.model.run import RunStatus
from nottwice.views.commands import CommandLine
from nottwice.views.outcomes import RunOutcome
from nottwice.views.run.agent import agent_view
from nottwice.views.run.details import abort_text
from nottwice.views.run.graphs import GraphProgress, progress_of
from nottwice.views.run.waits import Reason, reasons_of
from nottwice.views.text import shorten

FAILED = 1
WAITS = 3
INTERRUPTED = 130
MOST_STATE_CHARACTERS = 2000


@frozen_record(frozen=True, slots=True, kw_only=True)
class Errand:
    """A run to advance, and how to do it."""

    ledger: Ledger
    app: App
    graph: str
    run_id: str
    input: Any
    stay_seconds: float
    quiet: bool
    options: dict[str, Any]
    """Arguments that only agents take."""

    @property
    def epoch(self) -> int:
        """How often the run was opened."""
        known = self.ledger.store.load_run(self.run_id)
        return 0 if known is None else known.epoch


def advance(errand: Errand, settings: Settings) -> None:
    """Advance the run as far as possible; if the process is asked to end, say how to resume."""
    try:
        _advance(errand, settings)
    except (KeyboardInterrupt, SystemExit) as stop:
        raise click.exceptions.Exit(_interrupted(errand, stop, settings)) from None


def _advance(errand: Errand, settings: Settings) -> None:
    """Advance the run; a failure that is on record is shown, not raised."""

    def show_waits() -> None:
        if errand.stay_seconds:
            commands = settings.commands()
            for reason in reasons_of(errand.ledger.store, errand.run_id, commands):
                how = "" if reason.command is None else f"  ({reason.command})"
                show_progress(f"  waits   for {reason.text}{how}", style="yellow")

    before = errand.epoch
    title = f"Run {errand.run_id} of {errand.graph} {'continues' if before else 'starts'}."
    show = AgentDisplay if is_agent(errand.app, errand.graph) else RunDisplay
    stay = timedelta(seconds=errand.stay_seconds) if errand.stay_seconds else None
    watch = watched(errand.run_id, title=title, on_wait=show_waits, show=show)
    try:
        with output_to_stderr(), contextlib.nullcontext() if errand.quiet else watch:
            errand.app.run(
                errand.graph,
                errand.run_id,
                errand.input,
                acquire_timeout=stay,
                wait=stay,
                **errand.options,
            )
    except Exception as error:
        known = errand.ledger.store.load_run(errand.run_id)
        failed = known is not None and known.status is RunStatus.FAILED
        if isinstance(error, RunBusy) or not failed or errand.epoch == before:
            raise
        if not errand.quiet:
            show_failure(error)


def _interrupted(errand: Errand, stop: BaseException, settings: Settings) -> int:
    """Say how to resume a run whose process was asked to end."""
    ended = isinstance(stop, SystemExit)
    show_note(
        f"{'Your code ended the process' if ended else 'Interrupted'}. Run {errand.run_id!r} keeps "
        f"what it has. Continue it with: {settings.commands().resume(errand.run_id)}"
    )
    return FAILED if ended else INTERRUPTED


def tell(ledger: Ledger, run_id: str, settings: Settings, *, of_agent: bool) -> int:
    """Print the state of the run and what to type next; return the exit code for that."""
    progress, commands = progress_of(ledger, run_id), settings.commands()
    reasons = reasons_of(ledger.store, run_id, commands)
    lines = next_commands(progress, reasons, commands)
    if settings.as_json:
        show_json(
            RunOutcome(
                ledger=ledger.location,
                run=progress.run,
                version=progress.version,
                state=progress.state,
                nodes=progress.nodes,
                next=lines,
            )
        )
    else:
        _show(ledger, progress, reasons, lines, of_agent=of_agent)
    return exit_code(progress)


def next_commands(
    progress: GraphProgress, reasons: list[Reason], commands: CommandLine
) -> tuple[str, ...]:
    """What to type next: what ends the waits, then what continues the run."""
    run = progress.run
    if run.is_final:
        return ()
    found = [reason.command for reason in reasons if reason.command is not None]
    return (*found, commands.resume(run.root or run.run_id))


def exit_code(progress: GraphProgress) -> int:
    """The exit code for the state of a run."""
    match progress.run.state:
        case RunStatus.COMPLETED.value:
            return 0
        case RunStatus.WAITING.value:
            return WAITS
        case _:
            return FAILED


def _show(
    ledger: Ledger,
    progress: GraphProgress,
    reasons: list[Reason],
    commands: tuple[str, ...],
    *,
    of_agent: bool,
) -> None:
    run = progress.run
    facts: list[tuple[str, object]]
    if of_agent:
        facts = agent_facts(agent_view(ledger.store, run.run_id, progress.state).state)
    else:
        facts = [("state", shorten(values.encode(progress.state), MOST_STATE_CHARACTERS))]
    show_facts(
        f"Run {run.run_id}: {run.state}",
        (
            ("graph", run.graph),
            ("ledger", ledger.location),
            ("checkpoint", progress.version),
            *facts,
            ("failure", None if run.failure is None else shorten(run.failure)),
            ("aborted", abort_text(ledger.store, run.run_id)),
            *(("waits for", _reason_text(reason, run.run_id)) for reason in reasons),
        ),
    )
    for number, command in enumerate(commands):
        show_command(f"{'Next' if number == 0 else 'Then'}:", command)


def _reason_text(reason: Reason, run_id: str) -> str:
    return reason.text if reason.run_id == run_id else f"{reason.text} (run {reason.run_id})"
