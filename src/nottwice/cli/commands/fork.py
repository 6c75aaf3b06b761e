"""Make a new run out of a checkpoint of another one: `nottwice fork` (L10)."""

from __future__ import annotations

import click

from nottwice.cli.inputs.completing import run_ids
from nottwice.cli.inputs.deployed import ledger_for, need_app
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_command, show_json, show_line
from nottwice.views.outcomes import Forked
from nottwice.views.runs import find_run, load_run, view_of
from nottwice.views.text import safe


@click.command(cls=Command)
@click.argument("run_id", metavar="RUN", shell_complete=run_ids)
@click.option("--to", required=True, metavar="ID", help="The id of the new run.")
@click.option(
    "--at",
    type=click.IntRange(min=0),
    metavar="VERSION",
    help="The checkpoint it begins with; else the newest. See `nottwice history`.",
)
@common_options
@pass_settings
def fork(settings: Settings, run_id: str, to: str, at: int | None) -> None:
    """Make a new run out of a checkpoint of RUN: what would the code do from there?

    The new run has the receipts of the old one and makes no new effects: an effect without a
    receipt is refused. So you can try new code on old runs, and nothing is sent. A run with a call
    in doubt cannot be forked. Needs your graphs (--app).

    \b
    Examples:
      nottwice fork ticket-7 --to ticket-7-again --app agent:app
      nottwice fork ticket-7 --to what-if --at 3
    """
    deployed = need_app(settings, what_for="fork")
    with ledger_for(settings, deployed.app, create=False) as ledger:
        run = find_run(ledger, run_id, list_command=settings.command("runs"))
        graph = deployed.in_ledger(ledger).graph_of(load_run(ledger.store, run.run_id))
        graph.fork(run.run_id, to=to, at=at, store=ledger)
        command = settings.commands().resume(to)
        if settings.as_json:
            run_view = view_of(ledger, to)
            show_json(Forked(ledger=ledger.location, run=run_view, next=command))
        else:
            show_line(f"Run {safe(to)} begins where {safe(run.run_id)} was.")
            show_command("Next:", command)
