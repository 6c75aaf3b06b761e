"""Tags and groups find runs again, whichever way a run is opened. (P220)"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import nottwice as nt
from nottwice.agent.providers.scripted import scripted
from nottwice.cli.main import main
from tests.postgres import server

child: nt.Graph[dict[str, Any]] = nt.Graph("labelled-child", version="1.0.0")
graph: nt.Graph[dict[str, Any]] = nt.Graph("labelled", version="1.0.0")


@child.node
def answer(state: dict[str, Any]) -> dict[str, Any]:
    return {"answer": 42}


@graph.node
def ask_child(state: dict[str, Any]) -> dict[str, Any]:
    return {"answer": nt.spawn(child, {}).state["answer"]}


@pytest.fixture(params=["sqlite", "files", "memory", "postgres"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[nt.Ledger]:
    match request.param:
        case "sqlite":
            place = str(tmp_path / "a.db")
        case "files":
            place = f"file:{tmp_path / 'runs'}"
        case "memory":
            place = ":memory:"
        case _:
            place = server.ledger_url(tmp_path)
    with nt.Ledger(place) as opened:
        yield opened


def tagged(ledger: nt.Ledger, **tags: str) -> set[str]:
    return {run.id for run in ledger.runs(tags=tags)}


def test_a_run_is_found_by_its_tags_and_its_group(ledger: nt.Ledger) -> None:
    with ledger.run("a", tags={"customer": "acme", "tier": "gold"}, group="order-7"):
        pass
    with ledger.run("b", tags={"customer": "acme"}):
        pass
    with ledger.run("c"):
        pass
    assert tagged(ledger, customer="acme") == {"a", "b"}
    assert tagged(ledger, customer="acme", tier="gold") == {"a"}
    assert tagged(ledger, tier="acme") == set()
    assert [run.id for run in ledger.runs(group="order-7")] == ["a"]
    record = ledger.run_record("a")
    assert record.tags == {"customer": "acme", "tier": "gold"}
    assert record.group == "order-7"
    assert ledger.run_record("c").tags == {}


def test_tags_given_again_are_laid_over_and_none_given_leaves_them(ledger: nt.Ledger) -> None:
    with ledger.run("a", tags={"customer": "acme", "tier": "gold"}):
        pass
    with ledger.run("a"):
        pass
    assert ledger.run_record("a").tags == {"customer": "acme", "tier": "gold"}
    with ledger.run("a", tags={"tier": "lead"}, group="order-7"):
        pass
    assert ledger.run_record("a").tags == {"customer": "acme", "tier": "lead"}
    assert ledger.run_record("a").group == "order-7"
    assert tagged(ledger, tier="gold") == set()
    assert tagged(ledger, tier="lead") == {"a"}


def test_another_group_and_wrong_tags_are_refused_before_anything_happens(
    ledger: nt.Ledger,
) -> None:
    with ledger.run("a", group="g"):
        pass
    opened = ledger.run_record("a").opened
    with pytest.raises(nt.errors.UsageError, match="stays in its group"):
        with ledger.run("a", group="h", tags={"x": "y"}):
            pytest.fail("the block was entered")
    wrong: Any = {"customer": 7}
    with pytest.raises(nt.errors.InvalidId, match="Nothing happened"):
        ledger.run("b", tags=wrong)
    with pytest.raises(nt.errors.InvalidId):
        graph.run("b", {}, store=ledger, tags=wrong)
    assert ledger.run_record("a").opened == opened
    assert ledger.run_record("a").tags == {}
    assert [run.id for run in ledger.runs()] == ["a"]


def test_tags_that_would_not_be_recorded_are_refused_inside_an_open_run(
    ledger: nt.Ledger,
) -> None:
    with ledger.run("a", tags={"customer": "acme"}):
        with ledger.run("a", tags={"customer": "acme"}):
            pass
        with pytest.raises(nt.errors.UsageError, match="outermost block"):
            with ledger.run("a", tags={"customer": "bolt"}):
                pytest.fail("the block was entered")


def test_a_graph_has_tags_and_its_children_inherit_them(ledger: nt.Ledger) -> None:
    outcome = graph.run("g1", {}, store=ledger, tags={"customer": "acme"}, group="order-7")
    assert outcome.state["answer"] == 42
    asyncio.run(child.arun("g2", {}, store=ledger, tags={"customer": "bolt"}))
    found = tagged(ledger, customer="acme")
    assert "g1" in found
    assert len(found) == 2
    assert {run.id for run in ledger.runs(group="order-7")} == found
    assert tagged(ledger, customer="bolt") == {"g2"}


def test_an_enqueued_run_has_its_tags_before_a_worker_starts_it(ledger: nt.Ledger) -> None:
    app = nt.App(graphs=[graph, child], store=ledger)
    assert app.enqueue("labelled", "q1", {}, tags={"customer": "acme"}, group="g")
    assert app.enqueue_all("labelled-child", {"q2": {}, "q3": {}}, tags={"customer": "bolt"}) == 2
    assert {run.id for run in ledger.runs(status="queued")} == {"q1", "q2", "q3"}
    assert tagged(ledger, customer="acme") == {"q1"}
    assert tagged(ledger, customer="bolt") == {"q2", "q3"}
    # A run that exists keeps its tags, and its group.
    assert not app.enqueue("labelled", "q1", {}, tags={"customer": "other"})
    assert tagged(ledger, customer="other") == set()
    with pytest.raises(nt.errors.UsageError, match="stays in its group"):
        app.enqueue("labelled", "q1", {}, group="h")
    app.run("labelled", "q1", tags={"tier": "gold"})
    assert ledger.run_record("q1").tags == {"customer": "acme", "tier": "gold"}


def test_a_fork_keeps_the_tags_of_its_origin(ledger: nt.Ledger) -> None:
    child.run("o", {}, store=ledger, tags={"customer": "acme"}, group="g")
    child.fork("o", to="f", store=ledger)
    assert tagged(ledger, customer="acme") == {"o", "f"}
    assert ledger.run_record("f").group == "g"


def test_the_commands_list_and_show_tags_and_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with nt.run("a", tags={"customer": "acme", "tier": "gold"}, group="order-7"):
        pass
    with nt.run("b", tags={"customer": "acme"}):
        pass

    def said(*words: str) -> str:
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.output
        return result.output

    listed = json.loads(said("runs", "--tag", "customer=acme", "--json"))
    assert [run["run_id"] for run in listed["runs"]] == ["b", "a"]
    two = json.loads(said("runs", "--tag", "customer=acme", "--tag", "tier=gold", "--json"))
    assert [(run["run_id"], run["group"]) for run in two["runs"]] == [("a", "order-7")]
    by_group = json.loads(said("runs", "--group", "order-7", "--json"))
    assert [run["tags"] for run in by_group["runs"]] == [{"customer": "acme", "tier": "gold"}]
    assert "No such runs." in said("runs", "--tag", "customer=nobody")
    shown = said("show", "a")
    assert "customer=acme, tier=gold" in shown
    assert "order-7" in shown
    with nt.run("order-7/1", group="order-7"), nt.run("order-7/2", group="order-7"):
        pass
    group = CliRunner().invoke(main, ["show", "order-7"])
    assert "'order-7' is a group of runs: 'order-7/1', 'order-7/2'" in " ".join(
        group.output.replace("'order-7/2', 'order-7/1'", "'order-7/1', 'order-7/2'").split()
    )
    assert "--group order-7" in " ".join(group.output.split())
    wrong = CliRunner().invoke(main, ["runs", "--tag", "customer"])
    assert wrong.exit_code != 0
    assert "NAME=VALUE" in wrong.output


def test_an_agent_has_tags(ledger: nt.Ledger) -> None:
    agent = nt.Agent("labelled-agent", version="1.0.0", provider=scripted("Done."))
    agent.run("a", goal="Say done.", store=ledger, tags={"customer": "acme"}, group="g")
    assert tagged(ledger, customer="acme") == {"a"}
    assert [run.id for run in ledger.runs(group="g")] == ["a"]


def test_changed_tags_of_a_sealed_run_are_found(tmp_path: Path) -> None:
    path = tmp_path / "sealed.db"
    key = bytes(range(32)).hex()
    with nt.Ledger(path, key=key) as ledger:
        with ledger.run("a", tags={"customer": "acme"}, group="g"):
            pass
        with ledger.run("b"):
            pass
        assert ledger.store.flaws("a") == ledger.store.flaws("b") == []
    for change in ('tags_json = \'{"customer":"bolt"}\'', "group_id = NULL"):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"UPDATE nottwice_runs SET {change} WHERE workflow_id = 'a'")
        with nt.Ledger(path, key=key) as ledger:
            (flaw,) = ledger.store.flaws("a")
            assert "the record of run 'a' cannot be trusted" in flaw
