"""The questions that a ledger on PostgreSQL is asked, as SQL."""

from __future__ import annotations

from typing import Any

from nottwice.store import graph_rows, rows
from nottwice.store.postgres.writes import COUNTS, HAS_COME

_CALLS = "SELECT " + rows.CALL_COLUMNS + " FROM nottwice.tool_call_results WHERE workflow_id = %s"
CALL = _CALLS + " AND node_id = %s AND checkpoint_id = %s AND tool_name = %s AND input_hash = %s"
CALLS = _CALLS + " ORDER BY created_at, arrival LIMIT %s::bigint"
CALLS_AFTER = (
    _CALLS + " AND (created_at, arrival) > (SELECT created_at, arrival"
    " FROM nottwice.tool_call_results WHERE workflow_id = %s AND node_id = %s"
    " AND checkpoint_id = %s AND tool_name = %s AND input_hash = %s)"
    " ORDER BY created_at, arrival LIMIT %s::bigint"
)
LAST_CALLS = _CALLS + " ORDER BY created_at DESC, arrival DESC LIMIT %s"
CALLS_BEFORE = (
    _CALLS + " AND (created_at, arrival) < (SELECT created_at, arrival"
    " FROM nottwice.tool_call_results WHERE workflow_id = %s AND node_id = %s"
    " AND checkpoint_id = %s AND tool_name = %s AND input_hash = %s)"
    " ORDER BY created_at DESC, arrival DESC LIMIT %s"
)
COUNT_CALLS = "SELECT count(*) FROM nottwice.tool_call_results WHERE workflow_id = %s"
CALLS_IN_DOUBT = (
    _CALLS + " AND created_at >= (SELECT in_doubt_from FROM nottwice.runs WHERE workflow_id = %s)"
    " AND status IN ('PENDING', 'UNKNOWN') ORDER BY created_at, arrival"
)
_T_COLUMNS = "t." + ", t.".join(rows.CALL_COLUMNS.split(", "))
# The runs that are over have none, and are most of what a ledger grows by.
ALL_CALLS_IN_DOUBT = (
    "SELECT " + _T_COLUMNS + " FROM nottwice.runs AS r JOIN nottwice.tool_call_results AS t"
    " ON t.workflow_id = r.workflow_id AND t.created_at >= r.in_doubt_from"
    " WHERE r.status IN ('running', 'waiting', 'failed', 'aborted')"
    " AND t.status IN ('PENDING', 'UNKNOWN') ORDER BY t.created_at, t.arrival"
)
STANDING = """
SELECT EXISTS (
         SELECT 1 FROM nottwice.tool_call_results
          WHERE workflow_id = %s AND status IN ('PENDING', 'UNKNOWN')
            AND created_at >= (SELECT in_doubt_from FROM nottwice.runs WHERE workflow_id = %s)),
       EXISTS (
         SELECT 1 FROM nottwice.reviews
          WHERE workflow_id = %s AND status IN ('open', 'decided')),
       EXISTS (SELECT 1 FROM nottwice.events WHERE workflow_id = %s),
       EXISTS (SELECT 1 FROM nottwice.audit WHERE workflow_id = %s),
       (SELECT coalesce(max(ordinal), 0) FROM nottwice.steps WHERE workflow_id = %s)
"""
_UNDER = _CALLS + " AND node_id >= %s AND node_id < %s"
CALLS_UNDER = _UNDER + " ORDER BY created_at, arrival"
CALLS_OF_VISIT = (
    _UNDER + " AND (checkpoint_id = %s OR checkpoint_id >= %s AND checkpoint_id < %s)"
    " ORDER BY created_at, arrival"
)
KEY_USE = (
    "SELECT " + rows.CALL_COLUMNS + " FROM nottwice.tool_call_results WHERE tool_name = %s"
    " AND idempotency_key = %s ORDER BY created_at DESC, arrival DESC LIMIT 1"
)
RUN = "SELECT " + rows.RUN_COLUMNS + " FROM nottwice.runs WHERE workflow_id = %s"
CHILDREN = (
    "SELECT " + rows.RUN_COLUMNS + " FROM nottwice.runs WHERE parent_id = %s"
    " ORDER BY created_at, workflow_id"
)
_READY = "SELECT " + rows.RUN_COLUMNS + ", ready_at FROM nottwice.runs WHERE graph_id <> ALL(%s)"
_IN_TURN = " ORDER BY ready_at, workflow_id LIMIT %s"
# What is due by the clock of whoever asks, and what can go on although it was written by a clock
# that is ahead of that one.
_DUE = " AND ready_at <= %s"
_EARLY = " AND ready_at > %s AND ready_at IS DISTINCT FROM wake_at"
_BEGUN = " AND epoch > 0"
_QUEUED = " AND epoch = 0"


def _ready(which: str) -> str:
    either = ("(", _READY, _DUE, which, _IN_TURN, ") UNION ALL (", _READY, _EARLY, which, _IN_TURN)
    return "".join(("SELECT * FROM (", *either, ")) AS ready", _IN_TURN))


