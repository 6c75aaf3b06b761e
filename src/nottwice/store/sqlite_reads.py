"""The questions that a ledger on SQLite is asked, as SQL."""

from __future__ import annotations

from typing import Any

from nottwice.store import graph_rows, rows

_CALLS = "SELECT " + rows.CALL_COLUMNS + " FROM tool_call_results WHERE workflow_id = ?"
CALL = _CALLS + " AND node_id = ? AND checkpoint_id = ? AND tool_name = ? AND input_hash = ?"
CALLS_IN_ORDER = _CALLS + " ORDER BY created_at, rowid"
LAST_CALLS = _CALLS + " ORDER BY created_at DESC, rowid DESC LIMIT ?"
CALLS_BEFORE = (
    _CALLS + " AND (created_at, rowid) < (SELECT created_at, rowid FROM tool_call_results"
    " WHERE workflow_id = ? AND node_id = ? AND checkpoint_id = ? AND tool_name = ?"
    " AND input_hash = ?) ORDER BY created_at DESC, rowid DESC LIMIT ?"
)
COUNT_CALLS = "SELECT count(*) FROM tool_call_results WHERE workflow_id = ?"
CALLS_IN_DOUBT = (
    _CALLS + " AND created_at >= (SELECT in_doubt_from FROM runs WHERE workflow_id = ?)"
    " AND status IN ('PENDING', 'UNKNOWN') ORDER BY created_at, rowid"
)
# What there is: the same conditions as where it is read.
STANDING = """
SELECT EXISTS (
         SELECT 1 FROM tool_call_results
          WHERE workflow_id = ? AND status IN ('PENDING', 'UNKNOWN')
            AND created_at >= (SELECT in_doubt_from FROM runs WHERE workflow_id = ?)),
       EXISTS (
         SELECT 1 FROM reviews WHERE workflow_id = ? AND status IN ('open', 'decided')),
       EXISTS (SELECT 1 FROM events WHERE workflow_id = ?),
       EXISTS (SELECT 1 FROM audit WHERE workflow_id = ?),
       (SELECT coalesce(max(ordinal), 0) FROM steps WHERE workflow_id = ?)
"""
_UNDER = _CALLS + " AND node_id >= ? AND node_id < ?"
CALLS_UNDER = _UNDER + " ORDER BY created_at, rowid"
CALLS_OF_VISIT = (
    _UNDER + " AND (checkpoint_id = ? OR checkpoint_id >= ? AND checkpoint_id < ?)"
    " ORDER BY created_at, rowid"
)
KEY_USE = (
    "SELECT " + rows.CALL_COLUMNS + " FROM tool_call_results"
    " WHERE tool_name = ? AND idempotency_key = ? ORDER BY created_at DESC, rowid DESC LIMIT 1"
)
RUN = "SELECT " + rows.RUN_COLUMNS + " FROM runs WHERE workflow_id = ?"
RUNS = (
    "SELECT " + rows.RUN_COLUMNS + " FROM runs WHERE substr(workflow_id, 1, length(?)) = ?"
    " ORDER BY updated_at DESC, workflow_id DESC LIMIT ?"
)
_STEPS = "SELECT " + rows.STEP_COLUMNS + " FROM steps WHERE workflow_id = ?"
STEP = _STEPS + " AND node_id = ? AND checkpoint_id = ?"
_STEPS_IN_ORDER = _STEPS + " AND ordinal > ? ORDER BY ordinal"
_STEPS_IN_PROGRESS = (
    _STEPS + " AND +ordinal > ? AND node_id = ? AND status = 'in_progress' ORDER BY ordinal"
)
# SQLite takes the other columns from the row that has the greatest ordinal.
LAST_VISITS = (
    "SELECT " + rows.STEP_COLUMNS + ", count(*), max(ordinal) FROM steps"
    " WHERE workflow_id = ? GROUP BY node_id ORDER BY max(ordinal)"
)
_REVIEWS = "SELECT " + rows.REVIEW_COLUMNS + " FROM reviews"
REVIEW = _REVIEWS + " WHERE review_id = ?"
REVIEWS_OF_RUN = _REVIEWS + " WHERE workflow_id = ? ORDER BY opened_at, review_id"
ALL_REVIEWS = _REVIEWS + " ORDER BY opened_at, review_id"
ALL_OPEN_REVIEWS = _REVIEWS + " WHERE status IN ('open', 'decided') ORDER BY opened_at, review_id"
FIND_REVIEWS = _REVIEWS + " WHERE substr(review_id, 1, length(?)) = ? ORDER BY review_id"
EVIDENCE = (
    "SELECT " + rows.EVIDENCE_COLUMNS + " FROM evidence"
    " WHERE workflow_id = ? AND (? IS NULL OR call_id = ?) ORDER BY at, rowid"
)
WHOLE_AUDIT = "SELECT " + rows.AUDIT_COLUMNS + " FROM audit ORDER BY at, rowid"
AUDIT = WHOLE_AUDIT.replace("ORDER", "WHERE workflow_id = ? ORDER")
_CHECKPOINTS = "SELECT " + graph_rows.CHECKPOINT_COLUMNS + " FROM checkpoints"
_C_COLUMNS = "c." + ", c.".join(graph_rows.CHECKPOINT_COLUMNS.split(", "))
# A version that is turned rests on a later one, and that one on what is not turned before it.
CHAIN = (
    "SELECT " + _C_COLUMNS + " FROM checkpoints AS w"
    " LEFT JOIN checkpoints AS later ON later.workflow_id = w.workflow_id"
    " AND later.version = w.snapshot AND w.snapshot > w.version"
    " JOIN checkpoints AS c ON c.workflow_id = w.workflow_id"
    " WHERE w.workflow_id = ? AND w.version = ? AND c.version"
    " BETWEEN coalesce(later.snapshot, min(w.snapshot, w.version)) AND max(w.snapshot, w.version)"
    " AND (c.snapshot <= c.version OR c.version >= w.version) ORDER BY c.version"
)
NEWEST_CHAIN = (
    _CHECKPOINTS + " WHERE workflow_id = ? AND version >= (SELECT snapshot FROM checkpoints"
    " WHERE workflow_id = ? ORDER BY version DESC LIMIT 1)"
    " AND snapshot <= version ORDER BY version"
)
VERSIONS = (
    "SELECT workflow_id, version, snapshot, node_id, created_at, '', NULL FROM checkpoints"
    " WHERE workflow_id = ? ORDER BY version"
)
EVENTS = (
    "SELECT " + graph_rows.EVENT_COLUMNS + " FROM events"
    " WHERE workflow_id = ? AND (? IS NULL OR name = ?) ORDER BY sent_at, rowid"
)
_GRAPHS = "SELECT " + graph_rows.GRAPH_COLUMNS + " FROM graphs"
GRAPH = _GRAPHS + " WHERE graph_id = ?"
ALL_GRAPHS = _GRAPHS + " ORDER BY graph_id"
CHILDREN = (
    "SELECT " + rows.RUN_COLUMNS + " FROM runs WHERE parent_id = ? ORDER BY created_at, workflow_id"
)
_CAN_GO_ON = (
    "SELECT " + rows.RUN_COLUMNS + ", ready_at FROM runs WHERE ready_at IS NOT NULL"
    " AND graph_id NOT IN (SELECT value FROM json_each(?))"
)
_IN_TURN = " ORDER BY ready_at, workflow_id LIMIT ?"
# Only a timer is a matter of the clock: a run that was written down by a clock that has been put
# back since must not wait until then.
QUEUED_RUNS = _CAN_GO_ON + " AND epoch = 0" + _IN_TURN
_TOLD_RUNS = _CAN_GO_ON + " AND epoch > 0 AND ready_at IS NOT wake_at" + _IN_TURN
_TIMED_RUNS = _CAN_GO_ON + " AND ready_at = wake_at AND ready_at <= ?" + _IN_TURN
READY_RUNS = "".join(
    ("SELECT * FROM (", _TOLD_RUNS, ") UNION ALL SELECT * FROM (", _TIMED_RUNS, ")", _IN_TURN)
)
EXPIRED_RUNS = (
    "SELECT " + rows.RUN_COLUMNS + " FROM runs WHERE root_id IS NULL AND workflow_id > ?"
    " AND ((status IN ('completed', 'failed', 'aborted') AND updated_at < ?)"
    " OR (status = 'removed' AND wake_at <= ?)) ORDER BY workflow_id LIMIT ?"
)
HOLDERS_OF_RUNS = (
    "SELECT DISTINCT holder_id FROM runs"
    " WHERE holder_id IS NOT NULL AND graph_id IS NOT NULL ORDER BY holder_id"
)
HELD_RUNS = (
    "SELECT " + rows.RUN_COLUMNS + " FROM runs WHERE holder_id = ? AND graph_id IS NOT NULL"
    " ORDER BY claimed_at, workflow_id"
)
HOLDER = "SELECT " + rows.LOCKING_HOLDER_COLUMNS + " FROM holders WHERE holder_id = ?"
ADD_HOLDER = "INSERT INTO holders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"


def steps(workflow_id: str, after: int, in_progress_at: str | None) -> tuple[str, tuple[Any, ...]]:
    """The query for the steps of a run, and what it is asked."""
    if in_progress_at is None:
        return _STEPS_IN_ORDER, (workflow_id, after)
    return _STEPS_IN_PROGRESS, (workflow_id, after, in_progress_at)
