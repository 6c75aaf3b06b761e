"""What one commit writes on PostgreSQL, and what must be read and locked before.

Whoever holds a run shows its fence with every write, and the row of the run is locked while the
fence is looked at: a claim waits for the write, or the write sees the claim and is refused. All
other commits of a run take turns by a lock that ends with the transaction. So what was read before
a write is still true when it is written, without the strictest isolation and its repetitions.
What must hold is decided by the same rules as for the ledgers in memory and in files (rules.py).
Promises kept here: P5, P6, P7, P9.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from nottwice.errors import NottwiceError
from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.review import AuditEntry, Evidence
from nottwice.model.run import RunRecord, RunStatus
from nottwice.model.seal import Head, head_to_text
from nottwice.store import graph_rows, rows
from nottwice.store.interface import Blocked, CallWrite, Commit, Outdated, Removal, RunUpdate
from nottwice.store.postgres import wanted
from nottwice.store.postgres.columns import (
    BLOCKED_RUN,
    CHECKPOINT_KNOWN,
    HERE,
    STEP_KNOWN,
    marks,
)
from nottwice.store.postgres.schema import lock_number
from nottwice.store.rules import MemoryData, apply, check
from nottwice.store.sealing import (
    AUDIT,
    CHARGES,
    CHECKPOINTS,
    EVENTS,
    EVIDENCE,
    GRAPHS,
    REVIEWS,
    RUNS,
    STEPS,
    Sealing,
    Tally,
)

Statement = tuple[str, Sequence[Any]]
_NOT_OVER = (RunStatus.RUNNING, RunStatus.WAITING)


def _insert(table: str, columns: str) -> str:
    words = ("INSERT INTO nottwice.", table, " (", columns, ") VALUES (", marks(columns), ")")
    return "".join(words)


# What others than the holder may write as well is added at most once, whoever repeats it.
_ONCE = " ON CONFLICT DO NOTHING"
_EVIDENCE_COLUMNS = rows.EVIDENCE_COLUMNS + ", once"
_AUDIT_COLUMNS = rows.AUDIT_COLUMNS + ", once"
ADD_EVIDENCE = _insert("evidence", _EVIDENCE_COLUMNS) + _ONCE
ADD_AUDIT = _insert("audit", _AUDIT_COLUMNS) + _ONCE
ADD_EVENT = _insert("events", graph_rows.EVENT_COLUMNS) + _ONCE
ADD_GRAPH = _insert("graphs", graph_rows.GRAPH_COLUMNS) + _ONCE
TAKE_EVENT = """
UPDATE nottwice.events SET received_by = %s::text, received_at = %s::bigint, seal = %s::text
 WHERE workflow_id = %s AND event_id = %s
