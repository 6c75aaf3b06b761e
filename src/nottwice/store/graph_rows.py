"""Checkpoints, events and graphs to SQL parameters and back: the same bytes on every SQL store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nottwice.model.run import CheckpointRecord, EventRecord, GraphRecord
from nottwice.store.columns import check_of
from nottwice.store.rows import NOT_SEALED, UNREADABLE, Row, corrupt, micros

CHECKPOINT_COLUMNS = "workflow_id, version, snapshot, node_id, created_at, state_json, seal"
EVENT_COLUMNS = (
    "workflow_id, event_id, name, event_json, sent_at, sent_by, received_by, received_at, seal"
)
GRAPH_COLUMNS = "graph_id, definition_json, recorded_at, seal"

_check_checkpoint = check_of(CHECKPOINT_COLUMNS)
_KINDS = [{str}, {int}, {int}, {str}, {int}, {str}]
"""Of the columns of checkpoints, as far as they say something."""
_WIDTH = len(_KINDS)
_check_event = check_of(EVENT_COLUMNS, optional="received_by received_at")
_check_graph = check_of(GRAPH_COLUMNS)


def checkpoint_to_sql(checkpoint: CheckpointRecord) -> tuple[Any, ...]:
    return (
        checkpoint.workflow_id,
        checkpoint.version,
        checkpoint.snapshot,
        checkpoint.node_id,
        micros(checkpoint.created_at),
        checkpoint.json,
        NOT_SEALED,
    )


def checkpoint_from_sql(row: Row) -> CheckpointRecord:
    try:
        _check_checkpoint(row)
        run, version, snapshot, node_id, created_at, text, *_ = row
        return CheckpointRecord(run, version, snapshot, node_id, text, created_at / 1_000_000)
    except UNREADABLE as error:
        raise corrupt("a checkpoint", row[:2], error) from error


def checkpoints_from_sql(found: Sequence[Row]) -> list[CheckpointRecord]:
    """The same for all that a version is rebuilt from: in a run of some length, hundreds."""
    columns = list(zip(*found, strict=True))
    kinds = [set(map(type, column)) for column in columns[:_WIDTH]]
    if kinds != _KINDS:
        return [checkpoint_from_sql(row) for row in found]
    runs, versions, snapshots, nodes, moments, texts = columns[:_WIDTH]
    seconds = [moment / 1_000_000 for moment in moments]
    return list(map(CheckpointRecord, runs, versions, snapshots, nodes, texts, seconds))


def event_to_sql(event: EventRecord) -> tuple[Any, ...]:
    return (
        event.workflow_id,
        event.event_id,
        event.name,
        event.json,
        micros(event.sent_at),
        event.sent_by,
        event.received_by,
        None if event.received_at is None else micros(event.received_at),
        NOT_SEALED,
    )


def event_from_sql(row: Row) -> EventRecord:
    try:
        _check_event(row)
        return EventRecord(
            workflow_id=row[0],
            event_id=row[1],
            name=row[2],
            json=row[3],
            sent_at=row[4] / 1_000_000,
            sent_by=row[5],
            received_by=row[6],
            received_at=None if row[7] is None else row[7] / 1_000_000,
        )
    except UNREADABLE as error:
        raise corrupt("an event", row[:2], error) from error


def graph_to_sql(graph: GraphRecord) -> tuple[Any, ...]:
    return (graph.graph_id, graph.json, micros(graph.recorded_at), NOT_SEALED)


def graph_from_sql(row: Row) -> GraphRecord:
    try:
        _check_graph(row)
        return GraphRecord(row[0], row[1], row[2] / 1_000_000)
    except UNREADABLE as error:
        raise corrupt("a graph", row[:1], error) from error
