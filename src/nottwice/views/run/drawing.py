"""Where is each node of a graph in a picture of it, and which edges lead where?

Nodes are in columns: a node is one column right of the first node that leads to it. An edge that
leads back, as in a loop, or skips a column is drawn below. Coordinates count columns and rows, so
that each picture chooses its own size.
"""

from __future__ import annotations

from html import escape
from typing import Annotated

from nottwice.graphs.recorded import recorded_definition
from nottwice.model.data.printable import one_line
from nottwice.model.data.records import frozen_record
from nottwice.model.graphs.drawing import COLORS, arrows
from nottwice.model.graphs.graph import END, GraphDefinition
from nottwice.store.interface import Store
from nottwice.views.run.graphs import NodeView


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
    routes: dict[str, list[tuple[str, str]]] = {node.name: [] for node in graph.nodes}
    for arrow in arrows(graph):
        if arrow.source in routes:
            routes[arrow.source].append((arrow.label, arrow.target))
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


_GAP, _ROW, _BOX, _HEIGHT, _LETTERS, _LETTER = 50, 64, 120, 36, 14, 8


def picture(drawn: GraphDrawing) -> str:
    """The drawing as SVG, in the colours of the page around it. All names are only text."""
    # The choices are written between the nodes, and need their room.
    between = [len(_short(edge.label)) for edge in drawn.edges if not edge.is_curved]
    column = _BOX + max(_GAP, (max(between, default=0) + 1) * _LETTER)
    wide, high = drawn.columns * column + 10, drawn.rows * _ROW + 46
    label = "The nodes of the graph and how they lead to each other."
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" '
        f'height="{high}" role="img" aria-label="{label}" font-family="sans-serif" '
        'font-size="13" fill="currentColor">'
    ]
    parts += [_line(edge, column, high) for edge in drawn.edges]
    parts += [_box(node, column) for node in drawn.nodes]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(edge: DrawnEdge, column: int, high: int) -> str:
    x1, y1 = edge.source.column * column + 10 + _BOX, edge.source.row * _ROW + 26
    x2, y2 = edge.target.column * column + 10, edge.target.row * _ROW + 26
    if edge.is_curved:
        # It leaves and arrives below, so that it crosses no node.
        x1, x2 = x1 - _BOX // 2, x2 + _BOX // 2
        path = f"M{x1} {y1 + 18} C{x1} {high - 4} {x2} {high - 4} {x2} {y2 + 26}"
        tip, at = f"M{x2} {y2 + 18} l-4 8 h8 z", ((x1 + x2) // 2, high - 6)
    else:
        path = f"M{x1} {y1} L{x2 - 8} {y2}"
        tip, at = f"M{x2} {y2} l-8 -4 v8 z", ((x1 + x2) // 2, (y1 + y2) // 2 - 6)
    whole = "" if _short(edge.label) == edge.label else f"<title>{_text(edge.label)}</title>"
    return (
        f'<path class="edge" d="{path}" fill="none" stroke="currentColor"/><path d="{tip}"/>'
        f'<text x="{at[0]}" y="{at[1]}" font-size="11" text-anchor="middle">'
        f"{whole}{_text(_short(edge.label))}</text>"
    )


def _box(node: DrawnNode, column: int) -> str:
    x, y = node.column * column + 10, node.row * _ROW + 8
    name = "end" if node.name == END else node.name
    shown, again = _short(name), f" {node.visits}×" if node.visits > 1 else ""
    color, width = COLORS.get(node.status, "currentColor"), 3 if node.status in COLORS else 1
    return (
        f"<g><title>{_text(name)}: {_text(node.status)}, visited {node.visits} times</title>"
        f'<rect class="node {_text(node.status)}" x="{x}" y="{y}" width="{_BOX}" '
        f'height="{_HEIGHT}" rx="6" fill="none" stroke="{color}" stroke-width="{width}"/>'
        f'<text x="{x + _BOX // 2}" y="{y + 23}" text-anchor="middle">{_text(shown)}{again}</text>'
        "</g>"
    )


def _short(name: str) -> str:
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"


def _text(text: str) -> str:
    return escape(one_line(text))
