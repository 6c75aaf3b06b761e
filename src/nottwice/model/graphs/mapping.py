"""Where does a run continue when it moves to another version of its graph? (V4)

Every node that the run is at is mapped by name, even if its name is unchanged: the same name in two
versions proves nothing. The target must be a place where a run of the new version can be. Visits
keep counting, so that a loop gets no more turns than its limit allows. A visit never gets a number
that an earlier visit had in the same version, because it would find that visit's receipts.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from nottwice.model.call import child_checkpoint, child_node
from nottwice.model.data.records import frozen_record
from nottwice.model.graphs.graph import Fan, GraphDefinition, Node, inside_branch, outside_branches
from nottwice.model.graphs.position import Position, around


@frozen_record(frozen=True, slots=True)
class OpenVisit:
    """A visit of a node that is running or due."""

    node: str
    node_id: str
    number: int
    index: int | None = None
    """The branch that it is in."""

    def checkpoint_id(self, graph_id: str) -> str:
        return child_checkpoint(graph_id, self.number)


def open_visits(graph: GraphDefinition, position: Position) -> list[OpenVisit]:
    """Return the visits that a run is in the middle of. Nodes unknown to the graph are left out.

    While branches are running, these are their visits: the node where they meet has not begun.
    """
    places: list[tuple[str | None, int | None]] = [(position.node, None)]
    if position.branches:
        places = [(branch.node, index) for index, branch in enumerate(position.branches)]
    found = []
    for name, index in places:
        node = graph.node(name or "")
        if node is not None:
            number = position.visit(node, index=index)
            found.append(OpenVisit(node.name, place_of(node, index), number, index))
    return found


def nodes_at(position: Position) -> list[str]:
    """Return the names of all nodes in a position, each once."""
    named = [branch.node for branch in position.branches] + [position.node]
    return list(dict.fromkeys(name for name in named if name is not None))


def place_of(node: Node, index: int | None = None) -> str:
    """Return the node id that visits of a node have."""
    return child_node(around(node, index), node.step)


@frozen_record(frozen=True, slots=True)
class Move:
    """The move of a run from one version of its graph to another."""

    old: GraphDefinition
    new: GraphDefinition
    position: Position
    mapping: Mapping[str, str]

    def unmapped(self) -> list[str]:
        """Return the nodes that the run is at and that are not mapped."""
        return [name for name in nodes_at(self.position) if name not in self.mapping]

    def misfits(self) -> Iterator[str]:
        """Say why the run cannot be where the mapping says. Empty if it can."""
        yield from self._unknown_names()
        for name in nodes_at(self.position):
            if self.old.node(name) is None:
                yield f"the record of {self.old.graph_id} has no node {name!r}, at which the run is"
        targets = [self.mapping.get(name) for name in nodes_at(self.position)]
        if any(self.new.node(name or "") is None for name in targets):
            return
        if self.position.branches:
            yield from self._branch_misfits()
        elif self.position.node is not None:
            target = self.mapping[self.position.node]
            if target not in outside_branches(self.new):
                yield (
                    f"node {target!r} of {self.new.graph_id} is one of parallel branches, and the "
                    "others would never run; map to the node that starts them"
                )

    def arrive(self, taken: Collection[tuple[str, str]]) -> Position:
        """Return the position in the new version.

        ``taken``: node and checkpoint of every visit ever made. Only for a move without misfits.
        """
        before = self.position
        if before.node is None:
            return before
        visits = {**self._carried(), **before.visits}
        for visit in open_visits(self.old, before):
            node = self._target(visit.node)
            where = place_of(node, visit.index)
            number = visit.number
            if where != visit.node_id and where in before.visits:
                number = before.visits[where] + 1
            while (where, child_checkpoint(self.new.graph_id, number)) in taken:
                number += 1
            visits[where] = number
        branches = tuple(
            replace(branch, node=None if branch.node is None else self.mapping[branch.node])
            for branch in before.branches
        )
        return Position(self.mapping[before.node], visits, branches)

    def beyond_bounds(self, arrived: Position) -> Iterator[str]:
        """Say which nodes would be visited more often than the new version allows."""
        for visit in open_visits(self.new, arrived):
            most = self._known(visit.node).most
            if visit.number > most:
                yield (
                    f"node {visit.node!r} of {self.new.graph_id} may be visited {most} times, and "
                    f"this would be visit {visit.number}; raise it: @graph.node(most=...)"
                )

    def _target(self, name: str) -> Node:
        return self._known(self.mapping[name])

    def _known(self, name: str) -> Node:
        node = self.new.node(name)
        assert node is not None
        return node

    def _unknown_names(self) -> Iterator[str]:
        at = nodes_at(self.position)
        for name, target in self.mapping.items():
            if self.old.node(name) is None and name not in at:
                yield _no_node(self.old, name)
            if self.new.node(target) is None:
                yield _no_node(self.new, target)

    def _branch_misfits(self) -> Iterator[str]:
        """Check that the branches fit a node of the new version that starts as many.

        They must also meet in the mapped node.
        """
        assert self.position.node is not None
        meeting = self.mapping[self.position.node]
        if not any(self._fits(fan) for fan in _fans(self.new)):
            at = [
                "there already" if branch.node is None else repr(self.mapping[branch.node])
                for branch in self.position.branches
            ]
            yield (
                f"its {len(at)} branches are under way, and {self.new.graph_id} has no branches "
                f"that meet in {meeting!r} and can be at {', '.join(at)}; let them meet first"
            )
        changed = {key for branch in self.position.branches for key in branch.update}
        for key in sorted(changed & (set(self.old.append) ^ set(self.new.append))):
            yield (
                f"its branches have changed {key!r}, to which only one of the two versions "
                "appends; let them meet first"
            )

    def _fits(self, fan: Fan) -> bool:
        branches = self.position.branches
        assert self.position.node is not None
        return (
            fan.join == self.mapping[self.position.node]
            and len(fan.heads) == len(branches)
            and all(
                branch.node is None
                or self.mapping[branch.node] in inside_branch(self.new, fan, index)
                for index, branch in enumerate(branches)
            )
        )

    def _carried(self) -> dict[str, Any]:
        """Return how often renamed nodes were visited, under their new names."""
        carried: dict[str, Any] = {}
        for name, target in self.mapping.items():
            old, new = self.old.node(name), self.new.node(target)
            for index in (None, *range(len(self.position.branches))):
                if old is not None and new is not None:
                    count = self.position.visits.get(place_of(old, index))
                    if count is not None:
                        carried[place_of(new, index)] = count
        return carried


def _fans(graph: GraphDefinition) -> list[Fan]:
    return [node.route for node in graph.nodes if isinstance(node.route, Fan)]


def _no_node(graph: GraphDefinition, name: str) -> str:
    names = [node.name for node in graph.nodes]
    close = difflib.get_close_matches(name, names, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(names)}"
    return f"{graph.graph_id} has no node {name!r}{meant}"
