"""The commits that every step of every run makes, each as one statement and one round trip.

A statement is a transaction by itself. It calls a function that includes the preconditions
(postgres/functions.py) and returns one row if they hold and everything was written. If it returns
none, and for all other commits, the rules find out why (sql_plan.py). Promises kept here: P5, P6,
P7, P9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nottwice.model.run import RunRecord, RunStatus
from nottwice.store.effects import RECEIPT as RECEIPT_COLUMNS
from nottwice.store.effects import intent_row, receipt_row
from nottwice.store.interface import Commit, RunUpdate
from nottwice.store.notices import notices_of
from nottwice.store.postgres.functions import (
    CALL,
    END_RUN,
    ENDED,
    HOLDS_RUN,
    INTENT,
    RECEIPT,
    WITH_PENDING,
)
from nottwice.store.postgres.statements import as_arrays
from nottwice.store.rules import released
from nottwice.store.sql_plan import PICKED
from nottwice.store.statements import Statement
from nottwice.store.table import Row, Table
from nottwice.store.tables import (
    CALLS,
    CHECKPOINTS,
    OPENINGS,
    OUTBOX,
    STEPS,
    failure_json,
    micros,
)

_OVER = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.ABORTED)


def quick(commit: Commit) -> Statement | None:
    """One statement that writes the whole commit or nothing; None if one is not enough."""
    if commit.fence is None or commit.claim or commit.reviews or commit.graph:
        return None
    if commit.group is not None:
        return None
    if commit.evidence or commit.audit or commit.events or commit.tools:
        return None
    if commit.dropped or commit.charges:
        return None
    if commit.run is not None:
        statement = _end(commit, commit.run)
    else:
        statement = _call(commit) if commit.calls else _holds(commit)
    if statement is None or not (commit.steps or commit.checkpoints):
        return statement
    steps = [STEPS.row(step) for step in commit.steps]
    checkpoints = [CHECKPOINTS.row(each) for each in commit.checkpoints]
    if _repeats(STEPS, steps) or _repeats(CHECKPOINTS, checkpoints):
        # Two rows have the same key. The last one counts, but one statement has no order.
        return None
    sql, parameters = statement
    pending = (
        *as_arrays(steps, width=len(STEPS.names)),
        *as_arrays(checkpoints, width=len(CHECKPOINTS.names)),
    )
    return WITH_PENDING[sql], (*parameters, *pending)


def _holds(commit: Commit) -> Statement | None:
    fence = commit.fence
    assert fence is not None
    if commit.unless_blocked or not (commit.steps or commit.checkpoints):
        return None
    return HOLDS_RUN, (fence.epoch, fence.holder_id, commit.workflow_id)


def _end(commit: Commit, update: RunUpdate) -> Statement | None:
    """The usual last commit of a run of a graph: it is over, and other runs are not concerned."""
    fence = commit.fence
    assert fence is not None
    if not update.release or update.status not in _OVER or commit.calls or update.waits:
        return None
    if update.graph_id is not None:
        return None
    # The function refuses a run with a group or a parent, so only these columns matter.
    run = RunRecord(commit.workflow_id, update.status, fence.epoch, fence.holder_id, 0.0, update.at)
    ended = OPENINGS.named(OPENINGS.row(released(run, update)))
    notices = list(notices_of(commit, run))
    if len(notices) != 1:
        return None
    (notice,) = notices
    told = OUTBOX.named(OUTBOX.row(notice))
    return END_RUN, (
        *(fence.epoch, fence.holder_id, commit.workflow_id, commit.unless_blocked),
        *(update.status.value, micros(update.at), failure_json(update.failure)),
        *(ended[name] for name in ENDED),
        *(told[name] for name in ("notice_id", "kind", "created_at", "payload_json")),
    )


def _call(commit: Commit) -> Statement | None:
    """The two usual commits of an effect."""
    if len(commit.calls) != 1:
        return None
    write, fence = commit.calls[0], commit.fence
    assert fence is not None
    row, held = write.row, (fence.epoch, fence.holder_id)
    if write.after is None:
        if row.key is not None or not commit.unless_blocked or row.call_id.startswith(PICKED):
            return None
        intent = intent_row(row)
        if intent is not None:
            return INTENT, (*held, *intent)
        return CALL, (*held, *CALLS.row(row))
    if commit.unless_blocked or write.after != (row.status.PENDING, row.attempt_id):
        return None
    receipt = receipt_row(row)
    if receipt is None:
        return None
    return RECEIPT, (*held, *row.identity, row.attempt_id, *receipt[: len(RECEIPT_COLUMNS)])


def _repeats(table: Table[Any], written: Sequence[Row]) -> bool:
    """Whether two rows have the same key."""
    return len({table.where(row) for row in written}) < len(written)