"""

_THIS_CALL = (
    " WHERE t.workflow_id = %s AND t.node_id = %s AND t.checkpoint_id = %s AND t.tool_name = %s"
    " AND t.input_hash = %s"
)
INSERT_CALL = _insert("tool_call_results", rows.CALL_COLUMNS)
_CHANGES = (
    "UPDATE nottwice.tool_call_results AS t SET status = %s, attempt = %s, attempt_id = %s,"
    " holder_id = %s, started_at = %s, finished_at = %s::bigint, result_json = %s::text,"
    " result_kind = %s::text, failure_json = %s::text, retry_at = %s::bigint, ambiguous = %s,"
    " settled_by = %s::text, past_json = %s::text, writes = %s, seal = %s::text"
)
UPDATE_CALL = _CHANGES + _THIS_CALL

_RUN_CHANGES = ", ".join(name + " = excluded." + name for name in rows.RUN_COLUMNS.split(", "))
PUT_RUN = (
    _insert("runs", rows.RUN_COLUMNS) + " ON CONFLICT (workflow_id) DO UPDATE SET " + _RUN_CHANGES
)
# A run that is held, or over, is not ready (see READY_SINCE); the server need not find that out.
PUT_HELD_RUN = PUT_RUN + ", ready_at = NULL"
_UPDATE_RUN = (
    "UPDATE nottwice.runs SET status = %s, updated_at = %s, failure_json = %s::text,"
    " waits_json = %s::text, wake_at = %s::bigint"
)
_THIS_RUN = " WHERE workflow_id = %s"
UPDATE_RUN = _UPDATE_RUN + _THIS_RUN
RELEASE_RUN = _UPDATE_RUN + ", holder_id = NULL" + _THIS_RUN
END_RUN = _UPDATE_RUN + ", holder_id = NULL, ready_at = NULL" + _THIS_RUN
BIND_RUN = "UPDATE nottwice.runs SET graph_id = %s, seal = %s::text WHERE workflow_id = %s"
PUT_HEAD = "UPDATE nottwice.runs SET head = %s WHERE workflow_id = %s"
# Since when a run can go on that nobody holds: the same as ``rules.ready_since``, except that it
# equals wake_at only if nothing but time has to pass.
HAS_COME = """EXISTS (
      SELECT 1 FROM json_array_elements(waits_json::json) AS wait
       WHERE CASE wait ->> 'kind'
        WHEN 'review' THEN NOT EXISTS (
          SELECT 1 FROM nottwice.reviews
           WHERE review_id = wait ->> 'subject' AND reviews.status = 'open')
        WHEN 'event' THEN EXISTS (
          SELECT 1 FROM nottwice.events
           WHERE events.workflow_id = r.workflow_id
             AND name = wait ->> 'subject' AND received_by IS NULL)
        WHEN 'child' THEN NOT EXISTS (
          SELECT 1 FROM nottwice.runs AS child
           WHERE child.workflow_id = wait ->> 'subject'
             AND child.status IN ('running', 'waiting'))
        ELSE false END)"""
_READY_SINCE = (
    """
UPDATE nottwice.runs AS r SET ready_at = CASE
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
READY_SINCE = _READY_SINCE + " WHERE workflow_id = %s"
# Nothing that a holder is told matters while it holds the run.
READY_UNLESS_HELD = READY_SINCE + " AND holder_id IS NULL"
PUT_STEP = _insert("steps", rows.STEP_COLUMNS) + STEP_KNOWN
ADD_REVIEW = _insert("reviews", rows.REVIEW_COLUMNS)
# Only what a decision, its use or its end changes: an operator may write no other column.
UPDATE_REVIEW = """
UPDATE nottwice.reviews SET status = %s, version = %s, decision_json = %s::text,
       closed_by = %s::text, closed_at = %s::bigint, seal = %s::text
 WHERE workflow_id = %s AND review_id = %s
"""
PUT_CHECKPOINT = _insert("checkpoints", graph_rows.CHECKPOINT_COLUMNS) + CHECKPOINT_KNOWN
DROP_CHECKPOINT = "DELETE FROM nottwice.checkpoints WHERE workflow_id = %s AND version = %s"

REMOVE_CALLS = """
DELETE FROM nottwice.tool_call_results AS t
 USING unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[])
       AS w(workflow_id, node_id, checkpoint_id, tool_name, input_hash)
 WHERE (t.workflow_id, t.node_id, t.checkpoint_id, t.tool_name, t.input_hash)
     = (w.workflow_id, w.node_id, w.checkpoint_id, w.tool_name, w.input_hash)
"""
REMOVE_STEPS = """
DELETE FROM nottwice.steps AS s
 USING unnest(%s::text[], %s::text[]) AS w(node_id, checkpoint_id)
 WHERE s.workflow_id = %s AND (s.node_id, s.checkpoint_id) = (w.node_id, w.checkpoint_id)
"""
REMOVE_REST = (
    "DELETE FROM nottwice.steps WHERE workflow_id = %s",
    "DELETE FROM nottwice.checkpoints WHERE workflow_id = %s",
    "DELETE FROM nottwice.events WHERE workflow_id = %s",
    "DELETE FROM nottwice.reviews WHERE workflow_id = %s",
    "DELETE FROM nottwice.evidence WHERE workflow_id = %s",
)


