"""How are the intents, or the receipts, of many runs written by one statement?

The server takes longer to plan such a statement than to execute it, and without prepared statements
(which not every pooler supports) it plans it each time. So all plain intents of a batch are one
statement and all plain receipts another. Every row includes the preconditions of its own commit, as
in quick.py, and the result says for each row whether it was written. Promises kept here: P5, P6,
P7, P9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nottwice.model.data.records import frozen_record
from nottwice.store import effects
from nottwice.store.interface import Commit
from nottwice.store.notices import notices_of
from nottwice.store.postgres.functions import INTENT, RECEIPT
from nottwice.store.postgres.quick import quick
from nottwice.store.postgres.statements import HERE, SQL, as_arrays, types_of
from nottwice.store.statements import Statement
from nottwice.store.tables import CALLS, GRAPHS, OUTBOX, RUNS

_WITH_SERVER = "".join(("WITH server AS (SELECT ", HERE, " AS is_here) "))
_DURABLE = " current_setting('synchronous_commit') <> 'off' AND (SELECT is_here FROM server)"
# Locked in one order, so that two processes do not wait for each other. A statement that waited for
# a claim sees the run as the claim has left it.
_HELD = (
    " JOIN (SELECT workflow_id, epoch, holder_id, in_doubt_from FROM nottwice.runs"
    " WHERE workflow_id = ANY(%s) ORDER BY workflow_id FOR SHARE) AS held"
    " ON held.workflow_id = w.workflow_id AND held.epoch = w.fence_epoch"
    " AND held.holder_id = w.fence_holder"
)
_FENCE = ("fence_epoch", "fence_holder")


def _given(names: Sequence[str]) -> str:
    """The rows of all members: an array for each column, and two for the fences."""
    arrays = [f"%s::{one}[]" for one in (*types_of(names), "bigint", "text")]
    columns = ", ".join((*names, *_FENCE))
    return "".join((" unnest(", ", ".join(arrays), ") AS w(", columns, ")"))


_INTENT_COLUMNS = ", ".join(effects.INTENT)
_INTENT_VALUES = ", ".join("w." + name for name in effects.INTENT)
_INTENTS = "".join(
    (
        *(_WITH_SERVER, "INSERT INTO nottwice.tool_call_results (", _INTENT_COLUMNS),
        ") SELECT ",
        *(_INTENT_VALUES, " FROM", _given(effects.INTENT), _HELD),
        *(" WHERE held.in_doubt_from <= w.created_at AND", _DURABLE),
        *(" AND NOT EXISTS (SELECT 1 FROM nottwice.reviews WHERE ", SQL.part("_blocked_run")),
        " = w.workflow_id) ON CONFLICT DO NOTHING RETURNING call_id, attempt_id",
    )
)
_RECEIPT_COLUMNS = (*effects.RECEIPT, *CALLS.key, "attempt_id")
_CHANGES = ", ".join(name + " = w." + name for name in effects.RECEIPT)
_RECEIPTS = "".join(
    (
        *(_WITH_SERVER, "UPDATE nottwice.tool_call_results AS t SET ", _CHANGES),
        ", failure_json = NULL, retry_at = NULL, settled_by = NULL FROM",
        _given(_RECEIPT_COLUMNS),
        *(_HELD, " WHERE t.workflow_id = w.workflow_id AND t.node_id = w.node_id"),
        " AND t.checkpoint_id = w.checkpoint_id AND t.tool_name = w.tool_name",
        " AND t.input_hash = w.input_hash AND t.status = 'PENDING'",
        *(" AND t.attempt_id = w.attempt_id AND", _DURABLE, " RETURNING t.call_id, t.attempt_id"),
    )
)


_QUEUED_RUNS = ", ".join(RUNS.names)
_TAGS = ("tag", "workflow_id")


def _rows(names: Sequence[str], alias: str) -> str:
    """Rows of a table: an array for each column."""
    arrays = ", ".join(f"%s::{one}[]" for one in types_of(names))
    return "".join((" unnest(", arrays, ") AS ", alias, "(", ", ".join(names), ")"))


# A run that is only enqueued can be started since it was written, whatever was sent to it before.
_ENQUEUE = "".join(
    (
        *(_WITH_SERVER, ", added AS (INSERT INTO nottwice.runs (", _QUEUED_RUNS, ", ready_at)"),
        *(" SELECT w.*, w.updated_at FROM", _rows(RUNS.names, "w"), " WHERE", _DURABLE),
        " ON CONFLICT DO NOTHING RETURNING workflow_id), told AS (INSERT INTO nottwice.outbox (",
        *(OUTBOX.columns, ") SELECT o.* FROM", _rows(OUTBOX.names, "o")),
        " JOIN added USING (workflow_id) ON CONFLICT DO NOTHING), tagged AS (",
        "INSERT INTO nottwice.run_tags (tag, workflow_id) SELECT t.* FROM unnest(%s::text[],",
        " %s::text[]) AS t(tag, workflow_id) JOIN added USING (workflow_id)",
        " ON CONFLICT DO NOTHING),",
        *(" drawn AS (INSERT INTO nottwice.graphs (", GRAPHS.columns, ") SELECT g.* FROM"),
        *(_rows(GRAPHS.names, "g"), " WHERE EXISTS (SELECT 1 FROM added) ON CONFLICT DO NOTHING)"),
        " SELECT workflow_id, '' FROM added",
    )
)


@frozen_record(frozen=True, slots=True)
class Fast:
    """One statement, and the members of the batch that it writes, by their numbers."""

    statement: Statement
    """Without its first parameter, which is the start time of the server that it is meant for."""
    members: tuple[int, ...]
    names: tuple[tuple[str, str], ...] | None = None
    """The call and the attempt of each member, if several members share the statement; of a run
    that is enqueued, its id."""

    def written(self, cursor: Any) -> list[tuple[int, bool]]:
        """For each member, whether it was written."""
        if self.names is None:
            return [(self.members[0], cursor.rowcount == 1)]
        found = set(cursor.fetchall())
        return [
            (member, name in found) for member, name in zip(self.members, self.names, strict=True)
        ]


def arrange(commits: Sequence[Commit]) -> tuple[list[Fast], list[int]]:
    """The statements for a batch, and the members that need more than one statement."""
    if len(commits) == 1:
        statement = quick(commits[0])
        return ([], [0]) if statement is None else ([Fast(statement, (0,))], [])
    alone: list[Fast] = []
    slow: list[int] = []
    alike: dict[str, list[int]] = {INTENT: [], RECEIPT: []}
    queued: dict[str, int] = {}
    for number, commit in enumerate(commits):
        if _only_enqueues(commit) and queued.setdefault(commit.workflow_id, number) == number:
            continue
        statement = quick(commit)
        if statement is None:
            slow.append(number)
        elif statement[0] in alike:
            alike[statement[0]].append(number)
        else:
            alone.append(Fast(statement, (number,)))
    # Sorted, so that two processes do not wait for each other.
    alone.sort(key=lambda one: commits[one.members[0]].workflow_id)
    shared = [fast for sql, numbers in alike.items() for fast in _share(commits, sql, numbers)]
    if queued:
        shared.append(_enqueue([commits[number] for number in queued.values()], queued))
    return [*shared, *alone], slow


def _only_enqueues(commit: Commit) -> bool:
    """Whether a commit enqueues a new run, and does nothing else."""
    claim = commit.claim
    return (
        claim is not None
        and claim.after_epoch is None
        and claim.run.holder_id is None
        and claim.run.epoch == 0
        and commit == Commit(commit.workflow_id, claim=claim, graph=commit.graph)
    )


def _enqueue(commits: Sequence[Commit], numbers: Mapping[str, int]) -> Fast:
    """One statement for all new runs of a batch. A run that exists is left as it is."""
    claimed = [commit.claim.run for commit in commits if commit.claim is not None]
    graphs = {one.graph.graph_id: one.graph for one in commits if one.graph is not None}
    notices = [notice for commit in commits for notice in notices_of(commit, None)]
    tags = [(text, run.workflow_id) for run in claimed for text in run.labels.texts()]
    arrays = (
        *as_arrays([RUNS.row(run) for run in claimed], width=len(RUNS.names)),
        *as_arrays([OUTBOX.row(one) for one in notices], width=len(OUTBOX.names)),
        *as_arrays(tags, width=len(_TAGS)),
        *as_arrays([GRAPHS.row(one) for one in graphs.values()], width=len(GRAPHS.names)),
    )
    names = tuple((run_id, "") for run_id in numbers)
    return Fast((_ENQUEUE, arrays), tuple(numbers.values()), names)


def _share(commits: Sequence[Commit], sql: str, numbers: Sequence[int]) -> list[Fast]:
    """One statement for members of the same kind. Two with the same call and attempt are split."""
    names: dict[tuple[str, str], int] = {}
    twins = []
    for number in numbers:
        row = commits[number].calls[0].row
        if names.setdefault((row.call_id, row.attempt_id), number) != number:
            twins.append(number)
    if len(names) < 2:
        twins, names = list(numbers), {}
    single = [Fast(statement, (n,)) for n in twins if (statement := quick(commits[n])) is not None]
    if not names:
        return single
    written = [_values(commits[number], sql) for number in names.values()]
    arrays = as_arrays(written, width=len(written[0]))
    runs = sorted({commits[number].workflow_id for number in names.values()})
    many = _INTENTS if sql == INTENT else _RECEIPTS
    return [Fast((many, (*arrays, runs)), tuple(names.values()), tuple(names)), *single]


def _values(commit: Commit, sql: str) -> tuple[Any, ...]:
    row, fence = commit.calls[0].row, commit.fence
    assert fence is not None
    if sql == INTENT:
        values = effects.intent_row(row)
    else:
        receipt = effects.receipt_row(row)
        values = None if receipt is None else (*receipt, row.attempt_id)
    assert values is not None
    return (*values, fence.epoch, fence.holder_id)
