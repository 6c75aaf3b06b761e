"""How does a run learn what happened outside? `nottwice send`: an event, taken once."""

from __future__ import annotations

import click

from nottwice.agent.requests.hearing import MESSAGE
from nottwice.cli.inputs.completing import run_ids
from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.json_input import read_json
from nottwice.cli.inputs.options import by_option, json_option, login_name
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import (
    show_command,
    show_how_to_resume,
    show_json,
    show_line,
    show_note,
)
from nottwice.graphs.recorded import recorded_fingerprint
from nottwice.guard.sending import tell
from nottwice.model.run import RunRecord, WaitKind
from nottwice.store.interface import Store
from nottwice.views.outcomes import SentDocument, sent_event
from nottwice.views.run.waits import reasons_of, resume_command
from nottwice.views.runs import Holders, RunView, run_view
from nottwice.views.text import safe


@click.command(cls=Command)
@click.argument("run_id", metavar="RUN", shell_complete=run_ids)
@click.argument("name")
@json_option("--data", "data", "What to send with it.")
@click.option(
    "--id",
    "event_id",
    metavar="ID",
    help="The event's own id: the same id sent twice is one event. Default: a new one.",
)
@by_option
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
    """Send an event to a RUN, where `nt.receive(NAME)` takes it, once.

    You can send it before the run exists, and before or after the run waits for it; it is kept
    until it is taken. RUN is the whole id of the run: a prefix is not enough, because the run need
    not exist yet.

    \b
    Examples:
      nottwice send ticket-7 paid --data '{"cents": 4000}'
      nottwice send ticket-7 paid --id payment-81 < /dev/null
    """
    payload = None
    if data is not None:
        payload = read_json(data, option="--data", outcome="Nothing was sent.")
    with named_ledger(settings) as ledger:
        told = tell(
            ledger.host,
            run_id,
            name,
            payload,
            event_id=event_id,
            by=login_name() if by is None else by,
        )
        known = ledger.store.load_run(run_id)
        run = None if known is None else run_view(known, Holders(ledger.store))
        listens = told.name == MESSAGE and known is not None and _is_agent(ledger.store, known)
        event = sent_event(told, run_exists=run is not None)
        location = ledger.location
        reasons = reasons_of(ledger.store, run_id, settings.commands())
    if settings.as_json:
        show_json(SentDocument(ledger=location, event=event))
        return
    if event.received:
        show_line(
            f"The run has already received event {safe(event.event_id)}; it is not sent again."
        )
        return
    show_line(
        f"Sent {safe(event.name)} to run {safe(repr(run_id))}, as event {safe(event.event_id)}."
    )
    people = [one.command for one in reasons if one.kind is WaitKind.REVIEW and one.command]
    _show_next(run_id, run, settings, listens=listens, people=people)


def _is_agent(store: Store, run: RunRecord) -> bool:
    record = store.load_graph(run.graph_id or "")
    return record is not None and recorded_fingerprint(record).is_agent


def _show_next(
    run_id: str, run: RunView | None, settings: Settings, *, listens: bool, people: list[str]
) -> None:
    """Show what takes the event, and the command for that; a run that has ended takes nothing.

    ``listens``: the event is a message to an agent, whose run begins a new round with it.
    ``people``: the commands with which a person decides what the run waits for.
    """
    if run is None:
        show_note(f"There is no run {run_id!r} yet. It finds the event when it asks for it.")
        return
    if run.is_final and not listens:
        show_note(f"Run {run_id!r} is {run.state}: it will not receive the event.")
        return
    for command in people:
        show_command("The run waits for a person too. Decide with:", command)
    if people:
        return
    show_how_to_resume(resume_command(run, settings.commands()))
