"""A position says where a run is; moving it never loses a visit, a branch or what one changed."""

from __future__ import annotations

from typing import Any

import pytest

from nottwice.errors import InvalidGraph, LedgerCorrupt
from nottwice.model import values
from nottwice.model.graphs.graph import END, DeclaredNode, GraphDefinition, Node, Version, define
from nottwice.model.graphs.position import Branch, Position, around, join, move, move_branch, start


def graph(*nodes: tuple[Any, ...]) -> GraphDefinition:
    return define("flow", Version(1, 0, 0), [DeclaredNode(*node) for node in nodes])


def node(flow: GraphDefinition, name: str) -> Node:
    found = flow.node(name)
    assert found is not None
    return found


LINE = graph(("a", None), ("b", None))
LOOP = graph(("a", {"again": "a", "on": END}, None, 3))
FAN = graph(
    ("fan", ["a", "b"], "meet"),
    ("a", None),
    ("b", {"again": "b", "on": "meet"}),
    ("meet", {"again": "fan", "on": END}),
)


def test_a_run_begins_with_the_first_visit_of_the_first_node() -> None:
    assert start(LINE) == Position("a", {"a": 1})


def test_a_line_leads_to_the_next_node_and_then_to_the_end() -> None:
    second = move(LINE, start(LINE), node(LINE, "a"), None)
    assert second == Position("b", {"a": 1, "b": 1})
    assert move(LINE, second, node(LINE, "b"), None).node is None


def test_every_visit_of_a_node_has_a_number_of_its_own() -> None:
    position = start(LOOP)
    assert position.visit(node(LOOP, "a")) == 1
    position = move(LOOP, position, node(LOOP, "a"), "again")
    assert position.visit(node(LOOP, "a")) == 2


def test_a_loop_ends_at_its_bound() -> None:
    position = start(LOOP)
    for _ in range(2):
        position = move(LOOP, position, node(LOOP, "a"), "again")
    with pytest.raises(InvalidGraph, match="visited 3 times, which is its limit"):
        move(LOOP, position, node(LOOP, "a"), "again")
    assert move(LOOP, position, node(LOOP, "a"), "on").node is None


@pytest.mark.parametrize("choice", [None, "nowhere", "a"])
def test_a_choice_must_be_one_of_the_routes(choice: str | None) -> None:
    with pytest.raises(InvalidGraph, match="Return one of 'again', 'on'"):
        move(LOOP, start(LOOP), node(LOOP, "a"), choice)


def test_a_choice_without_routes_is_refused_and_not_ignored() -> None:
    with pytest.raises(InvalidGraph, match="chose 'c', but has no choice"):
        move(LINE, start(LINE), node(LINE, "a"), "c")
    with pytest.raises(InvalidGraph, match="has no choice"):
        move(FAN, start(FAN), node(FAN, "fan"), "a")
    fanned = move(FAN, start(FAN), node(FAN, "fan"), None)
    with pytest.raises(InvalidGraph, match="has no choice"):
        move_branch(FAN, fanned, node(FAN, "a"), "b", index=0, update={})
    assert move(LINE, start(LINE), node(LINE, "a"), "b").node == "b"


def test_branches_begin_together_and_have_visits_of_their_own() -> None:
    fanned = move(FAN, start(FAN), node(FAN, "fan"), None)
    assert fanned == Position(
        "meet", {"fan": 1, "/[0]/a": 1, "/[1]/b": 1}, (Branch("a", {}), Branch("b", {}))
    )
    assert fanned.visit(node(FAN, "b"), index=1) == 1
    assert fanned.visit(node(FAN, "b")) == 0


def test_branches_that_end_in_any_order_come_to_the_same_position() -> None:
    fanned = move(FAN, start(FAN), node(FAN, "fan"), None)

    def a(position: Position) -> Position:
        return move_branch(FAN, position, node(FAN, "a"), None, index=0, update={"x": 1})

    def b(position: Position, choice: str) -> Position:
        return move_branch(FAN, position, node(FAN, "b"), choice, index=1, update={"y": 1})

    one = b(b(a(fanned), "again"), "on")
    other = a(b(b(fanned, "again"), "on"))
    assert one == other
    assert one.branches == (Branch(None, {"x": 1}), Branch(None, {"y": 1}))
    assert one.visits["/[1]/b"] == 2
    assert join(FAN, one) == Position("meet", {**one.visits, "meet": 1})


def test_a_second_round_of_branches_makes_new_visits() -> None:
    position = move(FAN, start(FAN), node(FAN, "fan"), None)
    position = join(FAN, position)
    position = move(FAN, position, node(FAN, "meet"), "again")
    position = move(FAN, position, node(FAN, "fan"), None)
    assert position.visits == {"fan": 2, "/[0]/a": 2, "/[1]/b": 2, "meet": 1}


def test_a_step_of_a_phase_is_in_its_phase_and_in_its_branch() -> None:
    step = Node("fix/test", LINE.nodes[0].route, 1, "fix")
    assert step.step == "test"
    assert around(step, None) == "fix"
    assert around(step, 1) == "/[1]/fix"


def test_a_position_survives_being_written_down() -> None:
    fanned = move(FAN, start(FAN), node(FAN, "fan"), None)
    moved = move_branch(FAN, fanned, node(FAN, "a"), None, index=0, update={"x": [1]})
    for position in (start(FAN), fanned, moved, Position(None, {"a": 1})):
        assert Position.from_plain(values.decode(values.encode(position.to_plain()))) == position


@pytest.mark.parametrize(
    "plain", [None, 5, {}, {"node": "a"}, {"node": "a", "visits": {}, "branches": [{}]}]
)
def test_a_position_that_cannot_be_read_is_not_believed(plain: Any) -> None:
    with pytest.raises(LedgerCorrupt, match="not used"):
        Position.from_plain(plain)
