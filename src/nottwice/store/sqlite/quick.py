"""The two usual commits of an effect, each as one statement on SQLite.

A statement includes its preconditions: it changes one row if they hold, and none if not. If it
changes none, and for every other commit, the rules decide (sql_plan.py). This repeats the rules,
but it is worth that: a call takes two statements instead of twelve. Promises kept here: P5, P6,
P7, P9.
"""

from __future__ import annotations

import sqlite3

from nottwice.model.call import CallStatus
from nottwice.model.sealing.seal import Head, head_to_text
from nottwice.store.effects import INTENT, intent_row, receipt_row
from nottwice.store.interface import Commit
from nottwice.store.sealing import Numbers, Sealing
from nottwice.store.sql_plan import PICKED
from nottwice.store.sqlite.statements import SQL
from nottwice.store.statements import Statement
from nottwice.store.tables import CALLS

_INTENT = SQL["quick_intent"]
_RECEIPT = SQL["quick_receipt"]
_CALL = SQL["quick_call"]
_CHANGE = SQL["quick_change"]
_CREATED_AT = INTENT.index("created_at")
_SEALED = {_INTENT: SQL["sealed_intent"], _RECEIPT: SQL["sealed_receipt"]}


def quick(commit: Commit) -> Statement | None:
    """One statement that writes the whole commit or nothing; None if one is not enough."""
    if not commit.only_calls or len(commit.calls) != 1 or commit.group is not None:
        return None
    run, write, fence = commit.workflow_id, commit.calls[0], commit.fence
    assert fence is not None
    row, after = write.row, write.after
    if after is None:
        if row.key is not None or not commit.unless_blocked or row.call_id.startswith(PICKED):
            return None
        intent = intent_row(row)
        if intent is not None:
            held = (run, fence.epoch, fence.holder_id, intent[_CREATED_AT])
            return _INTENT, (*intent, *held, run)
    elif commit.unless_blocked:
        return None
    else:
        receipt = receipt_row(row) if after == (CallStatus.PENDING, row.attempt_id) else None
        if receipt is not None:
            return _RECEIPT, (*receipt, row.attempt_id, run, fence.epoch, fence.holder_id)
    named = CALLS.named(CALLS.row(row))
    named.update(fence_epoch=fence.epoch, fence_holder=fence.holder_id)
    if after is None:
        return _CALL, named
    seen_status, seen_attempt = after
    return _CHANGE, {**named, "seen_status": seen_status.value, "seen_attempt": seen_attempt}


def write_quickly(
    connection: sqlite3.Connection, commit: Commit, statement: Statement, sealing: Sealing
) -> bool:
    """Write a commit as one statement. With a key, also write its seal and the new head.

    False if nothing was written, so that the rules have to decide.
    """
    seals, fence = sealing.seals, commit.fence
    if seals is None:
        return connection.execute(*statement).rowcount == 1
    assert fence is not None
    sql, parameters = statement
    run, row, added = commit.workflow_id, commit.calls[0].row, sql is _INTENT
    before = sealing.known_head(run, fence.epoch)
    if before is None or sql not in _SEALED:
        return False
    known = Numbers(before.rows + 1, 0) if added else sealing.known_numbers(row.call_id)
    if known is None:
        return False
    numbers = Numbers(known.nth, known.writes + 1)
    sealed = sealing.put(CALLS, CALLS.changed(CALLS.row(row), **numbers._asdict()))
    seal = CALLS.value(sealed, "seal")
    if connection.execute(_SEALED[sql], (*numbers, seal, *parameters)).rowcount != 1:
        return False
    link = seals.link(before, (seal,))
    head = Head(before.rows + added, before.writes + 1, before.version, "", link)
    head = seals.sealed(run, head)
    connection.execute(SQL["put_head"], {"head": head_to_text(head), "workflow_id": run})
    in_doubt = row.status.in_doubt
    sealing.remember(run, fence.epoch, head, {row.call_id: numbers if in_doubt else None})
    return True
