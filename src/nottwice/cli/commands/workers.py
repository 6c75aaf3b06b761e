"""Which workers are there, and are they alive? `nottwice workers`."""

from __future__ import annotations

import click

from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_command, show_json, show_line, show_table
from nottwice.views.ledger.workers import WorkerList, WorkerView, list_workers
from nottwice.views.text import age_text


@click.command(cls=Command)
@common_options
@pass_settings
def workers(settings: Settings) -> None:
    """List the workers of a ledger, including those that wait for work.

    A worker reports every 10 seconds. It is silent if it has not done so for 30
    seconds: it is stopped, stuck or cut off, or its death cannot be proven from here. It is dead if
    its process is proven dead. A worker that was told to stop is not listed. A dead one is listed
    until the next worker starts.

    \b
    Examples:
      nottwice workers
      nottwice workers --json
    """
    with named_ledger(settings) as ledger:
        found = list_workers(ledger)
    if settings.as_json:
        show_json(found)
    elif found.workers:
        _show(found)
    else:
        show_line("No worker is on record.")
        show_command("Start one:", settings.command("worker"))


def _show(found: WorkerList) -> None:
    rows = [
        (
            one.process,
            one.state.value,
            age_text(found.now - one.seen_at),
            age_text(found.now - one.started_at),
            _work_text(one),
            ", ".join(one.graphs),
        )
        for one in found.workers
    ]
    columns = ("worker", "state", "heard from", "started", "runs", "graphs")
    show_table(columns, rows, wrap=("graphs",), spare=("started", "runs"))
    if found.omitted:
        show_line(f"… and {found.omitted} more")


def _work_text(worker: WorkerView) -> str:
    return f"{worker.held} of {worker.concurrency}" if worker.held else "idle"
