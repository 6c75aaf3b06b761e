"""What happened outside that a run waits for? `nottwice send`: tell it, once."""

from __future__ import annotations

import click

from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.json_input import read_json
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.case import login_name
from nottwice.cli.render.output import safe, show_json, show_line, show_note
from nottwice.cli.waits import resume_command
from nottwice.guard.sending import tell
from nottwice.model.run import RunRecord


@click.command(cls=Command, short_help="Tell a run of an event that it waits for.")
@click.argument("run_id", metavar="RUN")
@click.argument("name")
@click.option(
    "--data",
    "data",
    metavar="JSON",
    help="What to send with it, as JSON; - reads stdin, @PATH a file.",
)
@click.option(
    "--id",
    "event_id",
    metavar="ID",
    help="The event's own id: the same one sent twice is one event. Else a new one.",
)
@click.option("--by", metavar="NAME", help="Who sends it. Else your login name.")
@common_options
@pass_settings
def send(
    settings: Settings,
    run_id: str,
    name: str,
    data: str | None,
    event_id: str | None,
    by: str | None,
) -> None:
    """Tell a RUN of an event, which `nt.receive(NAME)` in it takes, once.

    It may be sent before the run exists, and before or after the run waits for it; it is kept until
    it is taken. RUN is the whole id of the run: a beginning is not enough, because the run need not
    exist yet.

    \b
    Examples:
      nottwice send ticket-7 paid --data '{"cents": 4000}'
      nottwice send ticket-7 paid --id payment-81 < /dev/null
    """
    payload = None
    if data is not None:
        payload = read_json(data, option="--data", outcome="Nothing was sent.")
    with named_ledger(settings) as ledger:
        event = tell(
            ledger,
            run_id,
            name,
            payload,
            event_id=event_id,
            by=login_name() if by is None else by,
        )
        run = ledger.store.load_run(run_id)
        document = {
            "event_id": event.event_id,
            "run_id": event.workflow_id,
            "name": event.name,
            "received": event.received_by is not None,
            "run_exists": run is not None,
        }
        if settings.as_json:
            show_json({"ledger": ledger.location, "event": document})
            return
    if event.received_by is not None:
        show_line(f"The run has taken event {safe(event.event_id)} already; it is not sent again.")
        return
    show_line(f"Run {safe(repr(run_id))} was told: {safe(event.name)}, {safe(event.event_id)}.")
    _show_next(run_id, run, settings)


def _show_next(run_id: str, run: RunRecord | None, settings: Settings) -> None:
    """Who takes the event, and what to type for that; nobody does in a run that is over."""
    if run is None:
        show_note(f"There is no run {run_id!r} yet. It finds the event when it asks for it.")
        return
    if run.status.is_final:
        show_note(f"Run {run_id!r} is {run.status.value}: nothing in it takes the event any more.")
        return
    command = resume_command(run, settings)
    if command is not None:
        show_line(f"Resume with: {safe(command)}")
    else:
        show_line("Run your program: it opens the run again and continues by itself.")
