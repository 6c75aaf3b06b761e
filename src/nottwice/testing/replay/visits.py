"""Which visit of which node does something in a record belong to?

Calls and steps name the place where they were made, a node or something inside it, and the
checkpoint that it started from. A *visit* is the node around them, with its branch and its number.
What a model calls belongs to the run as a whole, and to no visit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from nottwice.model.call import FIRST_CHECKPOINT, child_node
from nottwice.model.graphs.graph import GraphDefinition
from nottwice.model.graphs.position import Position, around
from nottwice.model.runs.places import is_inside

_BRANCH = re.compile(r"^/\[\d+\]/")


class ReplayedVisit(NamedTuple):
    """One visit of one node."""

    node_id: str
    """With its branch, if it is in one."""
    checkpoint_id: str

    @property
    def branch(self) -> str:
        """The branch that it is in, or empty outside of branches."""
        found = _BRANCH.match(self.node_id)
        return found[0] if found else ""

    @property
    def node(self) -> str:
        """The node as people call it."""
        return _BRANCH.sub("", self.node_id)

    @property
    def number(self) -> int:
        number = self.checkpoint_id.rpartition("/")[2]
        return int(number) if number.isdigit() else 1


class Visits:
    """Finds visits in runs of a graph."""

    def __init__(self, graph_id: str, *graphs: GraphDefinition) -> None:
        self._graph_id = graph_id
        self._nodes = {
            child_node(around(node, None), node.step) for graph in graphs for node in graph.nodes
        }

    def around(self, node_id: str, checkpoint_id: str) -> ReplayedVisit | None:
        """Return the visit in which something was made, or None if it is in no node."""
        found = _BRANCH.match(node_id)
        branch = found[0] if found else ""
        inside = [node for node in self._nodes if is_inside(node_id.removeprefix(branch), node)]
        number = checkpoint_id.removeprefix(f"{self._graph_id}/").partition("/")[0]
        if not inside or not number.isdigit():
            return None
        return ReplayedVisit(branch + max(inside, key=len), f"{self._graph_id}/{number}")

    def is_run_wide(self, checkpoint_id: str) -> bool:
        """Return whether something belongs to the whole run, like a model's calls."""
        return checkpoint_id == FIRST_CHECKPOINT

    def among(self, places: Iterable[tuple[str, str]]) -> list[ReplayedVisit]:
        """Return the places that are visits themselves, not something inside one, in order."""
        return [ReplayedVisit(*place) for place in places if self.around(*place) == place]


def is_past(visit: ReplayedVisit, position: Position, graph: GraphDefinition) -> bool:
    """Return whether a visit was over when a checkpoint was saved."""
    begun = position.visits.get(visit.node_id, 0)
    if visit.number == begun:
        return visit.node_id not in _due(position, graph)
    return visit.number < begun


def _due(position: Position, graph: GraphDefinition) -> set[str]:
    places: list[tuple[str | None, int | None]] = [(position.node, None)]
    if position.branches:
        places = [(branch.node, index) for index, branch in enumerate(position.branches)]
    found: set[str] = set()
    for name, index in places:
        node = graph.node(name or "")
        if node is not None:
            found.add(child_node(around(node, index), node.step))
    return found
