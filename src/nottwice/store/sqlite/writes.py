"""What one commit writes on SQLite: every precondition is read before the first write.

A member of a shared batch whose preconditions fail has written nothing, so the others go on;
savepoints are not needed, and on a full disk they would be wrong (a failed savepoint rolls the
whole batch back, and what follows commits on its own). What identifies a call, its key, class
and arguments are never updated: the UPDATE does not name them (promise P9).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from nottwice.errors import Fenced, KeyConflict
from nottwice.model.call import CallRow
from nottwice.model.run import RunStatus
from nottwice.model.seal import Head, head_to_text
from nottwice.store import graph_rows, rows
from nottwice.store.interface import (
    Blocked,
    CallWrite,
    ChargeWrite,
    Claim,
    Commit,
    EventWrite,
    Outdated,
    Removal,
    ReviewWrite,
    RunUpdate,
    both_pure,
    check_not_removed,
    key_conflict_text,
    may_be_removed,
    may_take,
)
from nottwice.store.sealing import (
    AUDIT,
    CALLS,
    CHARGES,
    CHECKPOINTS,
    EVENTS,
    EVIDENCE,
    GRAPHS,
    REVIEWS,
    RUNS,
    STEPS,
    Numbers,
    Sealing,
    Tally,
    said_of_call,
)

Statement = tuple[str, tuple[Any, ...]]
_NOT_OVER = (RunStatus.RUNNING, RunStatus.WAITING)


def _insert(table: str, columns: str, *, otherwise: str = "") -> str:
    marks = ", ".join("?" * len(columns.split(",")))
    return " ".join(("INSERT", otherwise, "INTO", table, "(", columns, ") VALUES (", marks, ")"))


INSERT_CALL = _insert("tool_call_results", rows.CALL_COLUMNS)
_THIS_CALL = (
    " WHERE workflow_id = ? AND node_id = ? AND checkpoint_id = ? AND tool_name = ?"
    " AND input_hash = ?"
)
_CHANGED = rows.CHANGING_COLUMNS.replace(",", " = ?,")
_CHANGES = "UPDATE tool_call_results SET " + _CHANGED + " = ?"
UPDATE_CALL = _CHANGES + ", writes = ?, seal = ?" + _THIS_CALL
CALL = "SELECT " + rows.CALL_COLUMNS + " FROM tool_call_results" + _THIS_CALL
KEY_CONFLICT = """
SELECT workflow_id, input_hash FROM tool_call_results
 WHERE tool_name = ? AND idempotency_key = ? AND input_hash <> ? LIMIT 1
"""
RUN = "SELECT " + rows.RUN_COLUMNS + " FROM runs WHERE workflow_id = ?"
RUN_FENCE = (
    "SELECT head, epoch, holder_id, in_doubt_from, parent_id FROM runs WHERE workflow_id = ?"
)
PUT_HEAD = "UPDATE runs SET head = ? WHERE workflow_id = ?"
NEWEST_BUT = """
SELECT coalesce(max(version), -1) FROM checkpoints
 WHERE workflow_id = ? AND version NOT IN (SELECT value FROM json_each(?))
"""
OPEN_REVIEWS = (
    "SELECT " + rows.REVIEW_COLUMNS + " FROM reviews"
    " WHERE workflow_id = ? AND status IN ('open', 'decided') ORDER BY opened_at, review_id"
)
REVIEW = "SELECT " + rows.REVIEW_COLUMNS + " FROM reviews WHERE review_id = ?"
ADD_RUN = _insert("runs", rows.RUN_COLUMNS)
# Not OR REPLACE, which would forget the columns that a record of a run does not show. A run that
# is held, or over, is not ready (see READY_SINCE); nobody need find that out.
_EVERYTHING = rows.RUN_COLUMNS.replace(",", " = ?,")
CHANGE_RUN = "UPDATE runs SET " + _EVERYTHING + " = ?, ready_at = NULL WHERE workflow_id = ?"
_UPDATE_RUN = (
    "UPDATE runs SET status = ?, updated_at = ?, failure_json = ?, waits_json = ?, wake_at = ?"
)
UPDATE_RUN = _UPDATE_RUN + " WHERE workflow_id = ?"
RELEASE_RUN = _UPDATE_RUN + ", holder_id = NULL, ready_at = NULL WHERE workflow_id = ?"
BIND_RUN = "UPDATE runs SET graph_id = ?, seal = ? WHERE workflow_id = ?"
# Since when a run can go on that nobody holds: the same as ``rules.ready_since``, except that it
# equals wake_at only if nothing but time has to pass.
HAS_COME = """EXISTS (
      SELECT 1 FROM json_each(waits_json) AS wait
       WHERE CASE json_extract(wait.value, '$.kind')
        WHEN 'review' THEN NOT EXISTS (
          SELECT 1 FROM reviews
           WHERE review_id = json_extract(wait.value, '$.subject') AND reviews.status = 'open')
        WHEN 'event' THEN EXISTS (
          SELECT 1 FROM events
           WHERE events.workflow_id = runs.workflow_id
             AND name = json_extract(wait.value, '$.subject') AND received_by IS NULL)
        WHEN 'child' THEN NOT EXISTS (
          SELECT 1 FROM runs AS child
           WHERE child.workflow_id = json_extract(wait.value, '$.subject')
             AND child.status IN ('running', 'waiting'))
        ELSE 0 END)"""
_READY_SINCE = (
    """
