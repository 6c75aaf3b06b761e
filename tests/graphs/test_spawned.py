"""The graphs that nodes spawn are found by reading the nodes."""

from __future__ import annotations

from typing import Any

import nottwice as nt
from nottwice.graphs.spawned import with_spawned

grandchild: nt.Graph[Any] = nt.Graph("grandchild", version="1.0.0")


@grandchild.node
def last(state: Any) -> None:
    return None


child: nt.Graph[Any] = nt.Graph("child", version="1.0.0")


@child.node
def middle(state: Any) -> None:
    nt.spawn(grandchild)


def helper() -> None:
    nt.spawn(child)


parent: nt.Graph[Any] = nt.Graph("parent", version="1.0.0")


@parent.node
def first(state: Any) -> None:
    helper()


def test_children_and_their_children_are_found_through_helpers() -> None:
    assert with_spawned([parent]) == (parent, child, grandchild)


def test_each_is_there_once_and_those_that_were_given_come_first() -> None:
    assert with_spawned([child, parent]) == (child, parent, grandchild)


def test_a_graph_that_spawns_itself_is_found_once() -> None:
    flow: nt.Graph[Any] = nt.Graph("flow", version="1.0.0")

    @flow.node
    def again(state: Any) -> None:
        nt.spawn(flow)

    assert with_spawned([flow]) == (flow,)
