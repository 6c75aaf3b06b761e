"""Which graphs do the nodes of a graph spawn? Found by reading their code, without running it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nottwice.graphs.declare import Graph
from nottwice.graphs.fingerprint import bare_function
from nottwice.guard.check.references import read_references


def with_spawned(graphs: Iterable[Graph[Any]]) -> tuple[Graph[Any], ...]:
    """Return these graphs and the graphs that their code names, so that child runs can resume.

    A named graph is not added again if its id is already included.
    """
    found: dict[str, Graph[Any]] = {}
    waiting = list(graphs)
    while waiting:
        graph = waiting.pop(0)
        if graph.id in found:
            continue
        found[graph.id] = graph
        for node in graph.code.values():
            named = read_references(bare_function(node)).found
            waiting += [one.values[-1] for one in named if isinstance(one.values[-1], Graph)]
    return tuple(found.values())