UPDATE runs SET ready_at = CASE
    WHEN graph_id IS NULL OR origin IS NOT NULL OR holder_id IS NOT NULL THEN NULL
    WHEN status = 'running' THEN updated_at
    WHEN status <> 'waiting' THEN NULL
    WHEN """
    + HAS_COME
    + """
    THEN CASE WHEN wake_at = updated_at THEN updated_at - 1 ELSE updated_at END
    ELSE wake_at END
"""
)
READY_SINCE = _READY_SINCE + " WHERE workflow_id = ?"
# A commit that another one overtook may still carry the mark of before: what is done stays done.
PUT_STEP = (
    _insert("steps", rows.STEP_COLUMNS)
    + " ON CONFLICT DO UPDATE SET status = excluded.status, finished_at = excluded.finished_at,"
    " failure_json = excluded.failure_json, output_file = excluded.output_file,"
    " seal = excluded.seal WHERE steps.status <> 'done'"
)
PUT_REVIEW = _insert("reviews", rows.REVIEW_COLUMNS, otherwise="OR REPLACE")
# Not OR IGNORE, which would drop in silence what a constraint refuses.
ADD_EVIDENCE = _insert("evidence", rows.EVIDENCE_COLUMNS) + " ON CONFLICT DO NOTHING"
ADD_AUDIT = _insert("audit", rows.AUDIT_COLUMNS) + " ON CONFLICT DO NOTHING"
PUT_CHECKPOINT = _insert("checkpoints", graph_rows.CHECKPOINT_COLUMNS, otherwise="OR REPLACE")
DROP_CHECKPOINT = "DELETE FROM checkpoints WHERE workflow_id = ? AND version = ?"
ADD_EVENT = _insert("events", graph_rows.EVENT_COLUMNS) + " ON CONFLICT DO NOTHING"
# Not OR REPLACE, which would make it the last to have arrived.
TAKE_EVENT = """
UPDATE events SET received_by = ?, received_at = ?, seal = ? WHERE workflow_id = ? AND event_id = ?
"""
EVENT = "SELECT " + graph_rows.EVENT_COLUMNS + " FROM events WHERE workflow_id = ? AND event_id = ?"
ADD_GRAPH = _insert("graphs", graph_rows.GRAPH_COLUMNS) + " ON CONFLICT DO NOTHING"

REMOVE_CALL = "DELETE FROM tool_call_results" + _THIS_CALL
REMOVE_STEP = "DELETE FROM steps WHERE workflow_id = ? AND node_id = ? AND checkpoint_id = ?"
REMOVE_REST = (
    "DELETE FROM steps WHERE workflow_id = ?",
    "DELETE FROM checkpoints WHERE workflow_id = ?",
    "DELETE FROM events WHERE workflow_id = ?",
    "DELETE FROM reviews WHERE workflow_id = ?",
    "DELETE FROM evidence WHERE workflow_id = ?",
)
PUT_CHARGE = _insert("charges", rows.CHARGE_COLUMNS, otherwise="OR REPLACE")
# The same as ``rules.charged``.
CHARGED = """
SELECT coalesce(sum(amount), 0) FROM charges AS c
 WHERE meter = ? AND at > ? AND call_id <> ?
   AND (if_failed OR NOT EXISTS (
     SELECT 1 FROM tool_call_results AS t
      WHERE t.workflow_id = c.workflow_id AND t.node_id = c.node_id
        AND t.checkpoint_id = c.checkpoint_id AND t.tool_name = c.tool_name
        AND t.input_hash = c.input_hash AND t.status = 'FAILED' AND t.retry_at IS NULL))
