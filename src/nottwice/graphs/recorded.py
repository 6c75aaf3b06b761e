"""A graph as the ledger recorded it, for readers that do not have its code."""

from __future__ import annotations

from nottwice.errors import InvalidGraph
from nottwice.model import values
from nottwice.model.data.shapes import not_believed
from nottwice.model.graphs.fingerprint import Fingerprint
from nottwice.model.graphs.graph import GraphDefinition
from nottwice.model.run import GraphRecord


def recorded_definition(record: GraphRecord) -> GraphDefinition:
    """Return the definition of a graph as this ledger first saw it."""
    return recorded_fingerprint(record).graph


def recorded_fingerprint(record: GraphRecord) -> Fingerprint:
    """Return the recorded fingerprint, with tools and bodies as far as they were recorded."""
    with not_believed(f"The record of graph {record.graph_id!r}"):
        try:
            return Fingerprint.from_plain(values.decode(record.json))
        except InvalidGraph as error:
            raise ValueError(error.message) from error
