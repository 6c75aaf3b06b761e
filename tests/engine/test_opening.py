"""What a caller asks for counts for a new run. A run that exists keeps what it began with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine import ownership
from nottwice.engine.drivers import drive
from nottwice.engine.opening import Opening
from nottwice.model.run import GraphRecord, RunStatus
from nottwice.model.runs.labels import Labels
from tests.fakes import Host


def opened(opening: Opening) -> None:
    session = drive(ownership.take(opening), opening.host)
    drive(ownership.release(session, None, status=RunStatus.RUNNING), opening.host)


def test_a_run_keeps_its_graph_its_input_and_its_origin_when_it_is_opened_again(
    host: Host,
) -> None:
    with host.process() as ledger:
        first = Opening(
            host=ledger.host,
            run_id="r",
            graph=GraphRecord("flow@1.0.0", "{}", host.clock.now()),
            input_json='{"order":7}',
            origin="elsewhere",
            labels=Labels((("customer", "acme"),), "orders"),
        )
        opened(first)
        known = ledger.store.load_run("r")
        assert known is not None
        assert (known.graph_id, known.input_json) == ("flow@1.0.0", '{"order":7}')
        assert (known.origin, known.group) == ("elsewhere", "orders")

        other = GraphRecord("flow@2.0.0", "{}", host.clock.now())
        opened(replace(first, graph=other, input_json="{}", origin=None, parent=known))

        again = ledger.store.load_run("r")
        assert again is not None
        assert again.epoch == 2
        kept = "graph_id", "input_json", "origin", "parent_id", "root_id", "tags", "group"
        assert all(getattr(again, name) == getattr(known, name) for name in kept)
        assert ledger.store.load_graph("flow@2.0.0") is None


def test_times_that_make_no_sense_are_refused_before_the_run_exists(host: Host) -> None:
    flow = nt.Graph("opening_times", version="1.0.0")

    @flow.node
    def only(state: dict[str, Any]) -> None: ...

    with host.process() as ledger:
        for wrong in ({"wait": "soon"}, {"settle_timeout": "-1s"}, {"acquire_timeout": "5"}):
            with pytest.raises(nt.NottwiceError):
                flow.run("r", {}, store=ledger, **wrong)  # type: ignore[arg-type]
        assert ledger.store.load_run("r") is None
