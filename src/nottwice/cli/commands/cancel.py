"""Stop a run for good, and the runs that it has spawned: `nottwice cancel`."""

from __future__ import annotations

import click

from nottwice.cli.documents import run_document
from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.case import login_name
from nottwice.cli.render.output import safe, show_json, show_line
from nottwice.cli.views import find_run, view_of
from nottwice.graphs.cancel import cancel as cancel_run


@click.command(cls=Command, short_help="Stop a run for good.")
@click.argument("run_id", metavar="RUN")
@click.option("--by", metavar="NAME", help="Who decides it. Else your login name.")
@click.option("--why", required=True, metavar="TEXT", help="The reason; it is kept.")
@common_options
@pass_settings
def cancel(settings: Settings, run_id: str, by: str | None, why: str) -> None:
    """Stop a RUN for good, and the runs that it has spawned.

    What has happened stays on record; nothing is undone, and nothing more is sent. A run that some
    process drives right now is told, and stops before its next node. The id of an aborted run
    cannot be used again.

    \b
    Examples:
      nottwice cancel ticket-7 --why 'the customer called it off'
    """
    with named_ledger(settings) as ledger:
        run = find_run(ledger, run_id, list_command=settings.command("runs"))
        name = run.workflow_id
        who = login_name() if by is None else by
        stopped = cancel_run(ledger, name, by=who, why=why)
        if settings.as_json:
            document = run_document(view_of(ledger, name))
            show_json({"ledger": ledger.location, "run": document, "stopped": stopped})
        elif stopped:
            show_line(f"Run {safe(name)} is aborted, and so are its children.")
        else:
            show_line(f"Run {safe(name)} is driven by a process, which stops before its next node.")
            show_line(f"See: {safe(settings.command('show', name))}")