"""
_EVER = -(1 << 62)

DOUBT_AGAIN = "UPDATE runs SET in_doubt_from = ? WHERE workflow_id = ?"
DOUBT_BEGINS = """
UPDATE runs SET in_doubt_from = coalesce(
    (SELECT min(created_at) FROM tool_call_results
      WHERE workflow_id = runs.workflow_id AND created_at >= runs.in_doubt_from
        AND status IN ('PENDING', 'UNKNOWN')),
    (SELECT max(created_at) FROM tool_call_results WHERE workflow_id = runs.workflow_id),
    in_doubt_from)
 WHERE workflow_id = ?
"""
# One call in 256, picked by its id, which is a hash: no run has to count, in whatever process.
_PICKED = "00"

_HELD = "EXISTS (SELECT 1 FROM runs WHERE workflow_id = ? AND epoch = ? AND holder_id = ?)"
_HELD_AND_LOOKED_AT = _HELD.removesuffix(")") + " AND in_doubt_from <= "
# Questions and approvals hold back only who asked, so that a thousand branches can ask at once; but
# one of them may be decided with an abort. The same words as in the index reviews_blocking.
_MAY_BLOCK = (
    " FROM reviews INDEXED BY reviews_blocking"
    " WHERE workflow_id = ? AND status IN ('open', 'decided')"
    " AND (kind NOT IN ('question', 'approval') OR instr(decision_json, '\"abort\"') > 0)"
)
_NOT_BLOCKED = "NOT EXISTS (SELECT 1" + _MAY_BLOCK + ")"
MAY_BLOCK = "SELECT " + rows.REVIEW_COLUMNS + _MAY_BLOCK + " ORDER BY opened_at, review_id"


def _quick_insert(columns: str) -> str:
    insert = _insert("tool_call_results", columns).replace("VALUES (", "SELECT").removesuffix(")")
    conditions = _HELD_AND_LOOKED_AT + "?) AND " + _NOT_BLOCKED
    return insert + " WHERE " + conditions + " ON CONFLICT DO NOTHING"


_QUICK_INTENT = _quick_insert(rows.INTENT_COLUMNS)
_CREATED_AT = rows.INTENT_COLUMNS.split(", ").index("created_at")
_QUICK_INSERT = _quick_insert(rows.CALL_COLUMNS)
_FOLLOWS = " AND status = ? AND attempt_id = ? AND "
_QUICK_RECEIPT = (
    "UPDATE tool_call_results SET status = ?, finished_at = ?, result_json = ?, result_kind = ?,"
    " failure_json = NULL, retry_at = NULL, settled_by = NULL" + _THIS_CALL + _FOLLOWS + _HELD
)
# The same with a seal; the head of the run is written after it, in the same transaction.
_SEALED = {
    _QUICK_INTENT: (_quick_insert(rows.INTENT_COLUMNS + ", nth, writes, seal"), 14),
    _QUICK_RECEIPT: (_QUICK_RECEIPT.replace(" SET ", " SET writes = ?, seal = ?, ", 1), 0),
}
_QUICK_UPDATE = (
    _CHANGES + _THIS_CALL + _FOLLOWS + _HELD_AND_LOOKED_AT + "tool_call_results.created_at)"
)


def quick(commit: Commit) -> Statement | None:
    """The two commits of an effect in steady state, each as one statement.

    It carries its preconditions along: it changes one row if they hold, and none if not. Then, or
    for any other commit, ``plan`` finds out what to do. It names only the columns that matter:
    to hand Python's None over to SQLite takes longer than a number or a text.
    """
    if not commit.only_calls or len(commit.calls) != 1:
        return None
    write, fence = commit.calls[0], commit.fence
    assert fence is not None
    run, row = commit.workflow_id, write.row
    held = (run, fence.epoch, fence.holder_id)
    if write.after is None:
        if row.key is not None or not commit.unless_blocked or row.call_id.startswith(_PICKED):
            return None
        intent = rows.intent_to_sql(row)
        if intent is not None:
            return _QUICK_INTENT, (*intent, *held, intent[_CREATED_AT], run)
        allowed = (*held, rows.micros(row.created_at), run)
        return _QUICK_INSERT, (*rows.call_to_sql(row), *allowed)
    if commit.unless_blocked:
        return None
    seen = (write.after[0]._value_, write.after[1])
    receipt = rows.receipt_to_sql(row) if seen == ("PENDING", row.attempt_id) else None
    if receipt is not None:
        return _QUICK_RECEIPT, (*receipt, *seen, *held)
    return _QUICK_UPDATE, (*rows.call_changes_to_sql(row), *seen, *held)


def write_quickly(
    connection: sqlite3.Connection, commit: Commit, statement: Statement, sealing: Sealing
) -> bool:
    """Write a commit as one statement, with a seal and the head that follows from it, if there is
    a key. False: nothing was written, and ``plan`` has to read first."""
    seals, fence = sealing.seals, commit.fence
    if seals is None:
        return connection.execute(*statement).rowcount == 1
    assert fence is not None
    sql, parameters = statement
    run, row, added = commit.workflow_id, commit.calls[0].row, sql is _QUICK_INTENT
    before = sealing.known_head(run, fence.epoch)
    if before is None or sql not in _SEALED:
        return False
    known = Numbers(before.rows + 1, 0) if added else sealing.known_numbers(row.call_id)
    if known is None:
        return False
    numbers = Numbers(known.nth, known.writes + 1)
    seal = seals.seal(CALLS, said_of_call(rows.call_to_sql(row), numbers))
    sql, place = _SEALED[sql]
    more = (*(numbers if added else numbers[1:]), seal)
    parameters = (*parameters[:place], *more, *parameters[place:])
    if connection.execute(sql, parameters).rowcount != 1:
        return False
    link = seals.link(before, (seal,))
    head = Head(before.rows + added, before.writes + 1, before.version, "", link)
    head = seals.sealed(run, head)
    connection.execute(PUT_HEAD, (head_to_text(head), run))
    in_doubt = row.status.in_doubt
    sealing.remember(run, fence.epoch, head, {row.call_id: numbers if in_doubt else None})
    return True


def plan(connection: sqlite3.Connection, commit: Commit, sealing: Sealing) -> list[Statement]:
    """Check every precondition and return what to write. Writes nothing itself."""
    run = connection.execute(RUN_FENCE, (commit.workflow_id,)).fetchone()
    in_doubt_from = _check_fence(run, commit)
    if commit.unless_blocked:
        _check_not_blocked(connection, commit)
    put = sealing.put
    tally = _tally(run, commit, sealing)
    statements: list[Statement] = []
    if commit.claim is not None:
        statements.extend(_claim(connection, commit.claim, sealing))
    if commit.removal is not None:
        statements.extend(_removal(connection, commit.removal, sealing, tally))
    for write in commit.calls:
        statements.append(_call(connection, write, tally))
    statements.extend(_doubt(commit, in_doubt_from))
    for review_write in commit.reviews:
        statements.append(_review(connection, review_write, sealing))
    for step in commit.steps:
        statements.append((PUT_STEP, put(STEPS, rows.step_to_sql(step))))
    for item in commit.evidence:
        statements.append((ADD_EVIDENCE, put(EVIDENCE, rows.evidence_to_sql(item))))
    for entry in commit.audit:
        statements.append((ADD_AUDIT, put(AUDIT, rows.audit_to_sql(entry))))
    statements.extend(_of_graphs(connection, commit, sealing))
    for charge_write in commit.charges:
        statements.append(_charge(connection, charge_write, sealing))
    if commit.run is not None:
        statements.extend(_run(connection, commit.workflow_id, commit.run, sealing))
    statements.extend(_readiness(commit, parent_id=None if run is None else run[4]))
    head = tally.head(newest=_newest(connection, commit))
    if head is not None:
        statements.append((PUT_HEAD, (head, commit.workflow_id)))
    return statements


def _tally(run: rows.Row | None, commit: Commit, sealing: Sealing) -> Tally:
    """The head that this commit builds upon. Who has no key cannot build upon one."""
    head = None if run is None else run[0]
    sealing.check_may_write(commit.workflow_id, head)
    if run is None and sealing.seals is not None:
        head = head_to_text(sealing.seals.sealed(commit.workflow_id, Head()))
    return Tally(sealing, commit, head)


def _newest(connection: sqlite3.Connection, commit: Commit) -> int | None:
    """The newest checkpoint that is left, if this commit takes some away."""
    if commit.removal is not None and commit.removal.rest:
        return -1
    if not commit.dropped:
        return None
    dropped = json.dumps(commit.dropped)
    left: int = connection.execute(NEWEST_BUT, (commit.workflow_id, dropped)).fetchone()[0]
    return left


def _of_graphs(
    connection: sqlite3.Connection, commit: Commit, sealing: Sealing
) -> Iterator[Statement]:
    put = sealing.put
    for checkpoint in commit.checkpoints:
        yield PUT_CHECKPOINT, put(CHECKPOINTS, graph_rows.checkpoint_to_sql(checkpoint))
    for version in commit.dropped:
        yield DROP_CHECKPOINT, (commit.workflow_id, version)
    for event_write in commit.events:
        yield _event(connection, event_write, sealing)
    if commit.graph is not None:
        yield ADD_GRAPH, put(GRAPHS, graph_rows.graph_to_sql(commit.graph))


def _check_fence(run: rows.Row | None, commit: Commit) -> int:
    """Refuse who is not the holder; else say since when calls of the run may be in doubt."""
    fence = commit.fence
    if fence is None:
        return 0
    if run is not None and run[1] == fence.epoch:
        released_before = commit.run is not None and commit.run.release and run[2] is None
        if run[2] == fence.holder_id or released_before:
            in_doubt_from: int = run[3]
            return in_doubt_from
    raise Fenced(
        f"Run {commit.workflow_id!r} was taken over by another holder. This process wrote "
        "nothing and must stop driving the run."
    )


def _check_not_blocked(connection: sqlite3.Connection, commit: Commit) -> None:
    found = connection.execute(MAY_BLOCK, (commit.workflow_id,)).fetchall()
    blocking = [review for review in map(rows.review_from_sql, found) if review.blocks]
    if blocking:
        raise Blocked(blocking)


# A precondition holds if the store shows what the writer saw, or, for a repeated commit, exactly
# what it writes itself. A mere likeness does not count: two who act at once write alike.


def _claim(connection: sqlite3.Connection, claim: Claim, sealing: Sealing) -> Iterator[Statement]:
    run = claim.run.workflow_id
    found = connection.execute(RUN, (run,)).fetchone()
    written = rows.run_to_sql(claim.run)
    epoch = None if found is None else rows.run_from_sql(found).epoch
    if epoch != claim.after_epoch and (found is None or found[:-1] != written[:-1]):
        raise Outdated(f"epoch {epoch}")
    check_not_removed(None if found is None else rows.run_from_sql(found))
    if found is None:
        yield ADD_RUN, sealing.put(RUNS, written)
        if sealing.seals is not None:
            yield PUT_HEAD, (head_to_text(sealing.seals.sealed(run, Head())), run)
    else:
        yield CHANGE_RUN, (*sealing.claimed(written, found), run)


def _removal(
    connection: sqlite3.Connection, removal: Removal, sealing: Sealing, tally: Tally
) -> Iterator[Statement]:
    run, written = removal.run.workflow_id, rows.run_to_sql(removal.run)
    found = connection.execute(RUN, (run,)).fetchone()
    known = None if found is None else rows.run_from_sql(found)
    if not may_be_removed(known, removal) and (found is None or found[:-1] != written[:-1]):
        raise Outdated(f"run {run} is not as it was")
    yield CHANGE_RUN, (*sealing.put(RUNS, written), run)
    for identity in removal.calls:
        call = connection.execute(CALL, identity).fetchone()
        if call is not None:
            tally.remove(call)
        yield REMOVE_CALL, identity
    for node_id, checkpoint_id in removal.steps:
        yield REMOVE_STEP, (run, node_id, checkpoint_id)
    if removal.rest:
        for statement in REMOVE_REST:
            yield statement, (run,)


def _call(connection: sqlite3.Connection, write: CallWrite, tally: Tally) -> Statement:
    row = write.row
    written = rows.call_to_sql(row)
    found = connection.execute(CALL, row.identity).fetchone()
    if found is None:
        if write.after is not None:
            raise Outdated(f"call {row.call_id} is gone")
        _check_key(connection, row)
        return INSERT_CALL, tally.add(written)
    known = rows.call_from_sql(found)
    same = found[:-3] == written[:-3]
    if known.state != write.after and not same and not both_pure(known, row):
        raise Outdated(f"call {row.call_id} is {known.status.value}")
    changes = rows.call_changes_to_sql(row)
    return UPDATE_CALL, (*changes[:-5], *tally.change(written, found)[-2:], *changes[-5:])


def _doubt(commit: Commit, in_doubt_from: int) -> Iterator[Statement]:
    """What keeps it true that no call created before ``runs.in_doubt_from`` is in doubt."""
    rows_in_doubt = [write.row for write in commit.calls if write.row.status.in_doubt]
    first = min((rows.micros(row.created_at) for row in rows_in_doubt), default=in_doubt_from)
    if first < in_doubt_from:
        # A failed call is tried again, or the clock went back.
        yield DOUBT_AGAIN, (first, commit.workflow_id)
    # After all calls of this commit are written: it looks at them, too.
    new = (write.row for write in commit.calls if write.after is None)
    if any(row.call_id.startswith(_PICKED) for row in new):
        yield DOUBT_BEGINS, (commit.workflow_id,)


def _check_key(connection: sqlite3.Connection, row: CallRow) -> None:
    if row.key is None:
        return
    identity = row.identity
    parameters = (identity.tool_name, row.key, identity.input_hash)
    other = connection.execute(KEY_CONFLICT, parameters).fetchone()
    if other is not None:
        raise KeyConflict(key_conflict_text(row, other_run=other[0]))


def _review(connection: sqlite3.Connection, write: ReviewWrite, sealing: Sealing) -> Statement:
    review = write.review
    found = connection.execute(REVIEW, (review.review_id,)).fetchone()
    version = None if found is None else rows.review_from_sql(found).version
    written = rows.review_to_sql(review)
    same_run = found is None or found[0] == review.identity.workflow_id
    repeated = found is not None and found[:-1] == written[:-1]
    if (version != write.after_version or not same_run) and not repeated:
        raise Outdated(f"review {review.review_id} has version {version}")
    return PUT_REVIEW, sealing.put(REVIEWS, written)


def _event(connection: sqlite3.Connection, write: EventWrite, sealing: Sealing) -> Statement:
    event = write.event
    written = graph_rows.event_to_sql(event)
    if event.received_by is None:
        return ADD_EVENT, sealing.put(EVENTS, written)
    found = connection.execute(EVENT, (event.workflow_id, event.event_id)).fetchone()
    if found is None or not may_take(graph_rows.event_from_sql(found), event):
        raise Outdated(f"event {event.event_id} was taken")
    # Who takes it does not change what was told.
    taken = sealing.put(EVENTS, (*found[:-3], *written[-3:]))
    return TAKE_EVENT, (*taken[-3:], event.workflow_id, event.event_id)


def _charge(connection: sqlite3.Connection, write: ChargeWrite, sealing: Sealing) -> Statement:
    charge = write.charge
    if write.at_most is not None:
        looked_for = charged_parameters(charge.meter, write.since, charge.call_id)
        shown = connection.execute(CHARGED, looked_for).fetchone()[0]
        if shown + charge.amount > write.at_most:
            raise Outdated(f"meter {charge.meter!r} shows {shown}")
    return PUT_CHARGE, sealing.put(CHARGES, rows.charge_to_sql(charge))


def charged_parameters(meter: str, since: float | None, besides: str) -> tuple[Any, ...]:
    return (meter, _EVER if since is None else rows.micros(since), besides)


def _run(
    connection: sqlite3.Connection, workflow_id: str, update: RunUpdate, sealing: Sealing
) -> Iterator[Statement]:
    failure, waits = rows.failure_to_sql(update.failure), rows.waits_to_sql(update.waits)
    at = rows.micros(update.at)
    update_run = RELEASE_RUN if update.release else UPDATE_RUN
    yield update_run, (update.status.value, at, failure, *waits, workflow_id)
    if update.graph_id is not None:
        found = rows.run_from_sql(connection.execute(RUN, (workflow_id,)).fetchone())
        bound = sealing.put(RUNS, rows.run_to_sql(replace(found, graph_id=update.graph_id)))
        yield BIND_RUN, (update.graph_id, bound[-1], workflow_id)


def _readiness(commit: Commit, *, parent_id: str | None) -> Iterator[Statement]:
    """What keeps ``runs.ready_at`` true. Nothing that a holder is told matters while it holds."""
    released = commit.run is not None and commit.run.release
    over = commit.run is not None and commit.run.status not in _NOT_OVER
    told = commit.fence is None and (commit.reviews or commit.events)
    queued = commit.claim is not None and commit.claim.run.holder_id is None
    if (released and not over) or told or queued:
        yield READY_SINCE, (commit.workflow_id,)
    if released and over and parent_id is not None:
        yield READY_SINCE, (parent_id,)
