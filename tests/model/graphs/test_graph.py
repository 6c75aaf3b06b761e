"""A graph is whole, or it is refused before any run of it starts."""

from __future__ import annotations

from typing import Any

import pytest

from nottwice.errors import InvalidGraph
from nottwice.model.graphs.graph import (
    END,
    Choice,
    DeclaredNode,
    Edge,
    Fan,
    GraphDefinition,
    Version,
    define,
    parse_version,
    split_graph_id,
)


def node(name: str, then: Any = None, join: Any = None, **more: Any) -> DeclaredNode:
    return DeclaredNode(name, then, join, **more)


def graph(*nodes: DeclaredNode) -> GraphDefinition:
    return define("flow", Version(1, 2, 3), nodes)


def routes(*nodes: DeclaredNode) -> dict[str, Any]:
    return {each.name: each.route for each in graph(*nodes).nodes}


def test_nodes_follow_each_other_in_the_order_of_their_declaration() -> None:
    assert routes(node("a"), node("b")) == {"a": Edge("b"), "b": Edge(END)}


def test_a_route_that_is_written_down_counts() -> None:
    found = routes(node("a", {"yes": "c", "no": END}), node("c", "d"), node("d", END))
    assert found == {
        "a": Choice((("yes", "c"), ("no", END))),
        "c": Edge("d"),
        "d": Edge(END),
    }


def test_the_first_node_of_a_branch_leads_to_where_the_branches_meet() -> None:
    found = routes(node("fan", ["a", "b"], "meet"), node("a"), node("b"), node("meet"))
    assert found["fan"] == Fan(("a", "b"), "meet")
    assert (found["a"], found["b"]) == (Edge("meet"), Edge("meet"))


def test_a_branch_may_have_several_nodes_and_a_loop_of_its_own() -> None:
    found = routes(
        node("fan", ["a", "b"], "meet"),
        node("a", "a2"),
        node("a2", {"again": "a", "on": "meet"}),
        node("b"),
        node("meet"),
    )
    assert found["a2"] == Choice((("again", "a"), ("on", "meet")))


def test_what_the_ledger_keeps_of_a_graph_is_plain_and_complete() -> None:
    whole = define(
        "flow",
        Version(1, 2, 3),
        [
            node("fan", ["p/a", "b"], "meet"),
            node("p/a", phase="p"),
            node("b"),
            node("meet", {"again": "fan", "on": END}, most=3),
        ],
        append=("log",),
        state={"type": "object"},
    )
    assert whole.graph_id == "flow@1.2.3"
    assert whole.to_plain() == {
        "name": "flow",
        "version": "1.2.3",
        "nodes": [
            {"name": "fan", "branches": ["p/a", "b"], "join": "meet", "most": 1000},
            {"name": "p/a", "phase": "p", "then": "meet", "most": 1000},
            {"name": "b", "then": "meet", "most": 1000},
            {"name": "meet", "choice": {"again": "fan", "on": END}, "most": 3},
        ],
        "append": ["log"],
        "state": {"type": "object"},
    }


REFUSED: dict[str, tuple[list[DeclaredNode], str]] = {
    "no node": ([], "has no node"),
    "leads nowhere": ([node("a", "gone")], "leads to 'gone', which is not one of its nodes"),
    "a choice that leads nowhere": ([node("a", {"x": "gone"})], "leads to 'gone'"),
    "an empty choice": ([node("a", {})], "empty choice"),
    "never reached": ([node("a", END), node("b")], "'b' of graph 'flow' is never reached"),
    "branches without a join": ([node("a", ["b", "c"]), node("b"), node("c")], "where they meet"),
    "a join without branches": ([node("a", "b", "c"), node("b"), node("c")], "without branches"),
    "a join after a choice": ([node("a", {"x": "b"}, "b"), node("b")], "without branches"),
    "a join and nothing else": ([node("a", None, "b"), node("b")], "without branches"),
    "one branch": ([node("a", ["b"], "c"), node("b"), node("c")], "at least two different"),
    "the same branch twice": ([node("a", ["b", "b"], "c"), node("b"), node("c")], "two different"),
    "no branches": ([node("a", [], "b"), node("b")], "at least two different"),
    "a branch that ends the run": (
        [node("a", ["b", "c"], "d"), node("b", END), node("c"), node("d")],
        "can end without reaching 'd'",
    ),
    "a branch that may end the run": (
        [node("a", ["b", "c"], "d"), node("b", {"x": END, "y": "d"}), node("c"), node("d")],
        "can end without reaching 'd'",
    ),
    "a branch that is the join": ([node("a", ["b", "c"], "c"), node("b"), node("c")], "can end"),
    "a branch that never meets": (
        [node("a", ["b", "c"], "d"), node("b", "b2"), node("b2", "b"), node("c"), node("d")],
        "never reaches 'd'",
    ),
    "branches in a branch": (
        [
            node("a", ["b", "c"], "e"),
            node("b", ["d", "f"], "g"),
            node("c"),
            node("d"),
            node("f"),
            node("g", "e"),
            node("e"),
        ],
        "starts nested branches in 'b'",
    ),
    "branches that go back to where they began": (
        [node("a", ["b", "c"], "d"), node("b", {"x": "a", "y": "d"}), node("c"), node("d")],
        "starts nested branches in 'a'",
    ),
    "a head of branches that meet in two places": (
        [
            node("a", ["b", "c"], "d"),
            node("b"),
            node("c"),
            node("d", ["b", "e"], "f"),
            node("e"),
            node("f"),
        ],
        "meet in different nodes",
    ),
    "a number as a route": ([node("a", 5)], "has then=5"),
    "a set of branches": ([node("a", {"b", "c"}, "d"), node("b"), node("c")], "list of branches"),
    "a choice that is no text": ([node("a", {1: "b"}), node("b")], "has then="),
    "a target that is no text": ([node("a", {"x": 1})], "has then="),
    "a branch that is no text": ([node("a", ["b", 1], "c"), node("b"), node("c")], "has then="),
    "a join that is no text": ([node("a", ["b", "c"], 5), node("b"), node("c")], "has join=5"),
    "a node called like a phase": ([node("p"), node("p/a", phase="p")], "node and a phase"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_graph_that_is_not_whole_is_refused(what: str) -> None:
    nodes, text = REFUSED[what]
    with pytest.raises(InvalidGraph, match=text):
        graph(*nodes)


@pytest.mark.parametrize("text", ["1", "1.0", "1.0.0.0", "v1.0.0", "1.0.x", "01.0.0", "", None, 1])
def test_a_version_is_three_numbers(text: Any) -> None:
    with pytest.raises(InvalidGraph, match="three numbers"):
        parse_version(text, what="Graph 'flow'")


def test_versions_compare_as_numbers() -> None:
    ten, nine = parse_version("1.10.0", what="it"), parse_version("1.9.0", what="it")
    assert ten > nine
    assert str(ten) == "1.10.0"


def test_a_graph_id_splits_into_name_and_version() -> None:
    assert split_graph_id("refund@1.2.3") == ("refund", Version(1, 2, 3))