READY_RUNS = _ready(_BEGUN)
QUEUED_RUNS = _ready(_QUEUED)
EXPIRED_RUNS = (
    "SELECT " + rows.RUN_COLUMNS + " FROM nottwice.runs WHERE root_id IS NULL AND workflow_id > %s"
    " AND ((status IN ('completed', 'failed', 'aborted') AND updated_at < %s)"
    " OR (status = 'removed' AND wake_at <= %s)) ORDER BY workflow_id LIMIT %s"
)
HOLDERS_OF_RUNS = """
SELECT DISTINCT holder_id FROM nottwice.runs
 WHERE holder_id IS NOT NULL AND graph_id IS NOT NULL ORDER BY holder_id
"""
RUNS_HELD = (
    "SELECT " + rows.RUN_COLUMNS + " FROM nottwice.runs WHERE holder_id = %s"
    " AND graph_id IS NOT NULL ORDER BY claimed_at, workflow_id"
)
_STEPS = "SELECT " + rows.STEP_COLUMNS + " FROM nottwice.steps WHERE workflow_id = %s"
STEP = _STEPS + " AND node_id = %s AND checkpoint_id = %s"
_STEPS_IN_ORDER = _STEPS + " AND ordinal > %s ORDER BY ordinal"
_STEPS_IN_PROGRESS = (
    _STEPS + " AND ordinal > %s AND node_id = %s AND status = 'in_progress' ORDER BY ordinal"
)
LAST_VISITS = (
    "SELECT * FROM (SELECT DISTINCT ON (node_id) " + rows.STEP_COLUMNS + ","
    " count(*) OVER (PARTITION BY node_id) FROM nottwice.steps WHERE workflow_id = %s"
    " ORDER BY node_id, ordinal DESC) AS last ORDER BY ordinal"
)
_REVIEWS = "SELECT " + rows.REVIEW_COLUMNS + " FROM nottwice.reviews"
_OPEN = " status IN ('open', 'decided')"
_REVIEW_ORDER = " ORDER BY opened_at, review_id"
REVIEW = _REVIEWS + " WHERE review_id = %s"
REVIEWS = _REVIEWS + " WHERE workflow_id = %s" + _REVIEW_ORDER
ALL_REVIEWS = _REVIEWS + _REVIEW_ORDER
OPEN_REVIEWS = _REVIEWS + " WHERE workflow_id = %s AND" + _OPEN + _REVIEW_ORDER
ALL_OPEN_REVIEWS = _REVIEWS + " WHERE" + _OPEN + _REVIEW_ORDER
FIND_REVIEWS = _REVIEWS + " WHERE starts_with(review_id, %s) ORDER BY review_id"
_EVIDENCE = "SELECT " + rows.EVIDENCE_COLUMNS + " FROM nottwice.evidence WHERE workflow_id = %s"
EVIDENCE = _EVIDENCE + " ORDER BY at, arrival"
EVIDENCE_OF_CALL = _EVIDENCE + " AND call_id = %s ORDER BY at, arrival"
_AUDIT = "SELECT " + rows.AUDIT_COLUMNS + " FROM nottwice.audit"
AUDIT = _AUDIT + " WHERE workflow_id = %s ORDER BY at, arrival"
WHOLE_AUDIT = _AUDIT + " ORDER BY at, arrival"
CHARGED = (
    "SELECT coalesce(sum(amount), 0)::bigint FROM nottwice.charges AS c"
    " WHERE meter = %s AND at > %s AND call_id <> %s AND" + COUNTS
)
_C_COLUMNS = "c." + ", c.".join(graph_rows.CHECKPOINT_COLUMNS.split(", "))
# A version that is turned rests on a later one, and that one on what is not turned before it.
CHAIN = (
    "SELECT " + _C_COLUMNS + " FROM nottwice.checkpoints AS w"
    " LEFT JOIN nottwice.checkpoints AS later ON later.workflow_id = w.workflow_id"
    " AND later.version = w.snapshot AND w.snapshot > w.version"
    " JOIN nottwice.checkpoints AS c ON c.workflow_id = w.workflow_id"
    " WHERE w.workflow_id = %s AND w.version = coalesce(%s::bigint,"
    " (SELECT max(version) FROM nottwice.checkpoints WHERE workflow_id = %s))"
    " AND c.workflow_id = %s AND c.version BETWEEN"
    " coalesce(later.snapshot, least(w.snapshot, w.version)) AND greatest(w.snapshot, w.version)"
    " AND (c.snapshot <= c.version OR c.version >= w.version) ORDER BY c.version"
)
VERSIONS = (
    "SELECT workflow_id, version, snapshot, node_id, created_at, '', NULL FROM nottwice.checkpoints"
    " WHERE workflow_id = %s ORDER BY version"
)
_EVENTS = "SELECT " + graph_rows.EVENT_COLUMNS + " FROM nottwice.events WHERE workflow_id = %s"
EVENTS = _EVENTS + " ORDER BY sent_at, arrival"
EVENTS_NAMED = _EVENTS + " AND name = %s ORDER BY sent_at, arrival"
_GRAPHS = "SELECT " + graph_rows.GRAPH_COLUMNS + " FROM nottwice.graphs"
GRAPH = _GRAPHS + " WHERE graph_id = %s"
GRAPHS = _GRAPHS + " ORDER BY graph_id"
HOLDER = (
    "SELECT " + rows.HOLDER_COLUMNS + ", lease_until > clock_timestamp() FROM nottwice.holders"
    " WHERE holder_id = %s"
)


