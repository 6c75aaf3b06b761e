"""The commits that every step of every run makes, each as one statement: one round trip.

A statement is a transaction by itself. It carries its preconditions along and gives one row if they
hold and everything was written, and none if not: then, and for all other commits, the long way
finds out why (postgres_writes.py). Promises kept here: P5, P6, P7, P9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nottwice.store import graph_rows, rows
from nottwice.store.interface import Commit
from nottwice.store.postgres_writes import (
    MAY_BLOCK,
    PICKED,
    THIS_CALL,
    Statement,
    marks,
    put_checkpoints,
    put_steps,
)

_OF_RUN = " FROM nottwice.runs WHERE workflow_id = %s AND epoch = %s AND holder_id = %s"
_HELD = " (SELECT in_doubt_from" + _OF_RUN + " FOR SHARE) AS held"
_DURABLE = " current_setting('synchronous_commit') <> 'off'"


def _insert(columns: str) -> str:
    words = (
        *("INSERT INTO nottwice.tool_call_results (", columns, ") SELECT ", marks(columns)),
        *(" FROM", _HELD, " WHERE held.in_doubt_from <= %s AND", _DURABLE),
        *(" AND NOT EXISTS (SELECT 1", MAY_BLOCK, ") ON CONFLICT DO NOTHING"),
    )
    return "".join(words)


INTENT = _insert(rows.INTENT_COLUMNS)
_INSERT = _insert(rows.CALL_COLUMNS)
_FOLLOWS = " AND t.status = %s AND t.attempt_id = %s AND" + _DURABLE
RECEIPT = (
    "UPDATE nottwice.tool_call_results AS t SET status = %s, finished_at = %s, result_json = %s,"
    " result_kind = %s, failure_json = NULL, retry_at = NULL, settled_by = NULL FROM"
    + _HELD
    + THIS_CALL
    + _FOLLOWS
)
_HOLDS = "SELECT 1" + _OF_RUN + " AND" + _DURABLE + " FOR SHARE"

# What rides along is written if, and only if, the call is.
_RIDING = (
    ", steps_put AS (",
    put_steps(given_by="written"),
    "), checkpoints_put AS (",
    put_checkpoints(given_by="written"),
    ") SELECT 1 FROM written",
)
_WITH_RIDERS = {
    sql: "".join(("WITH written AS (", sql, returning, ")", *_RIDING))
    for sql, returning in (
        (INTENT, " RETURNING 1"),
        (_INSERT, " RETURNING 1"),
        (RECEIPT, " RETURNING 1"),
        (_HOLDS, ""),
    )
}


def quick(commit: Commit) -> Statement | None:
    """One statement that writes the whole commit, or nothing; None: it takes more than one."""
    if commit.fence is None or commit.claim or commit.run or commit.reviews or commit.graph:
        return None
    if commit.evidence or commit.audit or commit.events or commit.dropped or commit.charges:
        return None
    statement = _call(commit) if commit.calls else _holds(commit)
    if statement is None or not (commit.steps or commit.checkpoints):
        return statement
    steps = [rows.step_to_sql(step) for step in commit.steps]
    checkpoints = [graph_rows.checkpoint_to_sql(each) for each in commit.checkpoints]
    if _repeats(steps, 3) or _repeats(checkpoints, 2):
        # The last one counts, and one statement would not know which that is.
        return None
    sql, parameters = statement
    riding_steps = _arrays(steps, rows.STEP_COLUMNS)
    riding_checkpoints = _arrays(checkpoints, graph_rows.CHECKPOINT_COLUMNS)
    return _WITH_RIDERS[sql], (*parameters, *riding_steps, *riding_checkpoints)


def _holds(commit: Commit) -> Statement | None:
    fence = commit.fence
    assert fence is not None
    if commit.unless_blocked or not (commit.steps or commit.checkpoints):
        return None
    return _HOLDS, (commit.workflow_id, fence.epoch, fence.holder_id)


def _call(commit: Commit) -> Statement | None:
    """The two commits of an effect in steady state."""
    if len(commit.calls) != 1:
        return None
    write, fence = commit.calls[0], commit.fence
    assert fence is not None
    run, row = commit.workflow_id, write.row
    held = (run, fence.epoch, fence.holder_id)
    if write.after is None:
        if row.key is not None or not commit.unless_blocked or row.call_id.startswith(PICKED):
            return None
        allowed = (*held, rows.micros(row.created_at), run)
        intent = rows.intent_to_sql(row)
        if intent is not None:
            return INTENT, (*intent, *allowed)
        return _INSERT, (*rows.call_to_sql(row), *allowed)
    if commit.unless_blocked or write.after != (write.row.status.PENDING, row.attempt_id):
        return None
    receipt = rows.receipt_to_sql(row)
    if receipt is None:
        return None
    changes, found = receipt[:4], receipt[4:]
    return RECEIPT, (*changes, *held, *found, write.after[0].value, write.after[1])


def _repeats(written: Sequence[Sequence[Any]], width: int) -> bool:
    """Whether two rows have the same key, which is what they begin with."""
    return len({tuple(row[:width]) for row in written}) < len(written)


def _arrays(written: Sequence[Sequence[Any]], columns: str) -> list[list[Any]]:
    """Rows as arrays, one a column."""
    return [[row[number] for row in written] for number in range(len(columns.split(", ")))]
