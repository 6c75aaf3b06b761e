"""Which graph is meant, and where do its nodes lead? Read from the ledger or from code."""

from __future__ import annotations

from typing import Annotated

from nottwice.errors import UsageError
from nottwice.graphs.recorded import recorded_definition
from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.model.graphs.drawing import arrows
from nottwice.model.graphs.graph import GraphDefinition, split_graph_id
from nottwice.views.run.graphs import NodeView, nodes_of
from nottwice.views.runs import load_run
from nottwice.views.text import shorten


@frozen_record(frozen=True, slots=True, kw_only=True)
class ArrowView:
    """A way from one node to another."""

    source: Annotated[str, "the node it starts from; $start where the graph begins"]
    target: Annotated[str, "the node it leads to; $end where the graph ends"]
    label: Annotated[str | None, "the choice that leads there, or null"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class GraphOutline:
    """A graph with its ways and, for a run, where it is."""

    graph: Annotated[str, "name@version"]
    nodes: Annotated[tuple[str, ...], "its nodes, in the order of their declaration"]
    arrows: Annotated[tuple[ArrowView, ...], "every way from one node to the next; see arrow"]
    status: Annotated[dict[str, str], "of a run, the status of each node; else empty"]
    definition: GraphDefinition
    marks: tuple[NodeView, ...]
    """The nodes as a run has visited them."""


def draw_run(ledger: Ledger, run_id: str) -> GraphOutline:
    """The graph of a run, with the status of each node."""
    run = load_run(ledger.store, run_id)
    record = None if run.graph_id is None else ledger.store.load_graph(run.graph_id)
    if record is None:
        raise UsageError(f"Run {shorten(run_id, 80)!r} is not a run of a graph. Nothing was drawn.")
    return outline(recorded_definition(record), nodes_of(ledger.store, run))


def draw_recorded(ledger: Ledger, name: str) -> GraphOutline:
    """A graph that runs of this ledger are bound to: by name@version, or the newest by name."""
    known = [record.graph_id for record in ledger.store.graphs()]
    found = [each for each in known if name in (each, split_graph_id(each)[0])]
    record = None
    if found:
        record = ledger.store.load_graph(max(found, key=lambda each: split_graph_id(each)[1]))
    if record is None:
        raise UsageError(f"{_unknown(name, known)} Or name your code: --app agent:app.")
    return outline(recorded_definition(record))


def draw_deployed(definitions: list[GraphDefinition], name: str) -> GraphOutline:
    """A graph of the user's code: by name@version, or the newest by name."""
    found = [each for each in definitions if name in (each.graph_id, each.name)]
    if not found:
        raise UsageError(_unknown(name, [each.graph_id for each in definitions]))
    return outline(max(found, key=lambda each: each.version))


def outline(definition: GraphDefinition, marks: tuple[NodeView, ...] = ()) -> GraphOutline:
    """A graph as it is shown."""
    ways = (
        ArrowView(source=one.source, target=one.target, label=one.label or None)
        for one in arrows(definition)
    )
    return GraphOutline(
        graph=definition.graph_id,
        nodes=tuple(node.name for node in definition.nodes),
        arrows=tuple(ways),
        status={mark.node: mark.status for mark in marks},
        definition=definition,
        marks=marks,
    )


def _unknown(name: str, known: list[str]) -> str:
    names = ", ".join(sorted(known)) or "none"
    return f"There is no graph {shorten(name, 80)!r}. Nothing was drawn. Known graphs: {names}."