DOUBT_AGAIN = "UPDATE nottwice.runs SET in_doubt_from = %s WHERE workflow_id = %s"
DOUBT_BEGINS = """
UPDATE nottwice.runs AS r SET in_doubt_from = coalesce(
    (SELECT min(created_at) FROM nottwice.tool_call_results
      WHERE workflow_id = r.workflow_id AND created_at >= r.in_doubt_from
        AND status IN ('PENDING', 'UNKNOWN')),
    (SELECT max(created_at) FROM nottwice.tool_call_results WHERE workflow_id = r.workflow_id),
    in_doubt_from)
 WHERE workflow_id = %s
"""
# One call in 256, picked by its id, which is a hash: no run has to count, in whatever process.
PICKED = "00"


# Nobody waits for ever behind a connection that is stuck in the middle of a transaction.
_LIMITS = (
    "SELECT set_config('lock_timeout', %s, true),"
    " set_config('idle_in_transaction_session_timeout', '20s', true),"
    " current_setting('synchronous_commit'), " + HERE
)
_TAKE_TURNS = "SELECT pg_advisory_xact_lock(number) FROM unnest(%s::bigint[]) AS number"
_HELD_RUNS = (
    "SELECT " + rows.RUN_COLUMNS + ", head, in_doubt_from FROM nottwice.runs"
    " WHERE workflow_id = ANY(%s) ORDER BY workflow_id FOR UPDATE"
)
_HEADS = "SELECT workflow_id, head FROM nottwice.runs WHERE workflow_id = ANY(%s)"
# Of each run the newest checkpoint, besides those that are about to be dropped.
_NEWEST_BUT = """
SELECT c.workflow_id, max(c.version) FROM nottwice.checkpoints AS c
 WHERE c.workflow_id = ANY(%s)
   AND NOT EXISTS (SELECT 1 FROM unnest(%s::text[], %s::bigint[]) AS w(workflow_id, version)
                    WHERE w.workflow_id = c.workflow_id AND w.version = c.version)
 GROUP BY c.workflow_id
"""
_T_COLUMNS = "t." + ", t.".join(rows.CALL_COLUMNS.split(", "))
_KNOWN_CALLS = (
    "SELECT " + _T_COLUMNS + " FROM nottwice.tool_call_results AS t"
    " JOIN unnest(%s::text[], %s::text[], %s::text[], %s::text[],"
    " %s::text[]) AS w(workflow_id, node_id, checkpoint_id, tool_name, input_hash)"
    " USING (workflow_id, node_id, checkpoint_id, tool_name, input_hash)"
)
_KEY_CONFLICTS = (
    "SELECT t.* FROM unnest(%s::text[], %s::text[], %s::text[]) AS w(tool_name, key, input_hash)"
    " CROSS JOIN LATERAL (SELECT " + rows.CALL_COLUMNS + " FROM nottwice.tool_call_results"
    " WHERE tool_name = w.tool_name AND idempotency_key = w.key AND input_hash <> w.input_hash"
    " LIMIT 1) AS t"
)
_BLOCKING = (
    "SELECT " + rows.REVIEW_COLUMNS + " FROM nottwice.reviews WHERE " + BLOCKED_RUN + " = ANY(%s)"
)
_KNOWN_REVIEWS = (
    "SELECT " + rows.REVIEW_COLUMNS + " FROM nottwice.reviews WHERE review_id = ANY(%s)"
)
_E_COLUMNS = "e." + ", e.".join(graph_rows.EVENT_COLUMNS.split(", "))
_KNOWN_EVENTS = (
    "SELECT " + _E_COLUMNS + " FROM nottwice.events AS e"
    " JOIN unnest(%s::text[], %s::text[]) AS w(workflow_id, event_id) USING (workflow_id, event_id)"
)
# Without those of calls that failed for good and do not count then: the same as rules.charged.
COUNTS = """
 (c.if_failed <> 0 OR NOT EXISTS (
   SELECT 1 FROM nottwice.tool_call_results AS t
    WHERE t.workflow_id = c.workflow_id AND t.node_id = c.node_id
      AND t.checkpoint_id = c.checkpoint_id AND t.tool_name = c.tool_name
      AND t.input_hash = c.input_hash AND t.status = 'FAILED' AND t.retry_at IS NULL))
"""
_CH_COLUMNS = "c." + ", c.".join(rows.CHARGE_COLUMNS.split(", "))
_CHARGES = (
    "SELECT " + _CH_COLUMNS + " FROM nottwice.charges AS c"
    " JOIN unnest(%s::text[], %s::bigint[]) AS w(meter, since) ON c.meter = w.meter"
    " AND c.at > w.since WHERE" + COUNTS
)
PUT_CHARGE = (
    _insert("charges", rows.CHARGE_COLUMNS)
    + " ON CONFLICT (meter, call_id) DO UPDATE SET at = excluded.at, amount = excluded.amount,"
    " if_failed = excluded.if_failed, seal = excluded.seal"
)
KNOWN_AUDIT = "SELECT count(*) FROM nottwice.audit WHERE workflow_id = %s AND once = ANY(%s)"
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"


