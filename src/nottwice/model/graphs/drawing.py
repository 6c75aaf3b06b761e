"""Draws a graph: as Mermaid text, or as an SVG picture. Pure: it needs no library.

Names of nodes and choices are the user's. They are written as text that neither Mermaid nor a
browser can take for markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Final

from nottwice.model.graphs.graph import END, Choice, Edge, Fan, GraphDefinition
from nottwice.model.printable import one_line
from nottwice.model.records import frozen_record

START: Final = "$start"
_SHOWN = {START: "start", END: "end"}
_COLORS = {"done": "#2e7d32", "in_progress": "#0b57d0", "failed": "#b3261e"}
_CHARACTER, _HEIGHT, _ROW, _GAP, _MARGIN = 8, 36, 84, 28, 24


@frozen_record(frozen=True, slots=True)
class Arrow:
    """A way from one node to another."""

    source: str
    target: str
    label: str = ""
    """The choice that leads there."""


def arrows(graph: GraphDefinition) -> Iterator[Arrow]:
    """Yield every way of a graph, from its start on."""
    yield Arrow(START, graph.start)
    for node in graph.nodes:
        match node.route:
            case Edge(to):
                yield Arrow(node.name, to)
            case Choice(options):
                for label, to in options:
                    yield Arrow(node.name, to, label)
            case Fan(heads, _):
                for head in heads:
                    yield Arrow(node.name, head)


def mermaid(graph: GraphDefinition, status: Mapping[str, str] | None = None) -> str:
    """Return the graph as a Mermaid flowchart. ``status``: the mark of each node of a run."""
    places = _places(graph)
    lines = ["flowchart TD"]
    for name, place in places.items():
        shape = '(["{}"])' if name in _SHOWN else '["{}"]'
        lines.append(f"    {place}{shape.format(_quoted(_SHOWN.get(name, name)))}")
    for arrow in arrows(graph):
        label = f'|"{_quoted(arrow.label)}"|' if arrow.label else ""
        lines.append(f"    {places[arrow.source]} -->{label} {places[arrow.target]}")
    for name, mark in (status or {}).items():
        if name in places and mark in _COLORS:
            lines.append(f"    style {places[name]} stroke:{_COLORS[mark]},stroke-width:3px")
    return "\n".join(lines) + "\n"


def svg(graph: GraphDefinition, status: Mapping[str, str] | None = None) -> str:
    """Return the graph as a picture. ``status``: the mark of each node of a run.

    The colours of lines and text are those of the page around it.
    """
    boxes, width, height = _layout(graph)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" font-family="sans-serif" font-size="13">',
        f"<title>{_text(graph.graph_id)}</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="currentColor"/></marker>'
        "</defs>",
    ]
    parts += [_line(boxes, arrow) for arrow in arrows(graph)]
    parts += [_box(name, box, (status or {}).get(name)) for name, box in boxes.items()]
    return "\n".join([*parts, "</svg>"]) + "\n"


@frozen_record(frozen=True, slots=True)
class _Box:
    """Where a node is drawn."""

    x: int
    y: int
    width: int

    @property
    def middle(self) -> int:
        return self.x + self.width // 2


def _layout(graph: GraphDefinition) -> tuple[dict[str, _Box], int, int]:
    """Place the nodes in rows, each below the nodes that lead to it."""
    rows: dict[int, list[str]] = {}
    for name, depth in _depths(graph).items():
        rows.setdefault(depth, []).append(name)
    sizes = {
        name: max(72, len(_printable(_SHOWN.get(name, name))) * _CHARACTER + 24)
        for row in rows.values()
        for name in row
    }
    widths = {depth: sum(sizes[name] + _GAP for name in row) - _GAP for depth, row in rows.items()}
    widest = max(widths.values())
    boxes: dict[str, _Box] = {}
    for depth, row in sorted(rows.items()):
        x = _MARGIN + (widest - widths[depth]) // 2
        for name in row:
            boxes[name] = _Box(x, _MARGIN + depth * _ROW, sizes[name])
            x += sizes[name] + _GAP
    # Ways back go around on the right.
    return boxes, widest + 3 * _MARGIN, 2 * _MARGIN + max(rows) * _ROW + _HEIGHT


def _depths(graph: GraphDefinition) -> dict[str, int]:
    """Return the row of each node: one below the lowest node before it, loops left out."""
    after: dict[str, list[str]] = {}
    for arrow in arrows(graph):
        after.setdefault(arrow.source, []).append(arrow.target)
    order: list[str] = []
    state: dict[str, bool] = {}
    stack = [(START, iter(after[START]))]
    state[START] = True
    back: set[tuple[str, str]] = set()
    while stack:
        name, targets = stack[-1]
        for target in targets:
            if target not in state:
                state[target] = True
                stack.append((target, iter(after.get(target, ()))))
                break
            if state[target]:
                back.add((name, target))
        else:
            stack.pop()
            state[name] = False
            order.append(name)
    depths = {START: 0}
    for name in reversed(order):
        for target in after.get(name, ()):
            if (name, target) not in back:
                depths[target] = max(depths.get(target, 0), depths[name] + 1)
    return depths


def _line(boxes: Mapping[str, _Box], arrow: Arrow) -> str:
    source, target = boxes[arrow.source], boxes[arrow.target]
    x1, y1 = source.middle, source.y + _HEIGHT
    x2, y2 = target.middle, target.y
    if y2 > y1:
        bend = (y2 - y1) // 2
        path = f"M{x1} {y1}C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2}"
        at = ((x1 + x2) // 2, (y1 + y2) // 2)
    else:
        right = max(box.x + box.width for box in boxes.values()) + _MARGIN
        x1, y1 = source.x + source.width, source.y + _HEIGHT // 2
        x2, y2 = target.x + target.width, target.y + _HEIGHT // 2
        path = f"M{x1} {y1}C{right} {y1} {right} {y2} {x2} {y2}"
        at = (right - _MARGIN // 2, (y1 + y2) // 2)
    drawn = f'<path d="{path}" fill="none" stroke="currentColor" marker-end="url(#tip)"/>'
    if arrow.label:
        drawn += (
            f'<text x="{at[0]}" y="{at[1]}" text-anchor="middle" fill="currentColor" '
            f'font-size="11">{_text(arrow.label)}</text>'
        )
    return drawn


def _box(name: str, box: _Box, mark: str | None) -> str:
    color = _COLORS.get(mark or "", "currentColor")
    width = 3 if mark in _COLORS else 1
    round_ = _HEIGHT // 2 if name in _SHOWN else 6
    said = f"<title>{_text(name)}: {_text(mark)}</title>" if mark else ""
    return (
        f'<g>{said}<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{_HEIGHT}" '
        f'rx="{round_}" fill="none" stroke="{color}" stroke-width="{width}"/>'
        f'<text x="{box.middle}" y="{box.y + _HEIGHT // 2 + 5}" text-anchor="middle" '
        f'fill="currentColor">{_text(_SHOWN.get(name, name))}</text></g>'
    )


def _places(graph: GraphDefinition) -> dict[str, str]:
    """Return a name for each node that Mermaid can read, in the order of the graph."""
    names = [START, *(node.name for node in graph.nodes)]
    if any(arrow.target == END for arrow in arrows(graph)):
        names.append(END)
    return {name: f"n{number}" for number, name in enumerate(names)}


def _printable(text: str) -> str:
    return one_line(text)


def _text(text: str) -> str:
    return escape(_printable(text))


def _quoted(text: str) -> str:
    """Return a text that Mermaid shows as it is, inside quotes."""
    shown = _printable(text).replace("#", "#35;").replace("&", "#38;").replace('"', "#quot;")
    return shown.replace("<", "#lt;").replace(">", "#gt;").replace("`", "#96;")
