"""An app is what is deployed together: graphs, some in several versions, and their ledger."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import InvalidGraph, UnknownRun, UsageError, WorkflowVersionMismatch
from tests.fakes import Host
from tests.graphs.effects import Crash, Effects, graph


def flow(effects: Effects, version: str = "1.0.0", name: str = "flow") -> nt.Graph[Any]:
    made = graph(name, version=version)

    @made.node
    def work(state: dict[str, Any]) -> Any:
        effects.visit(version)
        return {"by": effects.act(version)}

    return made


def test_an_app_runs_its_graphs_by_name_in_its_ledger(host: Host, effects: Effects) -> None:
    one, other = flow(effects), flow(effects, name="other")
    with host.process() as ledger:
        app = nt.App(graphs=[one, other], store=ledger)
        assert app.ledger is ledger
        assert app.run("other", "r").status == "completed"
        assert app.outcome("r").graph == "other@1.0.0"
        assert asyncio.run(app.arun("flow", "s", {"x": 1})).state == {"x": 1, "by": "did 1.0.0"}


@pytest.mark.parametrize("place", ["file:runs", nt.Ledger(":memory:")], ids=str)
def test_limits_are_refused_before_anything_starts_if_the_ledger_cannot_keep_them(
    effects: Effects, place: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    limits = [nt.Limit(tool="send", concurrency=1)]
    app = nt.App(graphs=[flow(effects)], store=place, limits=limits)
    for use in (
        lambda: app.enqueue("flow", "r"),
        lambda: app.run("flow", "r"),
        lambda: nt.Worker(app).run(until_idle=True),
    ):
        with pytest.raises(UsageError, match=r"cannot keep them\. .* Use SQLite or PostgreSQL"):
            use()
    assert effects.done == []


def test_a_new_run_takes_the_newest_version(host: Host, effects: Effects) -> None:
    versions = [flow(effects, version) for version in ("1.9.0", "1.10.0", "1.2.3")]
    with host.process() as ledger:
        app = nt.App(graphs=versions, store=ledger)
        assert app.run("flow", "r").graph == "flow@1.10.0"
        assert app.run("flow@1.2.3", "s").graph == "flow@1.2.3"


def test_a_run_in_flight_finishes_on_its_own_version(host: Host, effects: Effects) -> None:
    old, new = flow(effects, "1.0.0"), flow(effects, "2.0.0")
    effects.broken = {"1.0.0"}
    with host.process() as ledger, pytest.raises(Crash):
        nt.App(graphs=[old], store=ledger).run("flow", "r")
    effects.broken = set()
    with host.process() as ledger:
        app = nt.App(graphs=[new, old], store=ledger)
        assert app.run("flow", "r").state == {"by": "did 1.0.0"}
        assert app.run("flow", "s").state == {"by": "did 2.0.0"}


def test_a_run_in_flight_takes_the_newest_patch_of_its_version(
    host: Host, effects: Effects
) -> None:
    effects.broken = {"1.0.0"}
    with host.process() as ledger, pytest.raises(Crash):
        nt.App(graphs=[flow(effects)], store=ledger).run("flow", "r")
    versions = [flow(effects, version) for version in ("1.0.0", "1.0.2", "1.0.1", "1.1.0")]
    with host.process() as ledger:
        outcome = nt.App(graphs=versions, store=ledger).run("flow", "r")
    assert (outcome.graph, outcome.state) == ("flow@1.0.0", {"by": "did 1.0.2"})


def test_a_run_that_no_deployed_version_can_take_says_so(host: Host, effects: Effects) -> None:
    effects.broken = {"1.0.0"}
    with host.process() as ledger:
        with pytest.raises(Crash):
            nt.App(graphs=[flow(effects)], store=ledger).run("flow", "r")
        app = nt.App(graphs=[flow(effects, "2.0.0")], store=ledger)
        with pytest.raises(WorkflowVersionMismatch, match="no deployed graph can resume it"):
            app.run("flow", "r")
        # To look takes no code that fits.
        outcome = app.outcome("r")
        assert (outcome.status, outcome.graph) == ("failed", "flow@1.0.0")


def test_two_graphs_of_one_name_and_version_are_refused(effects: Effects) -> None:
    one = flow(effects)
    nt.App(graphs=[one, one])
    with pytest.raises(InvalidGraph, match=r"two graphs 'flow@1\.0\.0'"):
        nt.App(graphs=[one, flow(effects)])


def test_a_graph_that_is_not_whole_is_refused_with_the_app(effects: Effects) -> None:
    broken = graph()
    broken.node(name="a", then="gone")(lambda state: None)
    with pytest.raises(InvalidGraph, match="'gone'"):
        nt.App(graphs=[broken])


def test_only_graphs_can_be_in_an_app() -> None:
    not_a_graph: Any = "flow"
    with pytest.raises(UsageError, match="is not a graph"):
        nt.App(graphs=[not_a_graph])


def test_an_unknown_graph_or_run_is_named(host: Host, effects: Effects) -> None:
    with host.process() as ledger:
        app = nt.App(graphs=[flow(effects)], store=ledger)
        with pytest.raises(UsageError, match=r"no graph 'other'.*It has: flow"):
            app.run("other", "r")
        with pytest.raises(UnknownRun, match="no run 'r'"):
            app.outcome("r")
        with ledger.run("plain"):
            pass
        with pytest.raises(UsageError, match="not a graph run"):
            app.outcome("plain")


def test_a_run_of_another_graph_is_not_taken(host: Host, effects: Effects) -> None:
    with host.process() as ledger:
        app = nt.App(graphs=[flow(effects), flow(effects, name="other")], store=ledger)
        app.run("flow", "r")
        with pytest.raises(UsageError, match="is a run of graph 'flow', not of 'other'"):
            app.run("other", "r")


def test_an_app_cancels_its_runs(host: Host) -> None:
    waits = graph()
    waits.node(name="wait")(lambda state: nt.sleep("1h"))
    with host.process() as ledger:
        app = nt.App(graphs=[waits], store=ledger)
        app.run("flow", "r")
        assert app.cancel("r", by="ann", why="not needed") is True
        assert app.outcome("r").status == "aborted"


def test_one_graph_is_no_list_of_graphs(effects: Effects) -> None:
    with pytest.raises(UsageError, match=r"takes a list of graphs.*graphs=\[graph\]"):
        nt.App(graphs=flow(effects))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["mistyped.db", "file:mistyped"])
def test_looking_for_a_run_does_not_create_a_ledger(
    name: str, effects: Effects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one = flow(effects)
    app = nt.App(graphs=[one], store=name)
    for look in (
        lambda: one.outcome("r", store=name),
        lambda: one.history("r", store=name),
        lambda: one.load("r", store=name),
        lambda: one.fork("r", to="s", store=name),
        lambda: app.outcome("r"),
        lambda: app.cancel("r", by="ann", why="x"),
    ):
        with pytest.raises(nt.errors.NoLedger, match="Nothing was created"):
            look()
    assert list(tmp_path.iterdir()) == []
    assert app.run("flow", "r").status == one.outcome("r", store=name).status == "completed"
