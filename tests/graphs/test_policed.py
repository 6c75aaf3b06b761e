"""The policies of an app hold in all its graphs, their children, and in whatever ledger (L9)."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice import policy
from nottwice.cli.inputs.application import load_application
from nottwice.cli.inputs.deployed import Deployed, app_of
from nottwice.model.run import RunStatus
from tests.fakes import Host
from tests.graphs.effects import Effects, graph

State = dict[str, Any]


def never(call: policy.ProposedCall) -> policy.Ruling:
    return policy.deny(f"{call.tool} in {call.run_id.partition('.')[0]}")


def halt(call: policy.ProposedCall) -> policy.Ruling:
    return policy.stop("the office is closed")


def flow(effects: Effects, name: str = "flow") -> nt.Graph[Any]:
    made = graph(name)

    @made.node
    def work(state: State) -> Any:
        try:
            return {"by": effects.act(name)}
        except nt.errors.DeniedByPolicy as denied:
            return {"by": str(denied).rpartition(": ")[2]}

    return made


def test_the_policy_of_an_app_holds_whichever_ledger_is_named(
    host: Host, effects: Effects, tmp_path: Path
) -> None:
    with host.process() as ledger:
        app = nt.App(graphs=[flow(effects)], store=ledger, policy=never)
        assert app.run("flow", "r").state["by"].endswith("in r")
    with_ledger = nt.App(graphs=app.graphs, store=nt.Ledger(tmp_path / "a.db", policy=never))
    for made in (app, with_ledger):
        application = load_application("json")
        deployed = Deployed(application, made)
        other = nt.Ledger(tmp_path / "b.db")
        outcome = deployed.in_ledger(other).run("flow", f"s{id(made)}")
        assert outcome.state["by"].endswith(f"in s{id(made)}")
    assert effects.done == []


def test_a_graph_of_an_app_with_a_policy_does_not_run_past_it(
    effects: Effects, tmp_path: Path
) -> None:
    made, path = flow(effects), tmp_path / "a.db"
    app = nt.App(graphs=[made], store=path, policy=never)
    with pytest.raises(nt.errors.UsageError, match=r"would not ask the policy of the app .*never"):
        made.run("r", store=path)
    assert made.run("r", store=app).state["by"].endswith("in r")
    assert effects.done == []


def test_of_several_apps_that_a_graph_is_in_any_one_may_run_it(
    effects: Effects, tmp_path: Path
) -> None:
    made = flow(effects)
    strict = nt.App(graphs=[made], store=tmp_path / "a.db", policy=never)
    mild = nt.App(graphs=[made], store=tmp_path / "b.db", policy=policy.only("act"))
    assert made.run("r", store=strict).state["by"].endswith("in r")
    assert made.run("r", store=mild).status == "completed"


def test_a_child_run_has_the_policies_of_its_parent(host: Host, effects: Effects) -> None:
    child, parent = flow(effects, "child"), graph("parent")

    @parent.node
    def work(state: State) -> Any:
        return {"child": nt.spawn(child).state["by"]}

    with host.process() as ledger:
        outcome = nt.App(graphs=[parent, child], store=ledger, policy=never).run("parent", "r")
    assert outcome.state["child"].endswith("in r")
    assert effects.done == []


def test_a_graph_that_was_stopped_has_failed_whatever_its_node_swallows(
    host: Host, effects: Effects
) -> None:
    def careless() -> nt.Graph[Any]:
        made = graph("careless")

        @made.node
        def work(state: State) -> None:
            with contextlib.suppress(nt.errors.RunStoppedByPolicy):
                effects.act("first")

        @made.node
        def after(state: State) -> None:
            effects.act("second")

        return made

    with (
        host.process() as ledger,
        pytest.raises(nt.errors.RunStoppedByPolicy, match="the office is closed"),
    ):
        nt.App(graphs=[careless()], store=ledger, policy=halt).run("careless", "r")
    assert host.data.runs["r"].status is RunStatus.FAILED
    with host.process() as ledger:
        assert careless().run("r", store=ledger).status == "completed"
    assert effects.done == ["first", "second"]


def test_an_app_that_is_named_on_the_command_line_keeps_its_policy() -> None:
    module = sys.modules[__name__]
    application = load_application("json")
    app = nt.App(graphs=[], policy=never)
    named = type(application)("agent:app", module, (), app)
    assert app_of(named).policies == (never,)
