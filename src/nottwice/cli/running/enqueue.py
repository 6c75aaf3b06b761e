"""Enqueue runs for a worker: `nottwice run --detach`, one or a batch."""

from __future__ import annotations

from typing import Any

import click

from nottwice.cli.inputs.deployed import ledger_for, need_app
from nottwice.cli.inputs.json_input import parse_json, text_of
from nottwice.cli.inputs.settings import Settings
from nottwice.cli.render.output import show_command, show_json, show_line
from nottwice.errors import NoLedger
from nottwice.graphs.app import App
from nottwice.graphs.declare import Graph
from nottwice.guard.ledger import Ledger
from nottwice.views.outcomes import Enqueued
from nottwice.views.runs import view_of
from nottwice.views.text import safe

_NOTHING = "Nothing was enqueued."


def enqueue_runs(
    settings: Settings, graph: str, inputs: dict[str, Any], *, retry: bool = False
) -> None:
    """Enqueue runs of a graph, by their ids, and say what to type next."""
    deployed = need_app(settings, what_for="run")
    newest = deployed.app.newest(graph)
    with _open_ledger(settings, deployed.app, newest, inputs) as ledger:
        app = deployed.in_ledger(ledger)
        new = app.enqueue_all(graph, inputs, retry=retry)
        if settings.as_json:
            enqueued = {"graph": newest.id, "new": new, "known": len(inputs) - new}
            show_json(Enqueued(ledger=ledger.location, enqueued=enqueued))
            return
        if len(inputs) == 1:
            (run_id,) = inputs
            state = "is queued" if new else f"existed already: {view_of(ledger, run_id).state}"
            show_line(f"Run {safe(run_id)} of {newest.id} {state}.")
            show_command("See:", settings.command("show", run_id))
        else:
            known = f"; {len(inputs) - new} existed already" if new < len(inputs) else ""
            show_line(f"{new} runs of {newest.id} are queued{known}.")
            show_command("See:", settings.command("runs --state queued"))
        show_command("A worker starts queued runs:", settings.commands().worker())


def _open_ledger(settings: Settings, app: App, graph: Graph[Any], inputs: dict[str, Any]) -> Ledger:
    """The ledger of the runs; it is created only for runs that can start."""
    try:
        return ledger_for(settings, app, create=False)
    except NoLedger:
        for given in inputs.values():
            graph.state.first(given)
    return ledger_for(settings, app, create=True)


def read_batch(given: str) -> dict[str, Any]:
    """The runs of a batch by id: a JSON line each, ``{"id": …, "input": …}``."""
    text = text_of(given if given == "-" else f"@{given}", option="--batch", outcome=_NOTHING)
    inputs: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"--batch, line {number},"
        item = parse_json(line, option=where, outcome=_NOTHING)
        if not isinstance(item, dict) or not isinstance(item.get("id"), str):
            raise click.UsageError(
                f'{where} is not an object with an id, as in {{"id": "ticket-7", "input": {{}}}}. '
                f"{_NOTHING}"
            )
        unknown = sorted(set(item) - {"id", "input"})
        if unknown:
            raise click.UsageError(f"{where} has {unknown[0]!r}, which is not known. {_NOTHING}")
        if item["id"] in inputs and inputs[item["id"]] != item.get("input"):
            raise click.UsageError(f"{where} has the id of a line before it. {_NOTHING}")
        inputs[item["id"]] = item.get("input")
    if not inputs:
        raise click.UsageError(f"--batch holds no runs. {_NOTHING}")
    return inputs
