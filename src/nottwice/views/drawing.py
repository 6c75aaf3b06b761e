"""Where is each node of a graph in a picture of it, and which edges lead where?

Nodes are in columns: a node is one column right of the first node that leads to it. An edge that
leads back, as in a loop, or skips a column is drawn below. Coordinates count columns and rows, so
that each picture chooses its own size.
"""

from __future__ import annotations

from typing import Annotated

from nottwice.graphs.recorded import recorded_definition
from nottwice.model.graphs.graph import END, Choice, Edge, Fan, GraphDefinition, Node
from nottwice.model.records import frozen_record
from nottwice.store.interface import Store
from nottwice.views.graphs import NodeView


@frozen_record(frozen=True, slots=True, kw_only=True)
class DrawnNode:
    """One node in the picture."""

    name: Annotated[str, "its name; $end is where a finished run goes"]
    status: Annotated[str, "pending, in_progress, done or failed in this run"]
    visits: Annotated[int, "how often the run visited it"]
    column: Annotated[int, "from 0 on, left to right"]
    row: Annotated[int, "from 0 on, top to bottom"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class DrawnEdge:
    """One edge in the picture."""

    source: Annotated[DrawnNode, "where it begins"]
    target: Annotated[DrawnNode, "where it leads"]
    label: Annotated[str, "the choice that takes it; empty if it is always taken"]
    is_curved: Annotated[bool, "whether it passes other nodes: it leads back, or skips a column"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class GraphDrawing:
    """A graph as a picture."""

    nodes: Annotated[tuple[DrawnNode, ...], "its nodes; see drawn node"]
    edges: Annotated[tuple[DrawnEdge, ...], "its edges; see drawn edge"]
    columns: Annotated[int, "how many columns there are"]
    rows: Annotated[int, "how many rows there are"]


def drawing_of(
    store: Store, graph_id: str | None, marks: tuple[NodeView, ...]
) -> GraphDrawing | None:
    """The graph of a run as the ledger recorded it; None if it has none."""
    record = None if graph_id is None else store.load_graph(graph_id)
    return None if record is None else draw(recorded_definition(record), marks)


def draw(graph: GraphDefinition, marks: tuple[NodeView, ...] = ()) -> GraphDrawing:
    """A graph as a picture; ``marks`` say how far a run of it came."""
    routes = {node.name: _targets(node) for node in graph.nodes}
    columns = _columns(graph.start, routes)
    known = {mark.node: mark for mark in marks}
    rows: dict[int, int] = {}
    drawn: dict[str, DrawnNode] = {}
    for name, column in columns.items():
        mark = known.get(name)
        drawn[name] = DrawnNode(
            name=name,
            status="pending" if mark is None else mark.status,
            visits=0 if mark is None else mark.visits,
            column=column,
            row=rows.get(column, 0),
        )
        rows[column] = rows.get(column, 0) + 1
    edges = tuple(
        DrawnEdge(
            source=drawn[name],
            target=drawn[target],
            label=label,
            is_curved=columns[target] != columns[name] + 1,
        )
        for name, targets in routes.items()
        for label, target in targets
    )
    return GraphDrawing(
        nodes=tuple(drawn.values()),
        edges=edges,
        columns=1 + max(columns.values()),
        rows=max(rows.values()),
    )


def _targets(node: Node) -> list[tuple[str, str]]:
    """Where a node leads, each with the name of the choice."""
    match node.route:
        case Edge():
            return [("", node.route.to)]
        case Choice():
            return list(node.route.options)
        case Fan():
            return [("", head) for head in node.route.heads]


def _columns(start: str, routes: dict[str, list[tuple[str, str]]]) -> dict[str, int]:
    """The column of each node: how many edges the shortest way to it has. The end is last."""
    found = {start: 0}
    queue = [start]
    for name in queue:
        for _, target in routes.get(name, ()):
            if target not in found and target != END:
                found[target] = found[name] + 1
                queue.append(target)
    for name in routes:
        # A graph is only recorded if every node can be reached. A joining node may be named last.
        found.setdefault(name, 1 + max(found.values()))
    if any(target == END for targets in routes.values() for _, target in targets):
        found[END] = 1 + max(found.values())
    return found
