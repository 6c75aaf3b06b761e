"""A run that is enqueued is on record once, its input checked, and nothing has run (P62)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import InvalidGraph, InvalidId
from nottwice.model.run import RunStatus
from tests.fakes import Host
from tests.graphs.effects import Effects, crash, graph, run


@dataclass
class Order:
    order_id: int
    size: str = "small"


@pytest.fixture
def flow(effects: Effects) -> nt.Graph[Any]:
    made = graph("order", state=Order)
    made.node(name="act")(lambda state: effects.act(str(state.order_id)) and None)
    return made


def test_an_enqueued_run_is_queued_and_nothing_of_it_has_run(
    host: Host, effects: Effects, flow: nt.Graph[Any]
) -> None:
    with host.process() as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        assert app.enqueue("order", "r", {"order_id": 7}) is True
        outcome = app.outcome("r")
    assert (outcome.status, outcome.state, outcome.graph) == ("queued", Order(7), "order@1.0.0")
    record = host.data.runs["r"]
    assert (record.status, record.holder_id, record.epoch) == (RunStatus.RUNNING, None, 0)
    assert effects.done == []


def test_it_is_begun_like_any_other_run(host: Host, effects: Effects, flow: nt.Graph[Any]) -> None:
    with host.process() as ledger:
        nt.App(graphs=[flow], store=ledger).enqueue("order", "r", {"order_id": 7})
    assert run(host, flow).status == "completed"
    assert effects.done == ["7"]
    assert host.data.runs["r"].epoch == 1


def test_the_same_id_with_the_same_input_is_the_same_run_also_when_it_is_over(
    host: Host, effects: Effects, flow: nt.Graph[Any]
) -> None:
    with host.process() as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        app.enqueue("order", "r", {"order_id": 7})
        # What equals the default says nothing new.
        assert app.enqueue("order", "r", {"order_id": 7, "size": "small"}) is False
        assert app.enqueue("order", "r") is False
        app.run("order", "r")
        assert app.enqueue("order", "r", {"order_id": 7}) is False
    assert effects.done == ["7"]


@pytest.mark.parametrize("given", [{"order_id": 8}, {"order_id": 7, "size": "large"}])
def test_the_same_id_with_another_input_is_refused(
    host: Host, flow: nt.Graph[Any], given: Any
) -> None:
    with host.process() as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        app.enqueue("order", "r", {"order_id": 7})
        before = dict(host.data.runs)
        with pytest.raises(nt.errors.UsageError, match=r"another input\. Nothing was enqueued"):
            app.enqueue("order", "r", given)
        with pytest.raises(nt.errors.UsageError, match=r"another input\. Nothing was enqueued"):
            app.enqueue_all("order", {"new": {"order_id": 1}, "r": given})
    assert host.data.runs == before


def test_the_id_of_another_graph_or_of_a_plain_run_is_refused(
    host: Host, flow: nt.Graph[Any]
) -> None:
    other = graph("other")
    other.node(name="a")(lambda state: None)
    with host.process() as ledger:
        app = nt.App(graphs=[flow, other], store=ledger)
        app.enqueue("other", "r")
        with pytest.raises(nt.errors.UsageError, match=r"of other@1\.0\.0\. Nothing was enqueued"):
            app.enqueue("order", "r", {"order_id": 7})
        with ledger.run("plain"):
            pass
        with pytest.raises(nt.errors.UsageError, match="no graph"):
            app.enqueue("order", "plain", {"order_id": 7})


def test_a_run_that_began_with_an_older_version_is_the_same_run(
    host: Host, flow: nt.Graph[Any]
) -> None:
    newer = graph("order", version="2.0.0", state=Order)
    newer.node(name="look")(lambda state: None)
    with host.process() as ledger:
        nt.App(graphs=[flow], store=ledger).enqueue("order", "r", {"order_id": 7})
        app = nt.App(graphs=[newer], store=ledger)
        assert app.enqueue("order", "r", {"order_id": 7}) is False
        assert app.enqueue("order", "s", {"order_id": 7}) is True
    assert [host.data.runs[name].graph_id for name in "rs"] == ["order@1.0.0", "order@2.0.0"]


def test_what_cannot_begin_is_refused_before_anything_is_written(
    host: Host, flow: nt.Graph[Any]
) -> None:
    good = {"order_id": 1}
    with host.process() as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        for kind, inputs in (
            (InvalidGraph, {"a": good, "b": {"order_id": "many"}}),
            (InvalidGraph, {"a": good, "b": None}),
            (InvalidId, {"a": good, "": good}),
        ):
            with pytest.raises(kind):
                app.enqueue_all("order", inputs)
        with pytest.raises(nt.errors.UsageError, match="no graph 'orders'"):
            app.enqueue("orders", "r", good)
        with pytest.raises(nt.errors.UsageError, match="takes a dict"):
            app.enqueue_all("order", [("a", good)])  # type: ignore[arg-type]
    assert host.data.runs == {}


def test_many_are_enqueued_once_however_often_they_are_enqueued(
    host: Host, flow: nt.Graph[Any]
) -> None:
    inputs = {f"r{number}": {"order_id": number} for number in range(600)}
    with host.process() as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        assert app.enqueue("order", "r3", {"order_id": 3})
        assert app.enqueue_all("order", inputs) == 599
        assert app.enqueue_all("order", inputs) == 0
        assert app.enqueue_all("order", {}) == 0
    assert len(host.data.runs) == 600


def test_a_graph_that_was_edited_in_place_is_not_enqueued(host: Host, flow: nt.Graph[Any]) -> None:
    edited = graph("order", state=Order)
    edited.node(name="another")(lambda state: None)
    with host.process() as ledger:
        nt.App(graphs=[flow], store=ledger).enqueue("order", "r", {"order_id": 7})
        with pytest.raises(nt.errors.GraphChangedInPlace):
            nt.App(graphs=[edited], store=ledger).enqueue("order", "s", {"order_id": 7})
    assert list(host.data.runs) == ["r"]


def test_a_run_that_failed_is_enqueued_again_only_with_retry(host: Host, effects: Effects) -> None:
    flow = graph()
    flow.node(name="a")(lambda state: effects.act("a") and None)
    flow.node(name="b")(lambda state: effects.visit("b"))
    effects.broken = {"b"}
    for run_id in ("r", "s"):
        crash(host, flow, run_id=run_id)
    with host.process() as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        assert app.enqueue("flow", "r") is False
        assert app.enqueue_all("flow", {"r": None, "s": None}) == 0
        assert ledger.store.ready_runs(begun=True, now=ledger.clock.now(), limit=9) == []
        assert app.enqueue("flow", "r", retry=True) is True
        assert app.enqueue("flow", "r", retry=True) is False
        assert app.enqueue_all("flow", {"r": None, "s": None, "t": None}, retry=True) == 2
        effects.broken = set()
        assert nt.Worker(app).run(until_idle=True).completed == 3
    # Each continued where it had failed.
    assert effects.done == ["a", "a", "a"]
    assert effects.visited == ["b"] * 5


def test_a_fork_that_failed_is_not_enqueued_because_no_worker_would_take_it(
    host: Host, effects: Effects
) -> None:
    flow = graph()
    flow.node(name="a")(lambda state: effects.visit("a"))
    flow.node(name="b")(lambda state: effects.visit("b"))
    effects.broken = {"b"}
    crash(host, flow)
    with host.process() as ledger:
        flow.fork("r", to="fork", store=ledger)
    crash(host, flow, run_id="fork")
    before = dict(host.data.runs)
    with host.process() as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        assert app.enqueue("flow", "fork") is False
        with pytest.raises(nt.errors.UsageError, match="nottwice run --id fork"):
            app.enqueue("flow", "fork", retry=True)
        with pytest.raises(nt.errors.UsageError, match="is a fork of 'r'"):
            app.enqueue_all("flow", {"new": None, "r": None, "fork": None}, retry=True)
    assert host.data.runs == before


def test_many_that_failed_are_enqueued_again_in_order(tmp_path: Path, effects: Effects) -> None:
    names = [f"r{number}" for number in range(12)]
    effects.broken = set(names)
    flow = graph()
    flow.node(name="a")(lambda state: effects.visit(state["name"]))
    inputs = {name: {"name": name} for name in names}
    with nt.Ledger(tmp_path / "ledger.db") as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        app.enqueue_all("flow", inputs)
        nt.Worker(app).run(until_idle=True)
        assert app.enqueue_all("flow", inputs, retry=True) == 12
        effects.broken, effects.visited = set(), []
        nt.Worker(app, concurrency=1).run(until_idle=True)
    assert effects.visited == names


def test_a_run_that_another_process_retries_is_not_put_back(host: Host, effects: Effects) -> None:
    effects.broken = {"a"}
    flow = graph()
    flow.node(name="a")(lambda state: effects.visit("a"))
    crash(host, flow)
    with host.process() as other, host.process() as ledger:
        holder = other.store.holder().holder_id
        host.data.runs["r"] = replace(host.data.runs["r"], holder_id=holder)
        before = host.data.runs["r"]
        assert nt.App(graphs=[flow], store=ledger).enqueue("flow", "r", retry=True) is False
    assert host.data.runs["r"] == before


def test_the_id_of_a_run_that_was_removed_is_refused(host: Host, flow: nt.Graph[Any]) -> None:
    given = {"order_id": 7}
    with host.process() as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        app.run("order", "r", given)
        done = host.data.runs["r"]
        host.data.runs["r"] = replace(done, status=RunStatus.REMOVED, input_json=None)
        for inputs in ({"r": given}, {"new": given, "r": None}):
            with pytest.raises(nt.errors.RunRemoved):
                app.enqueue_all("order", inputs)
        with pytest.raises(nt.errors.RunRemoved):
            app.enqueue("order", "r", given)
    assert list(host.data.runs) == ["r"]


def test_listeners_of_this_process_hear_that_a_run_is_ready_once(
    host: Host, flow: nt.Graph[Any]
) -> None:
    """P303. The same as the outbox tells other processes."""
    heard: list[tuple[str, str]] = []

    def hear(event: nt.events.Event) -> None:
        if isinstance(event, nt.events.RunReady):
            heard.append((event.run_id, event.because))

    with host.process() as ledger:
        stop = ledger.on(hear)
        app = nt.App(graphs=[flow], store=ledger)
        for _ in range(2):
            app.enqueue("order", "r", {"order_id": 7})
            app.enqueue_all("order", {"s": {"order_id": 8}, "t": {"order_id": 9}})
        stop()
        told = [(one.run_id, one.about["because"]) for one in ledger.notices(kind="run_ready")]
    assert heard == [("r", "queued"), ("s", "queued"), ("t", "queued")]
    assert sorted(told) == heard
