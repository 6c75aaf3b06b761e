"""A graph as the ledger knows it, for those who have none of its code."""

from __future__ import annotations

from typing import Any

from nottwice.errors import LedgerCorrupt
from nottwice.model import values
from nottwice.model.graph import Choice, Fan, GraphDefinition, Line, Node, Route, parse_version
from nottwice.model.run import GraphRecord


def recorded_definition(record: GraphRecord) -> GraphDefinition:
    """What a graph was when this ledger first saw it."""
    try:
        plain = values.decode(record.json)
        return GraphDefinition(
            name=plain["name"],
            version=parse_version(plain["version"], what=f"Graph {plain['name']!r}"),
            nodes=tuple(_node(node) for node in plain["nodes"]),
            append=tuple(plain["append"]),
            state=plain["state"],
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise LedgerCorrupt(
            f"The record of graph {record.graph_id!r} cannot be read ({error!r}). It was not "
            "believed. Restore the ledger from a backup."
        ) from error


def _node(plain: dict[str, Any]) -> Node:
    if "then" in plain:
        route: Route = Line(plain["then"])
    elif "choice" in plain:
        route = Choice(tuple(plain["choice"].items()))
    else:
        route = Fan(tuple(plain["branches"]), plain["join"])
    return Node(plain["name"], route, plain["most"], plain.get("phase"))
