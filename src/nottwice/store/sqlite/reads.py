"""The questions that a ledger on SQLite is asked, as SQL."""

from __future__ import annotations

from typing import Any

from nottwice.store import graph_rows, rows
from nottwice.store.sqlite.writes import HAS_COME

_CALLS = "SELECT " + rows.CALL_COLUMNS + " FROM tool_call_results WHERE workflow_id = ?"
CALL = _CALLS + " AND node_id = ? AND checkpoint_id = ? AND tool_name = ? AND input_hash = ?"
CALLS_IN_ORDER = _CALLS + " ORDER BY created_at, rowid LIMIT ?"
CALLS_AFTER = (
    _CALLS + " AND (created_at, rowid) > (SELECT created_at, rowid FROM tool_call_results"
    " WHERE workflow_id = ? AND node_id = ? AND checkpoint_id = ? AND tool_name = ?"
    " AND input_hash = ?) ORDER BY created_at, rowid LIMIT ?"
)
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
_T_COLUMNS = "t." + ", t.".join(rows.CALL_COLUMNS.split(", "))
# The runs that are over have none, and are most of what a ledger grows by. CROSS: in this order.
ALL_CALLS_IN_DOUBT = (
    "SELECT " + _T_COLUMNS + " FROM runs AS r CROSS JOIN tool_call_results AS t"
    " ON t.workflow_id = r.workflow_id AND t.created_at >= r.in_doubt_from"
    " WHERE r.status IN ('running', 'waiting', 'failed', 'aborted')"
    " AND t.status IN ('PENDING', 'UNKNOWN') ORDER BY t.created_at, t.rowid"
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


# What a list of runs is put together from. Every part is a constant.
_WITH_PREFIX = " AND substr(workflow_id, 1, length(?)) = ?"
_OF_GRAPH = " AND (graph_id = ? OR rtrim(graph_id, '0123456789.') = ? || '@')"
_OF_STATUS = " AND status = ?"
_ONLY_QUEUED = " AND epoch = 0"
_NOT_QUEUED = " AND epoch > 0"
_BEFORE = " AND (updated_at, workflow_id) < (?, ?)"
_LAST_CHANGED_FIRST = " ORDER BY updated_at DESC, workflow_id DESC"
# The page is found in an index alone, and only what is on it is read (P171).
_RUNS = (
    "SELECT " + rows.RUN_COLUMNS + " FROM runs WHERE workflow_id IN"
    " (SELECT workflow_id FROM runs WHERE TRUE"
)
_END_OF_PAGE = _LAST_CHANGED_FIRST + " LIMIT ?)" + _LAST_CHANGED_FIRST
# Each of the two is grouped in the order of an index, and needs no room for that.
_COUNT_OTHERS = "SELECT status, NULL, count(*), sum(epoch = 0) FROM runs WHERE status <> 'running'"
_COUNT_RUNNING = (
    " GROUP BY status UNION ALL SELECT status, holder_id, count(*), sum(epoch = 0) FROM runs"
    " WHERE status = 'running'"
)
_BY_HOLDER = " GROUP BY holder_id"
# How runs stand, by version. Most are over: those of graphs are counted in an index alone, and of
# the others the input, which says their version, is read when they are grouped.
_OVER = "status IN ('completed', 'aborted', 'removed')"
_GROUPS_OVER = "SELECT graph_id, NULL, status, 0, '', 0, count(*), 0 FROM runs WHERE " + _OVER
_GROUPS_OVER_OF_GRAPHS = _GROUPS_OVER + " AND graph_id IS NOT NULL"
_GROUPS_OVER_PLAIN = (
    " GROUP BY graph_id, status UNION ALL SELECT NULL, input_json, status, 0, '', 0, count(*), 0"
    " FROM runs WHERE graph_id IS NULL AND " + _OVER
)
_PLAIN_INPUT = "CASE WHEN graph_id IS NULL THEN input_json END"
_ALSO = " GROUP BY input_json, status UNION ALL "
_GROUPS_OPEN = (
    "SELECT graph_id, " + _PLAIN_INPUT + ", status,"
    " epoch = 0, '', 0, count(*), min(created_at) FROM runs WHERE status IN ('running', 'failed')"
)
_IS_TOLD = "(coalesce(wake_at <= ?, 0) OR " + HAS_COME + ")"
_KINDS = """(
  SELECT group_concat(kind) FROM (
    SELECT DISTINCT CASE WHEN EXISTS (
        SELECT 1 FROM reviews WHERE json_extract(value, '$.kind') = 'review'
           AND review_id = json_extract(value, '$.subject') AND reviews.status = 'decided')
      THEN 'decided' ELSE json_extract(value, '$.kind') END AS kind FROM json_each(waits_json)))"""
_GROUPS_WAITING = (
    " GROUP BY 1, 2, 3, 4 UNION ALL SELECT graph_id, plain_input, 'waiting', 0, kinds, told,"
    " count(*), min(created_at) FROM (SELECT graph_id, created_at, " + _PLAIN_INPUT + " AS"
    " plain_input, " + _KINDS + " AS kinds, " + _IS_TOLD + " AS told FROM runs"
    " WHERE status = 'waiting'"
)
_END_OF_GROUPS = ") GROUP BY graph_id, plain_input, kinds, told"
_TOLD = "SELECT " + rows.RUN_COLUMNS + " FROM runs WHERE status = 'waiting' AND " + _IS_TOLD
COUNT_OPEN_REVIEWS = (
    "SELECT status, count(*) FROM reviews WHERE status IN ('open', 'decided') GROUP BY status"
)
OLDEST_REVIEWS = _REVIEWS + " WHERE status = 'open' ORDER BY opened_at, review_id LIMIT ?"


def runs(
    *,
    limit: int | None,
    prefix: str,
    graph: str | None,
    status: str | None,
    queued: bool | None,
    before: tuple[int, str] | None,
) -> tuple[str, tuple[Any, ...]]:
    """The query for a page of a list of runs, and what it is asked (P171)."""
    parts, asked = _chosen(prefix, graph)
    if status is not None:
        parts.append(_OF_STATUS)
        asked.append(status)
    if queued is not None:
        parts.append(_ONLY_QUEUED if queued else _NOT_QUEUED)
    if before is not None:
        parts.append(_BEFORE)
        asked.extend(before)
    return "".join((_RUNS, *parts, _END_OF_PAGE)), (*asked, -1 if limit is None else limit)


def count_runs(*, prefix: str, graph: str | None) -> tuple[str, tuple[Any, ...]]:
    """The query for how many runs there are, and what it is asked."""
    parts, asked = _chosen(prefix, graph)
    whole = (_COUNT_OTHERS, *parts, _COUNT_RUNNING, *parts, _BY_HOLDER)
    return "".join(whole), (*asked, *asked)


def count_groups(
    now: int, *, prefix: str, graph: str | None, over: bool
) -> tuple[str, tuple[Any, ...]]:
    """The query for how runs stand, by version, and what it is asked."""
    parts, asked = _chosen(prefix, graph)
    ended = (_GROUPS_OVER_OF_GRAPHS, *parts, _GROUPS_OVER_PLAIN, *parts, _ALSO) if over else ()
    others = (_GROUPS_OPEN, *parts, _GROUPS_WAITING, *parts, _END_OF_GROUPS)
    before = (*asked, *asked) if over else ()
    return "".join((*ended, *others)), (*before, *asked, now, *asked)


def told_runs(
    now: int, *, prefix: str, graph: str | None, limit: int
) -> tuple[str, tuple[Any, ...]]:
    """The query for the runs that wait and for which something has come, and what it is asked."""
    parts, asked = _chosen(prefix, graph)
    return "".join((_TOLD, *parts, _LAST_CHANGED_FIRST, " LIMIT ?")), (now, *asked, limit)


def _chosen(prefix: str, graph: str | None) -> tuple[list[str], list[Any]]:
    parts: list[str] = []
    asked: list[Any] = []
    if prefix:
        parts.append(_WITH_PREFIX)
        asked += [prefix, prefix]
    if graph is not None:
        parts.append(_OF_GRAPH)
        asked += [graph, graph]
    return parts, asked


def steps(workflow_id: str, after: int, in_progress_at: str | None) -> tuple[str, tuple[Any, ...]]:
    """The query for the steps of a run, and what it is asked."""
    if in_progress_at is None:
        return _STEPS_IN_ORDER, (workflow_id, after)
    return _STEPS_IN_PROGRESS, (workflow_id, after, in_progress_at)
