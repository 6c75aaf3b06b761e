"""A run that no deployed version can resume is shown to people, and waits unharmed for its code."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shlex
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine.drivers import drive
from nottwice.errors import RunAborted, WorkflowVersionMismatch
from nottwice.graphs.undeployed import parking
from nottwice.model.review import ReviewKind, ReviewStatus, Verb
from nottwice.store.memory import MemoryStore
from tests.fakes import Host
from tests.graphs.effects import Crash, Effects, graph


def flow(effects: Effects, version: str) -> nt.Graph[Any]:
    made = graph(version=version)

    @made.node
    def work(state: dict[str, Any]) -> Any:
        effects.visit(version)
        return {"by": effects.act("work")}

    return made


@pytest.fixture
def stranded(host: Host, effects: Effects) -> Host:
    """A run of version 1.0.0 that broke off; only 2.0.0 will be deployed."""
    effects.broken = {"1.0.0"}
    with host.process() as ledger, pytest.raises(Crash):
        nt.App(graphs=[flow(effects, "1.0.0")], store=ledger).run("flow", "r", {"order": 7})
    effects.broken = set()
    effects.visited.clear()
    return host


def meet(host: Host, *graphs: nt.Graph[Any]) -> Any:
    with host.process() as ledger:
        return nt.App(graphs=graphs, store=ledger).run("flow", "r")


def stumble(host: Host, effects: Effects) -> WorkflowVersionMismatch:
    with pytest.raises(WorkflowVersionMismatch) as caught:
        meet(host, flow(effects, "2.0.0"))
    return caught.value


def test_it_opens_a_review_and_runs_nothing(stranded: Host, effects: Effects) -> None:
    error = stumble(stranded, effects)
    (review,) = stranded.open_reviews
    assert (review.kind, review.review_id) == (ReviewKind.UNDEPLOYABLE, error.facts["review_id"])
    assert "deploy flow@1.0.0" in review.summary
    command = "nottwice migrate r --to flow@2.0.0 --map work=NODE --why TEXT --app MODULE"
    assert command in review.summary
    assert effects.visited == []


def test_however_often_it_is_met_it_is_one_review(stranded: Host, effects: Effects) -> None:
    stumble(stranded, effects)
    stumble(stranded, effects)
    with stranded.process() as ledger, pytest.raises(WorkflowVersionMismatch):
        asyncio.run(nt.App(graphs=[flow(effects, "2.0.0")], store=ledger).arun("flow", "r"))
    assert len(stranded.open_reviews) == 1


def test_the_error_lists_what_can_be_done_with_the_commands(
    stranded: Host, effects: Effects
) -> None:
    text = str(stumble(stranded, effects))
    assert "this code has flow@2.0.0" in text
    assert "nt.App(graphs=[..., <flow@1.0.0>])" in text
    afresh = shlex.split(text[text.index("nottwice run") : text.index("; effects that")])
    assert afresh[:5] == ["nottwice", "run", "flow", "--id", "r-2"]
    assert json.loads(afresh[afresh.index("--input") + 1]) == {"order": 7}
    assert "nottwice cancel r --why TEXT" in text
    migrate = shlex.split(text[text.index("nottwice migrate") : text.index(", where NODE is")])
    assert migrate[:5] == ["nottwice", "migrate", "r", "--to", "flow@2.0.0"]
    assert migrate[5:9] == ["--map", "work=NODE", "--why", "TEXT"]


def test_a_graph_that_is_gone_altogether_strands_its_runs_too(
    stranded: Host, effects: Effects
) -> None:
    other = graph("other")
    other.node(name="a")(lambda state: None)
    with pytest.raises(WorkflowVersionMismatch, match="this code has no version of flow") as caught:
        meet(stranded, other)
    assert len(stranded.open_reviews) == 1
    # There is nothing to start afresh.
    assert "nottwice run" not in str(caught.value)


def test_the_review_closes_by_itself_when_the_version_is_deployed(
    stranded: Host, effects: Effects
) -> None:
    stumble(stranded, effects)
    outcome = meet(stranded, flow(effects, "2.0.0"), flow(effects, "1.0.0"))
    assert outcome.state == {"order": 7, "by": "did work"}
    assert stranded.open_reviews == []
    (review,) = MemoryStore(stranded.data).reviews("r")
    assert (review.status, review.closed_by) == (
        ReviewStatus.CLOSED,
        "a version that can take the run",
    )


def test_a_run_that_is_stranded_again_is_told_again(stranded: Host, effects: Effects) -> None:
    stumble(stranded, effects)
    effects.broken = {"1.0.1"}
    with pytest.raises(Crash):
        meet(stranded, flow(effects, "1.0.1"))
    assert stranded.open_reviews == []
    stumble(stranded, effects)
    assert len(stranded.open_reviews) == 1
    assert len(MemoryStore(stranded.data).reviews("r")) == 2


def test_a_person_can_only_abort_it(stranded: Host, effects: Effects) -> None:
    stumble(stranded, effects)
    with pytest.raises(nt.errors.UsageError, match="Choose one of: abort"):
        stranded.decide(Verb.ACCEPT)
    stranded.decide(Verb.ABORT, why="too old")
    with pytest.raises(RunAborted, match="too old"):
        meet(stranded, flow(effects, "2.0.0"))
    store = MemoryStore(stranded.data)
    run = store.load_run("r")
    assert run is not None
    assert run.status.value == "aborted"
    assert stranded.open_reviews == []
    assert effects.visited == []


def test_a_run_that_has_ended_needs_no_person(host: Host, effects: Effects) -> None:
    meet(host, flow(effects, "1.0.0"))
    assert meet(host, flow(effects, "2.0.0")).graph == "flow@1.0.0"
    assert host.open_reviews == []


def test_a_run_that_drains_elsewhere_needs_no_person_and_is_not_stopped(
    host: Host, effects: Effects
) -> None:
    """Blue and green on one ledger: the new deployment meets a run that the old one drives."""
    old, new = graph(version="1.0.0"), flow(effects, "2.0.0")

    @old.node
    def meets(state: dict[str, Any]) -> Any:
        effects.act("before")
        with pytest.raises(WorkflowVersionMismatch):
            meet(host, new)
        effects.act("after")

    with host.process() as ledger:
        assert nt.App(graphs=[old], store=ledger).run("flow", "r").status == "completed"
    assert effects.done == ["before", "after"]
    assert MemoryStore(host.data).reviews("r") == []


def test_a_review_that_came_in_between_does_not_stop_the_old_version(
    host: Host, effects: Effects
) -> None:
    """The new deployment looked before the old one had claimed the run, and wrote after it."""
    old = graph(version="1.0.0")

    @old.node
    def meets(state: dict[str, Any]) -> Any:
        effects.act("before")
        with host.process() as elsewhere:
            seen = elsewhere.store.load_run("r")
            assert seen is not None
            unheld = dataclasses.replace(seen, holder_id=None)
            drive(parking(elsewhere.host, unheld, ["flow@2.0.0"]), elsewhere.host)
        assert len(host.open_reviews) == 1
        effects.act("after")

    with host.process() as ledger:
        assert nt.App(graphs=[old], store=ledger).run("flow", "r").status == "completed"
    assert effects.done == ["before", "after"]
    assert host.open_reviews == []
