"""How a run ended can be read after any deploy, with the code of today and without any."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

import nottwice as nt
from nottwice.agent.providers.scripted import scripted
from nottwice.errors import RunRemoved, UsageError, WorkflowVersionMismatch

MAILED: list[str] = []


@nt.tool("unsafe_on_replay")
def finished_mail(to: str) -> str:
    MAILED.append(to)
    return f"mailed {to}"


class Claim(BaseModel):
    order_id: int
    told: str = ""


class StrictClaim(BaseModel):
    """What the next version makes of it: nothing that the old one wrote fits."""

    model_config = ConfigDict(extra="forbid")
    order_id: str
    channel: str


class ShortClaim(BaseModel):
    """Loads what the old version wrote, and would drop a part of it in silence."""

    order_id: int


class Stop(Exception):
    """The process ended here."""


def claims(
    version: str, node: str = "tell", *, state: type[Any] = Claim, broken: bool = False
) -> nt.Graph[Any]:
    made: nt.Graph[Any] = nt.Graph("claims", version=version, state=state)

    @made.node(name=node)
    def tell(claim: Any) -> dict[str, Any]:
        if broken:
            raise Stop
        return {"told": finished_mail("ann")}

    return made


@pytest.fixture
def store(tmp_path: Path) -> str:
    MAILED.clear()
    path = str(tmp_path / "ledger.db")
    nt.App(graphs=[claims("1.0.0")], store=path).run("claims", "over", {"order_id": 7})
    assert MAILED == ["ann"]
    return path


def ways(app: nt.App, graph: nt.Graph[Any], store: str, run_id: str) -> list[nt.Outcome[Any]]:
    """Every way in which a program asks for a run that has ended."""
    return [
        app.outcome(run_id),
        app.run("claims", run_id),
        app.run("claims", run_id, {"order_id": 7}),
        asyncio.run(app.arun("claims", run_id)),
        graph.outcome(run_id, store=store),
        graph.run(run_id, store=store),
        graph.run(run_id, {"order_id": 7}, store=store),
        asyncio.run(graph.arun(run_id, store=store)),
    ]


@pytest.mark.parametrize("version", ["1.0.1", "1.1.0", "2.0.0", "0.9.0"])
def test_a_completed_run_is_told_by_every_version(store: str, version: str) -> None:
    other = claims(version, "tell" if version == "1.0.1" else "say")
    for outcome in ways(nt.App(graphs=[other], store=store), other, store, "over"):
        assert (outcome.status, outcome.graph) == ("completed", "claims@1.0.0")
        assert outcome.state == Claim(order_id=7, told="mailed ann")
        assert [(mark.node, mark.status) for mark in outcome.nodes] == [("tell", "done")]
    assert MAILED == ["ann"]


@pytest.mark.parametrize("state", [StrictClaim, ShortClaim])
def test_a_state_that_the_new_type_cannot_hold_is_told_as_it_is_stored(
    store: str, state: type[Any]
) -> None:
    other = claims("2.0.0", "say", state=state)
    for outcome in ways(nt.App(graphs=[other], store=store), other, store, "over"):
        assert outcome.state == {"order_id": 7, "told": "mailed ann"}
    assert MAILED == ["ann"]


def test_a_completed_run_is_told_where_its_graph_is_gone(store: str) -> None:
    other: nt.Graph[Any] = nt.Graph("other", version="1.0.0")
    other.node(name="work")(lambda state: None)
    app = nt.App(graphs=[other], store=store)
    for outcome in (app.outcome("over"), app.run("claims", "over")):
        assert (outcome.status, outcome.graph) == ("completed", "claims@1.0.0")
        assert outcome.state == {"order_id": 7, "told": "mailed ann"}
        assert [(mark.node, mark.status) for mark in outcome.nodes] == [("tell", "done")]


def test_versions_that_contradict_each_other_do_not_hide_what_is_over(store: str) -> None:
    app = nt.App(graphs=[claims("2.0.0"), claims("2.0.1", "say")], store=store)
    assert app.run("claims", "over").status == "completed"
    with pytest.raises(nt.errors.GraphChangedInPlace):
        app.run("claims", "new", {"order_id": 8})


def test_an_aborted_run_is_told_after_a_deploy(store: str) -> None:
    first = nt.App(graphs=[claims("1.0.0")], store=store)
    assert first.enqueue("claims", "given up", {"order_id": 8})
    assert first.cancel("given up", by="ann", why="no longer wanted")
    other = claims("2.0.0", "say", state=StrictClaim)
    for outcome in ways(nt.App(graphs=[other], store=store), other, store, "given up"):
        assert (outcome.status, outcome.graph) == ("aborted", "claims@1.0.0")
        assert outcome.state == {"order_id": 8, "told": ""}


def test_a_failed_run_is_told_and_not_resumed_after_a_deploy(store: str) -> None:
    # A patch that breaks: the run fails in its node.
    with pytest.raises(Stop):
        claims("1.0.1", broken=True).run("failed", {"order_id": 8}, store=store)
    other = claims("2.0.0", "say", state=StrictClaim)
    app = nt.App(graphs=[other], store=store)
    for outcome in (app.outcome("failed"), other.outcome("failed", store=store)):
        assert (outcome.status, outcome.graph) == ("failed", "claims@1.0.1")
        assert outcome.failure is not None
        assert outcome.failure.error_type.endswith(".Stop")
        assert outcome.state == {"order_id": 8, "told": ""}
        assert [(mark.node, mark.status) for mark in outcome.nodes] == [("tell", "failed")]
    with pytest.raises(WorkflowVersionMismatch):
        app.run("claims", "failed")
    with pytest.raises(WorkflowVersionMismatch):
        other.run("failed", store=store)
    assert MAILED == ["ann"]


def test_a_run_of_another_graph_is_not_told_as_one_of_this(store: str) -> None:
    other: nt.Graph[Any] = nt.Graph("other", version="1.0.0")
    other.node(name="work")(lambda state: None)
    for ask in (other.run, other.outcome):
        with pytest.raises(UsageError, match="is a run of graph 'claims'"):
            ask("over", store=store)


def test_a_run_that_retention_removed_is_not_told(store: str) -> None:
    with closing(sqlite3.connect(store)) as db, db:
        db.execute("UPDATE nottwice_runs SET status = 'removed' WHERE workflow_id = 'over'")
    other = claims("2.0.0", "say")
    with pytest.raises(RunRemoved):
        nt.App(graphs=[other], store=store).run("claims", "over")
    with pytest.raises(RunRemoved):
        other.run("over", store=store)


def parent(child: nt.Graph[Any], *, broken: bool = False) -> nt.Graph[Any]:
    made: nt.Graph[Any] = nt.Graph("parent", version="1.0.0")

    @made.node
    def hand_out(state: dict[str, Any]) -> dict[str, Any]:
        done: Any = nt.spawn(child, {"order_id": 9})
        if broken:
            raise Stop
        return {"told": done.state}

    return made


TOLD = {"order_id": 9, "told": "mailed ann"}


def test_a_parent_reads_a_child_that_ended_before_its_graph_was_deployed_again(
    tmp_path: Path,
) -> None:
    store = str(tmp_path / "parent.db")
    MAILED.clear()
    broken = claims("1.0.1", state=dict, broken=True)
    with pytest.raises(nt.errors.ChildFailed) as failed:
        parent(broken).run("p", {}, store=store)
    # A process with the old code drains the child; the parent does not know of it yet.
    claims("1.0.1", state=dict).run(failed.value.facts["run_id"], store=store)
    outcome = parent(claims("2.0.0", "say", state=ShortClaim)).run("p", store=store)
    assert (outcome.status, outcome.state) == ("completed", {"told": TOLD})
    assert MAILED == ["ann"]


def test_a_parent_that_has_the_result_of_a_child_on_record_reads_it_after_a_deploy(
    tmp_path: Path,
) -> None:
    store = str(tmp_path / "parent.db")
    MAILED.clear()
    with pytest.raises(Stop):
        parent(claims("1.0.0", state=dict), broken=True).run("p", {}, store=store)
    outcome = parent(claims("2.0.0", "say", state=ShortClaim)).run("p", store=store)
    assert (outcome.status, outcome.state) == ("completed", {"told": TOLD})
    assert MAILED == ["ann"]


def test_an_agent_that_is_done_is_told_after_a_deploy(tmp_path: Path) -> None:
    store = str(tmp_path / "agent.db")

    def agent(version: str) -> nt.Agent:
        provider = scripted(["The answer is 4.", "The answer is 6."])
        return nt.Agent("helper", version=version, provider=provider, tools=[finished_mail])

    first = agent("1.0.0").run("sum", goal="2 + 2", store=store)
    assert first.status == "completed"
    later = agent("2.0.0").run("sum", store=store)
    assert (later.status, later.graph) == ("completed", "helper@1.0.0")
    spoken_to = agent("2.0.0").run("sum", message="and 3 + 3?", store=store)
    assert (spoken_to.state.answer, spoken_to.graph) == ("The answer is 6.", "helper@2.0.0")
    assert agent("1.0.0").run("sum", store=store).state.answer == "The answer is 6."
