"""Where is a run in its graph, and where does it go next?

A position is part of every checkpoint, so it is plain data with a name for each part. A visit of a
node has a number. Node and number name the checkpoint that the visit started from. They are the
same in every resume, and do not depend on the order in which parallel branches end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, assert_never

from nottwice.errors import InvalidGraph, LedgerCorrupt
from nottwice.model.call import ROOT_NODE, branch_node, child_node
from nottwice.model.data.records import frozen_record
from nottwice.model.data.shapes import UNREADABLE
from nottwice.model.graphs.graph import END, Choice, Edge, Fan, GraphDefinition, Node


@frozen_record(frozen=True, slots=True)
class Branch:
    """One parallel branch: where it is, and what its nodes have changed so far."""

    node: str | None
    """None: it has reached the node where the branches meet."""
    update: Mapping[str, Any]


@frozen_record(frozen=True, slots=True)
class Position:
    """Where a run is."""

    node: str | None
    """The node to run. With branches, the node where they meet. None: finished."""
    visits: Mapping[str, int]
    branches: tuple[Branch, ...] = ()

    def to_plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"node": self.node, "visits": dict(self.visits)}
        if self.branches:
            plain["branches"] = [
                {"node": branch.node, "update": dict(branch.update)} for branch in self.branches
            ]
        return plain

    @staticmethod
    def from_plain(plain: Any) -> Position:
        try:
            branches = plain.get("branches", ())
            nodes = [plain["node"], *(branch["node"] for branch in branches)]
            # Not with ``shapes.checked``, which is slow the first time it sees a record type. A
            # process that resumes a run at its start waits for this.
            _expect((str, type(None)), nodes, "a node")
            _expect((dict,), (branch["update"] for branch in branches), "an update")
            _expect((int,), plain["visits"].values(), "a visit")
            made = tuple(Branch(branch["node"], branch["update"]) for branch in branches)
            return Position(plain["node"], plain["visits"], made)
        except UNREADABLE as error:
            raise LedgerCorrupt(
                f"A checkpoint holds a position that cannot be read ({error!r}). It was not "
                "used. Restore the ledger from a backup."
            ) from error

    def visit(self, node: Node, *, index: int | None = None) -> int:
        """Return the number of the visit that is running or due."""
        return self.visits.get(child_node(around(node, index), node.step), 0)


def _expect(kinds: tuple[type, ...], found: Iterable[Any], what: str) -> None:
    for one in found:
        if type(one) not in kinds:
            raise TypeError(f"{what} is {type(one).__name__}")


def around(node: Node, index: int | None) -> str:
    """Return where a node is: in its phase, and in a branch, whose index is part of the id."""
    outer = ROOT_NODE if index is None else branch_node(ROOT_NODE, index)
    return outer if node.phase is None else child_node(outer, node.phase)


def start(graph: GraphDefinition) -> Position:
    return _arrive(graph, Position(None, {}), graph.start)


def restart(graph: GraphDefinition, position: Position) -> Position:
    """Return the start position for a run that had reached its end. Its visits keep counting."""
    return _arrive(graph, Position(None, position.visits), graph.start)


def move(graph: GraphDefinition, position: Position, node: Node, choice: str | None) -> Position:
    """Return where a run goes from a node that has ended."""
    route = node.route
    match route:
        case Edge(to):
            return _arrive(graph, position, _straight(graph, node, to, choice))
        case Choice():
            return _arrive(graph, position, _chosen(graph, node, route, choice))
        case Fan(heads, join):
            _straight(graph, node, join, choice)
            fanned = replace(position, node=join, branches=tuple(Branch(None, {}) for _ in heads))
            for index, head in enumerate(heads):
                fanned = _arrive(graph, fanned, head, index=index)
            return fanned
        case _:
            assert_never(route)


def move_branch(
    graph: GraphDefinition,
    position: Position,
    node: Node,
    choice: str | None,
    *,
    index: int,
    update: Mapping[str, Any],
) -> Position:
    """Return where a branch goes from an ended node. ``update``: all its changes so far."""
    route = node.route
    assert not isinstance(route, Fan)
    if isinstance(route, Edge):
        to = _straight(graph, node, route.to, choice)
    else:
        to = _chosen(graph, node, route, choice)
    branches = list(position.branches)
    branches[index] = Branch(None, update)
    position = replace(position, branches=tuple(branches))
    return position if to == position.node else _arrive(graph, position, to, index=index)


def join(graph: GraphDefinition, position: Position) -> Position:
    """Return where a run goes when all its branches have met."""
    assert position.node is not None
    return _arrive(graph, replace(position, branches=()), position.node)


def _chosen(graph: GraphDefinition, node: Node, route: Choice, choice: str | None) -> str:
    to = None if choice is None else route.to(choice)
    if to is None:
        known = ", ".join(repr(option) for option, _ in route.options)
        said = "did not say where to go" if choice is None else f"chose {choice!r}"
        raise InvalidGraph(
            f"Node {node.name!r} of graph {graph.name!r} {said}. The run stays at this node. "
            f"Return one of {known}, or nt.goto(one of them, an update of the state)."
        )
    return to


def _straight(graph: GraphDefinition, node: Node, to: str, choice: str | None) -> str:
    """Refuse a choice where there is none, because ignoring it would hide a mistake."""
    if choice not in (None, to):
        raise InvalidGraph(
            f"Node {node.name!r} of graph {graph.name!r} chose {choice!r}, but has no choice: it "
            f"always leads to {to!r}. The run stays at this node. Declare its routes, "
            "@graph.node(then={...}), or return a dict of what changes."
        )
    return to


def _arrive(
    graph: GraphDefinition, position: Position, name: str, *, index: int | None = None
) -> Position:
    if name == END:
        return replace(position, node=None)
    node = graph.node(name)
    assert node is not None
    where = child_node(around(node, index), node.step)
    visit = position.visits.get(where, 0) + 1
    if visit > node.most:
        raise InvalidGraph(
            f"Node {name!r} of graph {graph.name!r} was visited {node.most} times, which is its "
            "limit. The run stays where it is. If the loop should continue, raise it: "
            f"@graph.node(most={node.most * 10})."
        )
    position = replace(position, visits={**position.visits, where: visit})
    if index is None:
        return replace(position, node=name)
    branches = list(position.branches)
    branches[index] = replace(branches[index], node=name)
    return replace(position, branches=tuple(branches))
