"""A version identifies one graph: a graph edited in place is refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import GraphChangedInPlace
from nottwice.graphs.binding import check_unchanged
from nottwice.model import values
from nottwice.model.run import GraphRecord
from nottwice.store.interface import Commit
from nottwice.store.memory import MemoryStore
from tests.fakes import Host, another_program
from tests.graphs.effects import Effects, crash, graph, run


def flow(effects: Effects, *nodes: str, version: str = "1.3.1") -> nt.Graph[Any]:
    """A line of nodes that make one effect each."""
    made = graph(version=version)
    for name in nodes:
        made.node(name=name)(_says(effects, name))
    return made


def _says(effects: Effects, name: str) -> Callable[..., Any]:
    def say(state: dict[str, Any]) -> Any:
        effects.visit(name)
        effects.act(name)

    return say


def test_the_ledger_records_what_a_graph_is(host: Host, effects: Effects) -> None:
    run(host, flow(effects, "pay"))
    (record,) = MemoryStore(host.data).graphs()
    plain = values.decode(record.json)
    assert plain["tools"]["act"]["class"] == "unsafe_on_replay"
    assert plain["bodies"].keys() == {"pay"}


def test_the_same_graph_declared_again_is_the_same(host: Host, effects: Effects) -> None:
    for number in range(3):
        assert run(host, flow(effects, "pay"), run_id=f"r{number}").status == "completed"


def test_a_graph_edited_in_place_starts_nothing(host: Host, effects: Effects) -> None:
    run(host, flow(effects, "pay", "notify"))
    edited = flow(effects, "pay")
    with pytest.raises(GraphChangedInPlace) as caught:
        run(host, edited, run_id="new")
    assert caught.value.needs == "2.0.0"
    assert 'node "notify" removed' in caught.value.facts["reasons"]
    assert effects.done == ["pay", "notify"]
    assert set(host.data.runs) == {"r"}


def test_a_graph_edited_in_place_resumes_nothing(host: Host, effects: Effects) -> None:
    effects.broken = {"notify"}
    crash(host, flow(effects, "pay", "notify"))
    before = list(effects.visited)
    with pytest.raises(GraphChangedInPlace):
        run(host, flow(effects, "pay", "check", "notify"))
    assert effects.visited == before


def test_the_error_names_the_line_and_what_to_write_there(host: Host, effects: Effects) -> None:
    run(host, flow(effects, "pay", "notify"))
    edited = nt.Graph("flow", version="1.3.1")
    edited.node(name="pay")(_says(effects, "pay"))
    with pytest.raises(GraphChangedInPlace) as caught:
        run(host, edited, run_id="new")
    assert 'write version="2.0.0" instead of "1.3.1" in ' in str(caught.value)
    file, _, line = edited.place.rpartition(":")
    assert edited.place in str(caught.value)
    assert 'nt.Graph("flow", version="1.3.1")' in Path(file).read_text().splitlines()[int(line) - 1]


def test_a_body_needs_a_patch_and_a_patch_is_enough(host: Host, effects: Effects) -> None:
    run(host, flow(effects, "pay"))
    before = effects.done.copy()
    patched = nt.Graph("flow", version="1.3.1")

    @patched.node(name="pay")
    def pay(state: dict[str, Any]) -> Any:
        effects.act("otherwise")

    with pytest.raises(GraphChangedInPlace, match='the body of node "pay" changed') as caught:
        run(host, patched, run_id="new")
    assert caught.value.needs == "1.3.2"
    assert effects.done == before
    patched = nt.Graph("flow", version="1.3.2")
    patched.node(name="pay")(pay)
    assert run(host, patched, run_id="new").status == "completed"


def test_a_patch_that_changes_more_than_bodies_is_refused(host: Host, effects: Effects) -> None:
    run(host, flow(effects, "pay"))
    with pytest.raises(GraphChangedInPlace, match=r"flow@1\.3\.9 differs more from flow@1\.3\.1"):
        run(host, flow(effects, "pay", "notify", version="1.3.9"), run_id="new")
    assert run(host, flow(effects, "pay", "notify", version="2.0.0"), run_id="new")


def test_a_draft_may_be_edited_in_place(host: Host, effects: Effects) -> None:
    run(host, flow(effects, "pay", version="0.0.1"))
    assert run(host, flow(effects, "other", version="0.0.1"), run_id="new").status == "completed"
    # What was only a draft is no measure for what is deployed.
    assert run(host, flow(effects, "third", version="0.1.0"), run_id="first").status == "completed"
    with pytest.raises(GraphChangedInPlace) as caught:
        run(host, flow(effects, "pay", version="0.1.0"), run_id="more")
    assert caught.value.needs == "0.2.0"


def test_a_finished_run_can_still_be_read(host: Host, effects: Effects) -> None:
    run(host, flow(effects, "pay"))
    assert run(host, flow(effects, "other")).status == "completed"
    assert effects.done == ["pay"]


def test_what_an_earlier_nottwice_recorded_is_compared_as_far_as_it_goes(
    host: Host, effects: Effects
) -> None:
    old = flow(effects, "pay")
    with host.process() as ledger:
        record = GraphRecord("flow@1.3.1", values.encode(old.definition().to_plain()), 1.0)
        ledger.store.commit(Commit(workflow_id="w", graph=record))
    assert run(host, flow(effects, "pay")).status == "completed"
    with pytest.raises(GraphChangedInPlace, match='node "notify" added'):
        run(host, flow(effects, "pay", "notify"), run_id="new")


def test_versions_of_one_app_are_checked_against_each_other(host: Host, effects: Effects) -> None:
    old, new = flow(effects, "pay"), flow(effects, "pay", "notify", version="1.4.0")
    with host.process() as ledger:
        app = nt.App(graphs=[new, old], store=ledger)
        with pytest.raises(GraphChangedInPlace, match=r'"notify" added.*version="2\.0\.0"'):
            app.run("flow", "r")
        assert host.data.runs == {}
        new = flow(effects, "pay", "notify", version="2.0.0")
        assert nt.App(graphs=[new, old], store=ledger).run("flow", "r").status == "completed"


def test_drafts_of_one_app_are_not_checked_against_each_other(host: Host, effects: Effects) -> None:
    drafts = [flow(effects, "a", version="0.0.1"), flow(effects, "b", version="0.0.2")]
    with host.process() as ledger:
        assert nt.App(graphs=drafts, store=ledger).run("flow", "r").status == "completed"


def test_a_ledger_is_asked_until_it_holds_the_graph(host: Host, effects: Effects) -> None:
    """Two processes may start two graphs of one id together; the second finds out at its next."""
    mine, other = flow(effects, "pay"), flow(effects, "else")
    with host.process() as ledger, host.process() as elsewhere:
        check_unchanged(elsewhere.store, other)
        mine.run("r", store=ledger)
        with pytest.raises(GraphChangedInPlace):
            other.run("s", store=elsewhere)
        mine.run("t", store=ledger)
        assert ledger.store in mine.found_whole


def test_a_patch_may_fix_a_body_while_a_tool_of_it_is_wider(host: Host) -> None:
    """A later patch takes over the runs of a version, so it cannot be a later minor version."""

    def narrow(what: str) -> str:
        return what

    def wide(what: str, how: int = 0) -> str:
        return what

    for body, version in ((narrow, "1.3.1"), (wide, "1.3.2")):
        with another_program():
            act: Any = nt.tool("unsafe_on_replay", name="act")(body)
            made = graph(version=version)
            made.node(name="pay")(_acts(act, version))
            assert run(host, made, run_id=version).state == {"paid": version}


def _acts(act: Any, what: str) -> Any:
    return lambda state: {"paid": act(what)}


def test_the_error_names_every_way_for_open_runs(host: Host, effects: Effects) -> None:
    run(host, flow(effects, "pay", "notify"))
    with pytest.raises(GraphChangedInPlace) as caught:
        run(host, flow(effects, "pay"), run_id="new")
    text = str(caught.value)
    assert "deploy it beside flow@2.0.0" in text
    maps = "--map pay=NODE --map notify=NODE"
    words = f"--from flow@1.3.1 --to flow@2.0.0 {maps} --why TEXT --app MODULE"
    assert f"nottwice migrate {words}, where NODE is" in text
    assert "under another id" in text


def test_no_map_is_asked_for_where_the_graph_is_an_agent(host: Host) -> None:
    def refund(cents: int) -> str:
        """Refund."""
        return "done"

    def triage(replay_class: str) -> nt.Agent:
        tool: Any = nt.tool(replay_class, name="refund")(refund)  # type: ignore[call-overload]
        provider = nt.providers.scripted(["done"])
        return nt.Agent("triage", version="1.0.0", provider=provider, tools=[tool])

    with another_program(), host.process() as ledger:
        triage("unsafe_on_replay").run("one", goal="g", store=ledger)
    with another_program(), host.process() as ledger:
        with pytest.raises(GraphChangedInPlace) as caught:
            triage("pure").run("two", goal="g", store=ledger)
    text = str(caught.value)
    words = "--from triage@1.0.0 --to triage@2.0.0 --why TEXT --app MODULE"
    assert f"nottwice migrate {words}, where MODULE has" in text
    assert "NODE" not in text
