"""Does the trace context of every opening travel with its run, in each store? (P340)

On PostgreSQL, a worker claims several runs with one statement, before their spans begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from tests.otel.telemetry import Telemetry
from tests.postgres import server


@nt.tool("unsafe_on_replay", name="stored_mail")
def mail(to: str) -> str:
    return f"mailed {to}"


@pytest.fixture(params=["sqlite", "files", "postgres"])
def ledger(
    request: pytest.FixtureRequest, tmp_path: Path, telemetry: Telemetry
) -> Iterator[nt.Ledger]:
    """A traced ledger."""
    places = {
        "sqlite": lambda: str(tmp_path / "agent.db"),
        "files": lambda: f"file:{tmp_path / 'runs'}",
        "postgres": lambda: server.ledger_url(tmp_path),
    }
    with nt.Ledger(places[request.param]()) as opened:
        telemetry.instrument(opened)
        yield opened


def stored(ledger: nt.Ledger, run_id: str) -> list[str | None]:
    """The trace of each opening of a run, as the ledger has it."""
    openings = ledger.run_record(run_id).openings
    assert openings is not None
    return [one.trace_id for one in openings]


def traces(telemetry: Telemetry, name: str) -> list[str]:
    return [f"{one.context.trace_id:032x}" for one in telemetry.spans(name) if one.context]


def test_the_next_opening_by_a_worker_links_to_the_one_before(
    ledger: nt.Ledger, telemetry: Telemetry
) -> None:
    flow = nt.Graph("flow", version="1.0.0")

    @flow.node
    def wait(state: dict[str, Any]) -> None:
        nt.receive("paid")

    app = nt.App(graphs=[flow], store=ledger)
    names = ["a", "b", "c"]
    for name in names:
        with telemetry.tracer.start_as_current_span("request"):
            app.enqueue("flow", name, {})
    nt.Worker(app, concurrency=2).run(until_idle=True)
    for name in names:
        ledger.send(name, "paid")
    nt.Worker(app, concurrency=2).run(until_idle=True)
    openings = telemetry.spans("invoke_workflow flow")
    assert len(openings) == 6
    for name in names:
        mine = [one for one in openings if (one.attributes or {})["nottwice.run_id"] == name]
        first, second = sorted(mine, key=lambda one: one.start_time or 0)
        assert first.context is not None
        assert second.context is not None
        # The first opening continues the trace of what enqueued the run; the second one links.
        assert [link.context.span_id for link in second.links] == [first.context.span_id]
        assert stored(ledger, name) == [
            f"{one.context.trace_id:032x}" for one in (first, second) if one.context
        ]


def test_a_run_of_one_call_keeps_the_context_of_each_opening(
    ledger: nt.Ledger, telemetry: Telemetry
) -> None:
    with telemetry.tracer.start_as_current_span("request") as request:
        assert ledger.once("order-7", "mail", mail, {"to": "ann"}).value == "mailed ann"
    (run,) = ledger.store.runs(group="order-7")
    assert stored(ledger, run.workflow_id) == traces(telemetry, "nottwice.run")
    assert stored(ledger, run.workflow_id) == [f"{request.get_span_context().trace_id:032x}"]
    assert run.traceparent is not None


def test_a_trace_that_cannot_be_stored_does_not_stop_a_run(
    tmp_path: Path, telemetry: Telemetry
) -> None:
    """As with a role that may not write the trace of an opening."""
    place = server.ledger_url(tmp_path)
    flow = nt.Graph("untraced", version="1.0.0")

    @flow.node
    def only(state: dict[str, Any]) -> dict[str, Any]:
        return {"sent": mail(to="ann")}

    with nt.Ledger(place) as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        app.enqueue("untraced", "a", {})
        telemetry.instrument(ledger)
        schema = server.schema_for(tmp_path)
        with server.connected() as connection:
            connection.execute(
                f"CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE insufficient_privilege; END $$"
            )
            connection.execute(
                f"CREATE TRIGGER refuse BEFORE UPDATE OF traceparent ON {schema}.openings "
                f"FOR EACH ROW EXECUTE FUNCTION {schema}.refuse()"
            )
        assert nt.Worker(app).run(until_idle=True).completed == 1
        assert stored(ledger, "a") == [None]
