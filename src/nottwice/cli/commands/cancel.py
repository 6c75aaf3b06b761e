"""Stop a run permanently, and the runs that it has spawned: `nottwice cancel`."""

from __future__ import annotations

import click

from nottwice.cli.inputs.completing import run_ids
from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.options import by_option, login_name, why_option
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_command, show_json, show_line
from nottwice.graphs.cancel import cancel as cancel_run
from nottwice.model.run import RunStatus
from nottwice.views.outcomes import Cancelled
from nottwice.views.runs import find_run, view_of
from nottwice.views.text import safe


@click.command(cls=Command)
@click.argument("run_id", metavar="RUN", shell_complete=run_ids)
@by_option
@why_option(required=True)
@common_options
@pass_settings
def cancel(settings: Settings, run_id: str, by: str | None, why: str) -> None:
    """Stop a RUN permanently, and the runs that it has spawned.

    What has happened stays on record; nothing is undone, and nothing more is sent. A run that a
    live process drives stops before its next effect or node. The id of an aborted run cannot be
    used again.

    \b
    Examples:
      nottwice cancel ticket-7 --why 'the customer called it off'
    """
    with named_ledger(settings) as ledger:
        name = find_run(ledger, run_id, list_command=settings.command("runs")).run_id
        who = login_name() if by is None else by
        stopped = cancel_run(ledger, name, by=who, why=why)
        if settings.as_json:
            run = view_of(ledger, name)
            show_json(Cancelled(ledger=ledger.location, run=run, stopped=stopped))
        elif stopped:
            children = [child.status for child in ledger.store.children(name)]
            also = ", and so are its unfinished children" if RunStatus.ABORTED in children else ""
            show_line(f"Run {safe(name)} is aborted{also}.")
        else:
            driven = f"Run {safe(name)} is driven by a process"
            show_line(f"{driven}, which stops before its next effect or node.")
            show_command("See:", settings.command("show", name))
