"""What is asked of a SQLite ledger in more than a line: long runs, and runs that can go on."""

from __future__ import annotations

from nottwice.store import rows

_CALLS = "SELECT " + rows.CALL_COLUMNS + " FROM tool_call_results WHERE workflow_id = ?"
LAST_CALLS = _CALLS + " ORDER BY created_at DESC, rowid DESC LIMIT ?"
CALLS_BEFORE = (
    _CALLS + " AND (created_at, rowid) < (SELECT created_at, rowid FROM tool_call_results"
    " WHERE workflow_id = ? AND node_id = ? AND checkpoint_id = ? AND tool_name = ?"
    " AND input_hash = ?) ORDER BY created_at DESC, rowid DESC LIMIT ?"
)
COUNT_CALLS = "SELECT count(*) FROM tool_call_results WHERE workflow_id = ?"
_CAN_GO_ON = (
    "SELECT " + rows.RUN_COLUMNS + ", ready_at FROM runs WHERE ready_at IS NOT NULL"
    " AND graph_id NOT IN (SELECT value FROM json_each(?1))"
)
_IN_TURN = " ORDER BY ready_at, workflow_id LIMIT ?2"
# Only a timer is a matter of the clock: a run that was written down by a clock that has been put
# back since must not wait until then.
QUEUED_RUNS = _CAN_GO_ON + " AND epoch = 0" + _IN_TURN
_TOLD_RUNS = _CAN_GO_ON + " AND epoch > 0 AND ready_at IS NOT wake_at" + _IN_TURN
_TIMED_RUNS = _CAN_GO_ON + " AND ready_at = wake_at AND ready_at <= ?3" + _IN_TURN
READY_RUNS = "".join(
    ("SELECT * FROM (", _TOLD_RUNS, ") UNION ALL SELECT * FROM (", _TIMED_RUNS, ")", _IN_TURN)
)