class Plan:
    """Some commits as one transaction: ``reads`` first, then ``decide``, then what it returns."""

    def __init__(
        self,
        commits: Sequence[Commit],
        *,
        schema: str,
        busy_seconds: float,
        sealing: Sealing,
        server: str | None,
    ) -> None:
        self.commits = [_as_stored(commit) for commit in commits]
        self._sealing = sealing
        self._heads: dict[str, str | None] = {}
        self._run_seals: dict[str, str | None] = {}
        self._found: dict[CallIdentity, rows.Row] = {}
        self._newest_kept: dict[str, int] = {}
        self.synchronous_commit = ""
        self.is_here = False
        """Whether it met the server that it is meant for."""
        self._schema = schema
        self._data = MemoryData()
        self._in_doubt_from: dict[str, int] = {}
        self._known_reviews: set[str] = set()
        # In one order, so that nobody waits for somebody who waits for him.
        turns = sorted({lock_number(schema, "run", one.workflow_id) for one in commits})
        meters = sorted({write.charge.meter for one in commits for write in one.charges})
        keyed = [row for row in wanted.new_rows(self.commits) if row.key is not None]
        keys = sorted(
            {lock_number(schema, *wanted.key_words(row)) for row in keyed}
            | {lock_number(schema, "meter", meter) for meter in meters}
        )
        self._steps: list[tuple[Statement, Any]] = [
            ((BEGIN, ()), None),
            ((_LIMITS, (f"{busy_seconds * 1000:.0f}ms", server)), self._take_setting),
            ((_TAKE_TURNS, (turns,)), None),
        ]
        if keys:
            self._steps.append(((_TAKE_TURNS, (keys,)), None))
        self._add(_HELD_RUNS, [wanted.held_runs(self.commits)], self._take_run)
        self._add(_HEADS, [wanted.other_runs(self.commits)], self._take_head)
        self._add(
            _KNOWN_CALLS, wanted.columns(wanted.identities(self.commits), 5), self._take_known_call
        )
        self._add(
            _KNOWN_CALLS, wanted.columns(wanted.removed(self.commits), 5), self._take_known_call
        )
        dropping = [one for one in self.commits if one.dropped]
        self._add(_NEWEST_BUT, wanted.dropped(dropping), self._take_newest)
        self._add(_KEY_CONFLICTS, wanted.columns(map(wanted.key_use, keyed), 3), self._take_call)
        self._add(_BLOCKING, [wanted.careful_runs(self.commits)], self._take_review)
        self._add(_KNOWN_REVIEWS, [wanted.review_ids(self.commits)], self._take_known_review)
        self._add(_CHARGES, [meters, wanted.looking_back(self.commits, meters)], self._take_charge)
        self._add(
            _KNOWN_EVENTS, wanted.columns(wanted.taken_events(self.commits), 2), self._take_event
        )

    def _add(self, sql: str, arrays: Sequence[list[Any]], take: Any) -> None:
        if arrays and arrays[0]:
            self._steps.append(((sql, arrays), take))

    @property
    def reads(self) -> list[Statement]:
        """What locks everything that is about to be read, and reads it."""
        return [statement for statement, _ in self._steps]

    def hear(self, answers: Iterable[Any]) -> None:
        """Take note of what the reads found."""
        for (_, take), cursor in zip(self._steps, answers, strict=True):
            if take is not None:
                for row in cursor.fetchall():
                    take(row)

    def decide(self) -> tuple[list[BaseException | None], list[Statement]]:
        """What each commit is told, and what all that are not refused write together."""
        outcomes: list[BaseException | None] = []
        statements: list[Statement] = []
        for commit in self.commits:
            try:
                self._sealing.check_may_write(
                    commit.workflow_id, self._heads.get(commit.workflow_id)
                )
                check(self._data, commit)
            except (NottwiceError, Blocked, Outdated) as refusal:
                outcomes.append(refusal)
                continue
            statements.extend(self._writes(commit))
            apply(self._data, commit)
            outcomes.append(None)
        return outcomes, statements

    def _take_setting(self, row: Any) -> None:
        self.synchronous_commit, self.is_here = row[2], bool(row[3])

    def _take_run(self, row: Any) -> None:
        run = rows.run_from_sql(row)
        self._data.runs[run.workflow_id] = run
        *_, seal, self._heads[run.workflow_id], self._in_doubt_from[run.workflow_id] = row
        self._run_seals[run.workflow_id] = seal

    def _take_newest(self, row: Any) -> None:
        self._newest_kept[row[0]] = row[1]

    def _take_head(self, row: Any) -> None:
        self._heads[row[0]] = row[1]

    def _take_call(self, row: Any) -> None:
        call = rows.call_from_sql(row)
        self._data.calls[call.identity] = call

    def _take_known_call(self, row: Any) -> None:
        self._take_call(row)
        self._found[CallIdentity(*row[:5])] = row

    def _take_review(self, row: Any) -> None:
        review = rows.review_from_sql(row)
        self._data.reviews[review.review_id] = review

    def _take_known_review(self, row: Any) -> None:
        self._take_review(row)
        self._known_reviews.add(row[1])

    def _take_event(self, row: Any) -> None:
        event = graph_rows.event_from_sql(row)
        self._data.events[(event.workflow_id, event.event_id)] = event

    def _take_charge(self, row: Any) -> None:
        charge = rows.charge_from_sql(row)
        self._data.charges[(charge.meter, charge.call_id)] = charge

    # What one commit writes, once nothing refuses it any more

    def _writes(self, commit: Commit) -> Iterator[Statement]:
        tally = Tally(self._sealing, commit, self._head_before(commit))
        if commit.claim is not None:
            yield from self._claim(commit.claim.run)
        if commit.removal is not None:
            yield from self._removal(commit.removal, tally)
        for write in commit.calls:
            yield self._call(write.row, tally)
        yield from self._doubt(commit)
        for review_write in commit.reviews:
            written = self._put(REVIEWS, rows.review_to_sql(review_write.review))
            if review_write.review.review_id in self._known_reviews:
                yield UPDATE_REVIEW, (written[3], *written[12:16], written[-1], *written[:2])
            else:
                yield ADD_REVIEW, written
                self._known_reviews.add(review_write.review.review_id)
        for step in commit.steps:
            yield PUT_STEP, self._put(STEPS, rows.step_to_sql(step))
        for item in commit.evidence:
            yield ADD_EVIDENCE, (*self._put(EVIDENCE, rows.evidence_to_sql(item)), once(item))
        for entry in commit.audit:
            yield ADD_AUDIT, (*self._put(AUDIT, rows.audit_to_sql(entry)), once(entry))
        for charge_write in commit.charges:
            yield PUT_CHARGE, self._put(CHARGES, rows.charge_to_sql(charge_write.charge))
        yield from self._of_graphs(commit)
        if commit.run is not None:
            yield from self._run(commit.workflow_id, commit.run)
        yield from self._readiness(commit)
        head = tally.head(newest=self._newest(commit))
        if head is not None:
            self._heads[commit.workflow_id] = head
            yield PUT_HEAD, (head, commit.workflow_id)

    def _put(self, table: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """A row with its seal, over what the database will keep of it."""
        return self._sealing.put(table, tuple(storable(row)))

    def _head_before(self, commit: Commit) -> str | None:
        seals, run = self._sealing.seals, commit.workflow_id
        if run not in self._heads and seals is not None:
            self._heads[run] = head_to_text(seals.sealed(run, Head()))
        return self._heads.get(run)

    def _claim(self, run: RunRecord) -> Iterator[Statement]:
        written, put = rows.run_to_sql(run), PUT_RUN if run.holder_id is None else PUT_HELD_RUN
        self._in_doubt_from.setdefault(run.workflow_id, 0)
        if run.workflow_id in self._run_seals:
            known = rows.run_to_sql(self._data.runs[run.workflow_id])
            found = (*known[:-1], self._run_seals[run.workflow_id])
            yield put, self._sealing.claimed(written, found)
            return
        sealed = self._put(RUNS, written)
        self._run_seals[run.workflow_id] = sealed[-1]
        yield put, sealed
        if self._sealing.seals is not None:
            yield PUT_HEAD, (self._heads[run.workflow_id], run.workflow_id)

    def _call(self, row: CallRow, tally: Tally) -> Statement:
        written, found = tuple(storable(rows.call_to_sql(row))), self._found.get(row.identity)
        if found is None:
            self._found[row.identity] = added = tally.add(written)
            return INSERT_CALL, added
        changed = tally.change(written, found)
        self._found[row.identity] = changed
        changes = rows.call_changes_to_sql(row)
        return UPDATE_CALL, (*changes[:-5], *changed[-2:], *changes[-5:])

    def _newest(self, commit: Commit) -> int | None:
        """The newest checkpoint that is left, if this commit takes some away."""
        if commit.removal is not None and commit.removal.rest:
            return -1
        if not commit.dropped:
            return None
        return self._newest_kept.get(commit.workflow_id, -1)

    def _removal(self, removal: Removal, tally: Tally) -> Iterator[Statement]:
        run = removal.run.workflow_id
        yield PUT_RUN, self._put(RUNS, rows.run_to_sql(removal.run))
        for identity in removal.calls:
            found = self._found.pop(identity, None)
            if found is not None:
                tally.remove(found)
        if removal.calls:
            yield REMOVE_CALLS, wanted.columns(removal.calls, 5)
        if removal.steps:
            yield REMOVE_STEPS, (*wanted.columns(removal.steps, 2), run)
        if removal.rest:
            for statement in REMOVE_REST:
                yield statement, (run,)

    def _of_graphs(self, commit: Commit) -> Iterator[Statement]:
        for checkpoint in commit.checkpoints:
            yield PUT_CHECKPOINT, self._put(CHECKPOINTS, graph_rows.checkpoint_to_sql(checkpoint))
        for version in commit.dropped:
            yield DROP_CHECKPOINT, (commit.workflow_id, version)
        for write in commit.events:
            told = graph_rows.event_to_sql(write.event)
            if write.event.received_by is None:
                yield ADD_EVENT, self._put(EVENTS, told)
            else:
                # Who takes it does not change what was told.
                known = self._data.events[(write.event.workflow_id, write.event.event_id)]
                kept = graph_rows.event_to_sql(known)[:-3]
                yield TAKE_EVENT, (*self._put(EVENTS, (*kept, *told[-3:]))[-3:], *told[:2])
        if commit.graph is not None:
            yield ADD_GRAPH, self._put(GRAPHS, graph_rows.graph_to_sql(commit.graph))

    def _run(self, workflow_id: str, update: RunUpdate) -> Iterator[Statement]:
        failure, waits = rows.failure_to_sql(update.failure), rows.waits_to_sql(update.waits)
        changes = (update.status.value, rows.micros(update.at), failure, *waits, workflow_id)
        if not update.release:
            yield UPDATE_RUN, changes
        else:
            yield RELEASE_RUN if update.status in _NOT_OVER else END_RUN, changes
        if update.graph_id is not None:
            bound = replace(self._data.runs[workflow_id], graph_id=update.graph_id)
            seal = self._put(RUNS, rows.run_to_sql(bound))[-1]
            yield BIND_RUN, (update.graph_id, seal, workflow_id)

    def _readiness(self, commit: Commit) -> Iterator[Statement]:
        """What keeps ``runs.ready_at`` true."""
        released = commit.run if commit.run is not None and commit.run.release else None
        is_over = released is not None and released.status not in _NOT_OVER
        put_down = commit.claim is not None and commit.claim.run.holder_id is None
        if not is_over and (released or put_down):
            yield READY_SINCE, (commit.workflow_id,)
        elif commit.fence is None and (commit.reviews or commit.events):
            yield READY_UNLESS_HELD, (commit.workflow_id,)
        run = self._data.runs.get(commit.workflow_id)
        parent = None if run is None else run.parent_id
        if is_over and parent is not None:
            # The parent may be about to wait for this very end. One of the two must come first.
            yield _TAKE_TURNS, ([lock_number(self._schema, "run", parent)],)
            yield READY_UNLESS_HELD, (parent,)

    def _doubt(self, commit: Commit) -> Iterator[Statement]:
        """What keeps it true that no call created before ``runs.in_doubt_from`` is in doubt."""
        if not commit.calls:
            return
        in_doubt_from = self._in_doubt_from[commit.workflow_id]
        in_doubt = [write.row for write in commit.calls if write.row.status.in_doubt]
        first = min((rows.micros(row.created_at) for row in in_doubt), default=in_doubt_from)
        if first < in_doubt_from:
            # A failed call is tried again, or clocks differ.
            self._in_doubt_from[commit.workflow_id] = first
            yield DOUBT_AGAIN, (first, commit.workflow_id)
        # After all calls of this commit are written: it looks at them, too.
        new = (write.row for write in commit.calls if write.after is None)
        if any(row.call_id.startswith(PICKED) for row in new):
            yield DOUBT_BEGINS, (commit.workflow_id,)


def once(item: Evidence | AuditEntry) -> str:
    """A name for what makes two items one."""
    if isinstance(item, Evidence):
        parts: tuple[Any, ...] = rows.evidence_to_sql(item)[:6]
    else:
        parts = rows.audit_to_sql(item)[:-1]
    text = "".join(f"{len(str(part))}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()


def _as_stored(commit: Commit) -> Commit:
    """A commit as it will be read back: times in whole microseconds, texts as they can be kept.

    What is read is compared with what is written, so both must have gone through the same.
    """
    claim = commit.claim
    if claim is not None:
        claim = replace(claim, run=rows.run_from_sql(rows.run_to_sql(claim.run)))
    calls = tuple(
        CallWrite(rows.call_from_sql(rows.call_to_sql(write.row)), write.after)
        for write in commit.calls
    )
    reviews = tuple(
        replace(write, review=rows.review_from_sql(storable(rows.review_to_sql(write.review))))
        for write in commit.reviews
    )
    removal = commit.removal
    if removal is not None:
        removal = replace(removal, run=rows.run_from_sql(rows.run_to_sql(removal.run)))
    return replace(commit, claim=claim, calls=calls, reviews=reviews, removal=removal)


def storable(parameters: Sequence[Any]) -> Sequence[Any]:
    """The same without the one character that PostgreSQL cannot keep in a text.

    JSON texts and ids never have it; what people and upstreams say may.
    """
    if not any(isinstance(one, str) and "\0" in one for one in parameters):
        return parameters
    return [one.replace("\0", "\u2400") if isinstance(one, str) else one for one in parameters]