# What a list of runs is put together from. Every part is a constant.
_WITH_PREFIX = " AND starts_with(workflow_id, %s)"
_OF_GRAPH = " AND (graph_id = %s OR rtrim(graph_id, '0123456789.') = %s || '@')"
_OF_STATUS = " AND status = %s"
_ONLY_QUEUED = " AND epoch = 0"
_NOT_QUEUED = " AND epoch > 0"
_BEFORE = " AND (updated_at, workflow_id) < (%s, %s)"
_RUNS = "SELECT " + rows.RUN_COLUMNS + " FROM nottwice.runs WHERE TRUE"
_END_OF_PAGE = " ORDER BY updated_at DESC, workflow_id DESC LIMIT %s::bigint"
_COUNT_OTHERS = (
    "SELECT status, NULL, count(*), count(*) FILTER (WHERE epoch = 0) FROM nottwice.runs"
    " WHERE status <> 'running'"
)
_COUNT_RUNNING = (
    " GROUP BY status UNION ALL SELECT status, holder_id, count(*),"
    " count(*) FILTER (WHERE epoch = 0) FROM nottwice.runs WHERE status = 'running'"
)
_BY_HOLDER = " GROUP BY status, holder_id"
# How runs stand, by version. Most are over: those of graphs are counted in an index alone, and of
# the others the input, which says their version, is read when they are grouped.
_OVER = "status IN ('completed', 'aborted', 'removed')"
_GROUPS_OVER_OF_GRAPHS = (
    "SELECT graph_id, NULL, status, false, '', false, count(*), 0::bigint FROM nottwice.runs"
    " WHERE graph_id IS NOT NULL AND " + _OVER
)
_GROUPS_OVER_PLAIN = (
    " GROUP BY graph_id, status UNION ALL SELECT NULL, input_json, status, false, '', false,"
    " count(*), 0::bigint FROM nottwice.runs WHERE graph_id IS NULL AND " + _OVER
)
_PLAIN_INPUT = "CASE WHEN graph_id IS NULL THEN input_json END"
_ALSO = " GROUP BY input_json, status UNION ALL "
_GROUPS_OPEN = (
    "SELECT graph_id, " + _PLAIN_INPUT + ", status,"
    " epoch = 0, '', false, count(*), min(created_at) FROM nottwice.runs"
    " WHERE status IN ('running', 'failed')"
)
_IS_TOLD = "(coalesce(wake_at <= %s, false) OR " + HAS_COME + ")"
_KINDS = """(
  SELECT string_agg(DISTINCT CASE WHEN EXISTS (
      SELECT 1 FROM nottwice.reviews WHERE wait ->> 'kind' = 'review'
         AND review_id = wait ->> 'subject' AND reviews.status = 'decided')
    THEN 'decided' ELSE wait ->> 'kind' END, ',')
    FROM json_array_elements(waits_json::json) AS wait)"""
_GROUPS_WAITING = (
    " GROUP BY 1, 2, 3, 4 UNION ALL SELECT graph_id, plain_input, 'waiting', false, kinds, told,"
    " count(*), min(created_at) FROM (SELECT graph_id, created_at, " + _PLAIN_INPUT + " AS"
    " plain_input, " + _KINDS + " AS kinds, " + _IS_TOLD + " AS told FROM nottwice.runs AS r"
    " WHERE status = 'waiting'"
)
_END_OF_GROUPS = ") AS waiting GROUP BY graph_id, plain_input, kinds, told"
_TOLD = (
    "SELECT "
    + rows.RUN_COLUMNS
    + " FROM nottwice.runs AS r WHERE status = 'waiting' AND "
    + _IS_TOLD
)
COUNT_OPEN_REVIEWS = (
    "SELECT status, count(*) FROM nottwice.reviews WHERE" + _OPEN + " GROUP BY status"
)
OLDEST_REVIEWS = _REVIEWS + " WHERE status = 'open'" + _REVIEW_ORDER + " LIMIT %s"


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
    return "".join((_RUNS, *parts, _END_OF_PAGE)), (*asked, limit)


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
    return "".join((_TOLD, *parts, _END_OF_PAGE)), (now, *asked, limit)


def _chosen(prefix: str, graph: str | None) -> tuple[list[str], list[Any]]:
    parts: list[str] = []
    asked: list[Any] = []
    if prefix:
        parts.append(_WITH_PREFIX)
        asked += [prefix]
    if graph is not None:
        parts.append(_OF_GRAPH)
        asked += [graph, graph]
    return parts, asked


def steps(workflow_id: str, after: int, in_progress_at: str | None) -> tuple[str, tuple[Any, ...]]:
    """The query for the steps of a run, and what it is asked."""
    if in_progress_at is None:
        return _STEPS_IN_ORDER, (workflow_id, after)
    return _STEPS_IN_PROGRESS, (workflow_id, after, in_progress_at)
