"""Where do the nodes of a graph lead, and how is it drawn as Mermaid text?

Names of nodes and choices are the user's. They are written as text that Mermaid cannot take for
markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from nottwice.model.data.printable import one_line
from nottwice.model.data.records import frozen_record
from nottwice.model.graphs.graph import END, Choice, Edge, Fan, GraphDefinition

START: Final = "$start"
_SHOWN = {START: "start", END: "end"}
COLORS: Final = {"done": "#2e7d32", "in_progress": "#0b57d0", "failed": "#b3261e"}


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
        if name in places and mark in COLORS:
            lines.append(f"    style {places[name]} stroke:{COLORS[mark]},stroke-width:3px")
    return "\n".join(lines) + "\n"


def _places(graph: GraphDefinition) -> dict[str, str]:
    """Return a name for each node that Mermaid can read, in the order of the graph."""
    names = [START, *(node.name for node in graph.nodes)]
    if any(arrow.target == END for arrow in arrows(graph)):
        names.append(END)
    return {name: f"n{number}" for number, name in enumerate(names)}


def _quoted(text: str) -> str:
    """Return a text that Mermaid shows as it is, inside quotes."""
    shown = one_line(text).replace("#", "#35;").replace("&", "#38;").replace('"', "#quot;")
    return shown.replace("<", "#lt;").replace(">", "#gt;").replace("`", "#96;")
