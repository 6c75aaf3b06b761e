"""A waiting run is worth advancing when something that it waits for has come, and not before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import nottwice as nt
from nottwice.graphs.readiness import is_ready
from nottwice.model.run import RunStatus
from nottwice.store.memory import MemoryStore
from tests.fakes import Host
from tests.graphs.effects import Effects, answer, crash, graph, run


def ready(host: Host, run_id: str = "r") -> bool:
    return is_ready(MemoryStore(host.data), run_id, now=host.clock.now())


def one_node(function: Any, name: str = "flow") -> nt.Graph[Any]:
    flow = graph(name)
    flow.node(name="a")(function)
    return flow


def test_a_run_that_is_over_or_unknown_is_not_ready(host: Host) -> None:
    assert not ready(host)
    run(host, one_node(lambda state: None))
    assert not ready(host)
    host.data.runs["r"] = replace(host.data.runs["r"], status=RunStatus.ABORTED)
    assert not ready(host)


def test_a_run_that_failed_or_was_interrupted_is_ready(host: Host, effects: Effects) -> None:
    effects.broken = {"a"}
    crash(host, one_node(lambda state: effects.visit("a")))
    assert ready(host)
    host.data.runs["r"] = replace(host.data.runs["r"], status=RunStatus.RUNNING)
    assert ready(host)


def test_a_timer_is_ready_when_it_is_due(host: Host) -> None:
    run(host, one_node(lambda state: nt.sleep("1h")))
    host.clock.advance(3599)
    assert not ready(host)
    host.clock.advance(1)
    assert ready(host)


def test_a_question_is_ready_when_it_is_answered(host: Host) -> None:
    run(host, one_node(lambda state: {"answer": nt.ask("Go on?")}))
    assert not ready(host)
    answer(host, "yes")
    assert ready(host)


def test_an_event_is_ready_when_it_was_sent_or_comes_too_late(host: Host) -> None:
    flow = one_node(lambda state: {"event": nt.receive("paid", within="1h")})
    run(host, flow)
    assert not ready(host)
    with host.process() as ledger:
        nt.send("r", "other", None, store=ledger)
        assert not ready(host)
        nt.send("r", "paid", {"cents": 1}, store=ledger)
    assert ready(host)
    run(host, flow, run_id="late")
    assert not ready(host, "late")
    host.clock.advance(3600)
    assert ready(host, "late")


def test_a_parent_is_ready_when_its_child_is(host: Host) -> None:
    child = one_node(lambda state: nt.sleep("1h"), "child")
    run(host, one_node(lambda state: {"child": nt.spawn(child).status}))
    assert not ready(host)
    host.clock.advance(3600)
    assert ready(host)
    (name,) = [run_id for run_id in host.data.runs if run_id != "r"]
    run(host, child, run_id=name)
    assert ready(host), "it is completed, and its parent does not know it yet"


def test_a_parent_is_not_ready_while_another_process_drives_its_child(host: Host) -> None:
    child = one_node(lambda state: nt.sleep("1h"), "child")
    run(host, one_node(lambda state: {"child": nt.spawn(child).status}))
    (name,) = [run_id for run_id in host.data.runs if run_id != "r"]
    with host.process() as ledger:
        holder = ledger.store.holder().holder_id
        driven = replace(host.data.runs[name], status=RunStatus.RUNNING, waits=(), holder_id=holder)
        host.data.runs[name] = driven
        assert not ready(host)
    assert ready(host), "its holder is dead"


@pytest.mark.parametrize("first", ["timer", "event"])
def test_one_of_several_reasons_is_enough(host: Host, first: str) -> None:
    flow = graph()
    flow.node(name="split", then=["a", "b"], join="meet")(lambda state: None)
    flow.node(name="a")(lambda state: nt.sleep("1h"))
    flow.node(name="b")(lambda state: {"event": nt.receive("paid")})
    flow.node(name="meet")(lambda state: None)
    assert len(run(host, flow).waits) == 2
    assert not ready(host)
    if first == "timer":
        host.clock.advance(3600)
    else:
        with host.process() as ledger:
            nt.send("r", "paid", None, store=ledger)
    assert ready(host)
