"""Where a run continues in another version of its graph, from the two definitions alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nottwice.model.graphs.graph import END, DeclaredNode, GraphDefinition, Version, define
from nottwice.model.graphs.mapping import Move, OpenVisit, nodes_at, open_visits
from nottwice.model.graphs.position import Branch, Position


def graph(version: int, *nodes: DeclaredNode, append: Sequence[str] = ()) -> GraphDefinition:
    return define("flow", Version(version, 0, 0), nodes, append=tuple(append))


def line(version: int, *names: str, most: int = 9) -> GraphDefinition:
    return graph(version, *(DeclaredNode(name, None, most=most) for name in names))


def fan(version: int, *heads: str, join: str = "meet", append: Sequence[str] = ()) -> Any:
    nodes = [DeclaredNode("start", list(heads), join)]
    nodes += [DeclaredNode(head, join) for head in heads]
    return graph(version, *nodes, DeclaredNode(join, END), append=append)


FANNED = Position(
    "meet", {"start": 1, "/[0]/a": 2, "/[1]/b": 1}, (Branch("a", {}), Branch(None, {"log": [1]}))
)


def test_the_visits_that_a_run_is_in() -> None:
    assert open_visits(line(1, "a", "b"), Position("b", {"a": 1, "b": 3})) == [
        OpenVisit("b", "b", 3)
    ]
    assert open_visits(fan(1, "a", "b"), FANNED) == [OpenVisit("a", "/[0]/a", 2, 0)]
    assert open_visits(line(1, "a"), Position(None, {"a": 1})) == []
    assert OpenVisit("b", "b", 3).checkpoint_id("flow@1.0.0") == "flow@1.0.0/3"


def test_the_nodes_that_must_be_mapped() -> None:
    assert nodes_at(FANNED) == ["a", "meet"]
    assert Move(fan(1, "a", "b"), fan(2, "a", "b"), FANNED, {"a": "a"}).unmapped() == ["meet"]
    finished = Move(line(1, "a"), line(2, "b"), Position(None, {"a": 1}), {})
    assert (finished.unmapped(), list(finished.misfits())) == ([], [])
    assert finished.arrive(()) == Position(None, {"a": 1})


def test_a_renamed_node_continues_with_its_number() -> None:
    move = Move(line(1, "a", "b"), line(2, "a", "c"), Position("b", {"a": 2, "b": 3}), {"b": "c"})
    assert list(move.misfits()) == []
    assert move.arrive(()) == Position("c", {"a": 2, "b": 3, "c": 3})


def test_counts_of_renamed_nodes_go_along_even_if_the_run_is_not_at_them() -> None:
    mapping = {"a": "x", "b": "b"}
    move = Move(line(1, "a", "b"), line(2, "x", "b"), Position("b", {"a": 2, "b": 1}), mapping)
    assert move.arrive(()).visits == {"a": 2, "b": 1, "x": 2}


def test_a_number_that_was_used_in_that_version_is_not_used_again() -> None:
    move = Move(line(1, "a"), line(2, "a"), Position("a", {"a": 3}), {"a": "a"})
    taken = {("a", "flow@2.0.0/3"), ("a", "flow@2.0.0/4"), ("b", "flow@2.0.0/5")}
    assert move.arrive(taken).visits == {"a": 5}


def test_a_bound_of_the_new_version_counts() -> None:
    move = Move(line(1, "a"), line(2, "a", most=2), Position("a", {"a": 3}), {"a": "a"})
    (text,) = move.beyond_bounds(move.arrive(()))
    assert "may be visited 2 times, and this would be visit 3" in text


def test_branches_keep_their_place() -> None:
    new = fan(2, "x", "y", join="gather")
    move = Move(fan(1, "a", "b"), new, FANNED, {"a": "x", "meet": "gather"})
    assert list(move.misfits()) == []
    arrived = move.arrive(())
    assert arrived.node == "gather"
    assert arrived.branches == (Branch("x", {}), Branch(None, {"log": [1]}))
    assert arrived.visits["/[0]/x"] == 2


def test_branches_that_are_gone_or_others_do_not_fit() -> None:
    mapping = {"a": "a", "meet": "meet"}
    for new in (line(2, "start", "a", "meet"), fan(2, "b", "a"), fan(2, "a", "b", "c")):
        (text,) = Move(fan(1, "a", "b"), new, FANNED, mapping).misfits()
        assert "2 branches are under way" in text
    (text,) = Move(fan(1, "a", "b"), fan(2, "a", "b", append=["log"]), FANNED, mapping).misfits()
    assert "changed 'log', to which only one of the two versions appends" in text


def test_a_branch_is_no_place_to_begin() -> None:
    move = Move(line(1, "a"), fan(2, "a", "b"), Position("a", {"a": 1}), {"a": "b"})
    (text,) = move.misfits()
    assert "the others would never run" in text


def test_a_node_that_the_record_of_a_draft_does_not_have() -> None:
    move = Move(line(1, "a"), line(2, "a"), Position("gone", {"gone": 1}), {"gone": "a"})
    (text,) = move.misfits()
    assert "the record of flow@1.0.0 has no node 'gone'" in text
