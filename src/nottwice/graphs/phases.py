"""Phases with steps in a few lines: ``nt.phases("bug-fix", version="1.3.0", phases={...})`` (S1).

A pipeline is a graph without branches whose nodes are steps, grouped in phases. Each step ends with
a checkpoint, so a finished step is not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import TypeVar

from nottwice.errors import InvalidGraph
from nottwice.graphs.declare import Graph
from nottwice.model.saving.cadence import Checkpoints

S = TypeVar("S", default=dict[str, Any])


def phases(
    name: str,
    *,
    version: str,
    phases: Mapping[str, Sequence[Callable[..., Any]]],
    state: type[S] = dict,  # type: ignore[assignment]
    append: Iterable[str] = (),
    checkpoints: Checkpoints = "effects",
) -> Graph[S]:
    """Create a graph that runs the steps of each phase in order, one phase after the other.

    A step is a function like any node: it takes the state and returns what changes. In a ledger of
    JSON files (``store="file:runs/"``), the run's file shows the progress by phase and step.
    """
    graph: Graph[S] = Graph(
        name, version=version, state=state, append=append, checkpoints=checkpoints
    )
    for phase, steps in phases.items():
        if callable(steps) or not steps:
            raise InvalidGraph(
                f"Phase {phase!r} of {name!r} needs a list of functions. Nothing happened."
            )
        for step in steps:
            graph.node(phase=phase)(step)
    graph.definition()
    return graph
