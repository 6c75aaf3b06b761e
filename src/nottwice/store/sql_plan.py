"""What does a commit write on a SQL store, once nothing refuses it?

Every SQL store takes locks, loads what the rules need, lets them decide, and executes the
statements that follow. The statements have the same names on all of them (sql/). Every precondition
is checked before the first statement, so a refused member of a batch has written nothing and the
others continue without savepoints. (On a full disk savepoints would be wrong: one that fails rolls
back the whole batch, and the rest would then commit without it.) Promises kept here: P5, P6, P7,
P9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from nottwice.errors import NottwiceError
from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.run import RunRecord, RunStatus
from nottwice.model.runs.labels import NO_LABELS
from nottwice.model.runs.openings import OpeningRecord, begun_by
from nottwice.model.sealing.seal import Head, head_to_text
from nottwice.store import tables
from nottwice.store.interface import (
    Blocked,
    Claim,
    Commit,
    EventWrite,
    Outdated,
    Removal,
    ReviewWrite,
    RunUpdate,
)
from nottwice.store.notices import notices_of
from nottwice.store.rules import MemoryData, apply, check, released, taken_over
from nottwice.store.sealing import HeadChange, Sealing
from nottwice.store.statements import Parameters
from nottwice.store.table import Row, Table
from nottwice.store.tables import (
    CALLS,
    EVENTS,
    OPENINGS,
    OUTBOX,
    REVIEWS,
    RUNS,
    TOOLS,
    micros,
)

Named = tuple[str, Parameters]
"""The name of a statement, and its parameters."""
Outcome = BaseException | None
PICKED = "00"
"""One call in 256 moves ``runs.in_doubt_from`` forward. It is picked by its id, which is a hash, so
no process has to count."""
_NOT_OVER = (RunStatus.RUNNING, RunStatus.WAITING)
_REST = ("steps", "checkpoints", "events", "reviews", "evidence", "openings", "outbox")


class Plan:
    """Several commits as one transaction: ``take`` what was read, then ``decide``."""

    def __init__(self, sealing: Sealing) -> None:
        self.data = MemoryData()
        self._sealing = sealing
        self._heads: dict[str, str | None] = {}
        self._run_rows: dict[str, Row] = {}
        self._in_doubt_from: dict[str, int] = {}
        self._call_rows: dict[CallIdentity, Row] = {}
        self._known_reviews: set[str] = set()
        self._newest_kept: dict[str, int] = {}

    # Taking what was read

    def take_run(self, row: Row) -> None:
        """A run, with its head and the time since which its calls may be in doubt."""
        *found, head, in_doubt_from = row
        run = RUNS.record(found)
        self.data.runs[run.workflow_id] = run
        self._run_rows[run.workflow_id] = found
        self._heads[run.workflow_id] = head
        self._in_doubt_from[run.workflow_id] = in_doubt_from

    def take_fence(
        self,
        workflow_id: str,
        holder_id: str | None,
        epoch: int,
        head: str | None,
        in_doubt_from: int,
    ) -> None:
        """The holder and epoch of a run, if nothing else is needed of it."""
        self.data.fences[workflow_id] = holder_id, epoch
        self._heads[workflow_id] = head
        self._in_doubt_from[workflow_id] = in_doubt_from

    def take_head(self, workflow_id: str, head: str | None) -> None:
        """The head of a run to which this batch writes only without a fence."""
        self._heads[workflow_id] = head

    def take_call(self, row: Row) -> None:
        """A call that is about to be changed or removed."""
        call = CALLS.record(row)
        self.data.calls[call.identity] = call
        self._call_rows[call.identity] = row

    def take_other_call(self, row: Row) -> None:
        """A call that may conflict with another, such as one with the same key."""
        call = CALLS.record(row)
        self.data.calls[call.identity] = call

    def take_review(self, row: Row) -> None:
        """A review that is about to be changed."""
        self.take_blocking_review(row)
        self._known_reviews.add(REVIEWS.value(row, "review_id"))

    def take_blocking_review(self, row: Row) -> None:
        review = REVIEWS.record(row)
        self.data.reviews[review.review_id] = review

    def take_event(self, row: Row) -> None:
        event = EVENTS.record(row)
        self.data.events[(event.workflow_id, event.event_id)] = event

    def take_notice(self, row: Row) -> None:
        notice = OUTBOX.record(row)
        self.data.outbox[notice.notice_id] = notice

    def take_newest(self, workflow_id: str, version: int) -> None:
        """The newest checkpoint that remains when a commit has dropped others."""
        self._newest_kept[workflow_id] = version

    # Deciding

    def decide(self, commits: Sequence[Commit]) -> tuple[list[Outcome], list[Named]]:
        """The outcome of each commit, and the statements of all that are not refused."""
        outcomes: list[Outcome] = []
        statements: list[Named] = []
        for commit in commits:
            try:
                head = self._heads.get(commit.workflow_id)
                self._sealing.check_may_write(commit.workflow_id, head)
                check(self.data, commit)
            except (NottwiceError, Blocked, Outdated) as refusal:
                outcomes.append(refusal)
                continue
            statements.extend(self._writes(commit))
            if len(commits) > 1:
                # The commits that follow see what this one has changed.
                apply(self.data, commit)
            outcomes.append(None)
        return outcomes, statements

    # What a database may do differently

    def _stored(self, row: Row) -> Row:
        """A row with the values that the database can store."""
        return row

    def _added(self, table: Table[Any], row: Row) -> dict[str, Any]:
        """The parameters of a row that is added once, however often the commit is repeated."""
        return table.named(row)

    def _remove_calls(self, calls: Sequence[CallIdentity]) -> Iterator[Named]:
        for identity in calls:
            yield "remove_call", identity._asdict()

    def _before_parent(self, parent_id: str) -> Iterable[Named]:
        """Statements that must come before a statement about another run."""
        return ()

    # What one commit writes

    def _writes(self, commit: Commit) -> Iterator[Named]:
        change = HeadChange(self._sealing, commit, self._head_before(commit))
        if commit.claim is not None:
            yield from self._claim(commit.claim)
        if commit.removal is not None:
            yield from self._removal(commit.removal, change)
        for write in commit.calls:
            yield self._call(write.row, change)
        if commit.calls:
            yield from self._doubt(commit)
        for review_write in commit.reviews:
            yield self._review(review_write)
        for step in commit.steps:
            yield "put_step", self._put(tables.STEPS, step)
        for item in commit.evidence:
            yield "add_evidence", self._added(tables.EVIDENCE, self._put(tables.EVIDENCE, item))
        for entry in commit.audit:
            yield "add_audit", self._added(tables.AUDIT, self._put(tables.AUDIT, entry))
        for charge_write in commit.charges:
            yield "put_charge", self._named(tables.CHARGES, charge_write.charge)
        if commit.checkpoints or commit.dropped or commit.events or commit.graph:
            yield from self._of_graphs(commit)
        for tool in commit.tools:
            yield "put_tool", self._named(TOOLS, tool)
        if commit.run is not None:
            yield from self._run(commit.workflow_id, commit.run)
        if commit.run or commit.claim or commit.fence is None:
            yield from self._readiness(commit)
        for notice in notices_of(commit, self.data.runs.get(commit.workflow_id)):
            yield "add_notice", OUTBOX.named(self._stored(OUTBOX.row(notice)))
        for notice_write in commit.notices:
            yield "put_notice", OUTBOX.named(self._stored(OUTBOX.row(notice_write.notice)))
        for notice_id in commit.forgotten:
            yield "forget_notice", {"notice_id": notice_id}
        seals = self._sealing.seals
        head = None if seals is None else change.head(newest=self._newest(commit))
        if head is not None:
            self._heads[commit.workflow_id] = head
            yield "put_head", {"head": head, "workflow_id": commit.workflow_id}

    def _put(self, table: Table[Any], record: Any) -> tuple[Any, ...]:
        """A record as a row, with a seal over what the database will store."""
        return self._sealing.put(table, self._stored(table.row(record)))

    def _named(self, table: Table[Any], record: Any) -> dict[str, Any]:
        return table.named(self._put(table, record))

    def _head_before(self, commit: Commit) -> str | None:
        seals, run = self._sealing.seals, commit.workflow_id
        if run not in self._heads and seals is not None:
            self._heads[run] = head_to_text(seals.sealed(run, Head()))
        return self._heads.get(run)

    def _claim(self, claim: Claim) -> Iterator[Named]:
        run, known = claim.run, self.data.runs.get(claim.run.workflow_id)
        put = "put_run" if run.holder_id is None else "put_held_run"
        found = self._run_rows.get(run.workflow_id)
        self._in_doubt_from.setdefault(run.workflow_id, 0)
        if found is None:
            row = self._put(RUNS, run)
        else:
            row = self._sealing.claimed(self._stored(RUNS.row(run)), found)
        self._run_rows[run.workflow_id] = row
        yield put, RUNS.named(row)
        if found is None and self._sealing.seals is not None:
            head = self._heads[run.workflow_id]
            yield "put_head", {"head": head, "workflow_id": run.workflow_id}
        yield from self._labels(run, known)
        left = taken_over(known, claim)
        if left is not None:
            yield "end_opening", self._opening(left)
        begun = begun_by(run, claim.at, claim.traceparent)
        if begun is not None:
            yield "add_opening", self._opening(begun)

    def _opening(self, opening: OpeningRecord) -> dict[str, Any]:
        return OPENINGS.named(self._stored(OPENINGS.row(opening)))

    def _labels(self, run: RunRecord, known: RunRecord | None) -> Iterator[Named]:
        """Keep the index of tags and groups true."""
        before = NO_LABELS if known is None else known.labels
        if run.labels == before:
            return
        if before != NO_LABELS:
            yield "remove_tags", {"workflow_id": run.workflow_id}
        for text in run.labels.texts():
            yield "add_tag", {"tag": text, "workflow_id": run.workflow_id}

    def _removal(self, removal: Removal, change: HeadChange) -> Iterator[Named]:
        run = removal.run.workflow_id
        yield "put_run", self._named(RUNS, removal.run)
        yield from self._labels(removal.run, self.data.runs.get(run))
        for identity in removal.calls:
            found = self._call_rows.pop(identity, None)
            if found is not None:
                change.remove(found)
        yield from self._remove_calls(removal.calls)
        for node_id, checkpoint_id in removal.steps:
            where = {"workflow_id": run, "node_id": node_id, "checkpoint_id": checkpoint_id}
            yield "remove_step", where
        for table in _REST if removal.rest else ():
            yield f"remove_{table}", {"workflow_id": run}

    def _call(self, call: CallRow, change: HeadChange) -> Named:
        row, found = self._stored(CALLS.row(call)), self._call_rows.get(call.identity)
        if found is None:
            self._call_rows[call.identity] = added = change.add(row)
            return "add_call", added
        self._call_rows[call.identity] = changed = change.change(row, found)
        return "change_call", CALLS.named(changed)

    def _doubt(self, commit: Commit) -> Iterator[Named]:
        """Keep it true that no call created before ``runs.in_doubt_from`` is in doubt."""
        run = commit.workflow_id
        in_doubt_from = self._in_doubt_from[run]
        in_doubt = [write.row.created_at for write in commit.calls if write.row.status.in_doubt]
        first = micros(min(in_doubt)) if in_doubt else in_doubt_from
        if first < in_doubt_from:
            # A failed call is tried again, or the clocks of two hosts differ.
            self._in_doubt_from[run] = first
            yield "doubt_again", {"in_doubt_from": first, "workflow_id": run}
        # This statement reads the calls, so it comes after all calls of this commit are written.
        new = [write.row.call_id for write in commit.calls if write.after is None]
        if [call_id for call_id in new if call_id.startswith(PICKED)]:
            yield "doubt_begins", {"workflow_id": run}

    def _review(self, write: ReviewWrite) -> Named:
        review = write.review
        known = review.review_id in self._known_reviews
        self._known_reviews.add(review.review_id)
        return "change_review" if known else "add_review", self._named(REVIEWS, review)

    def _of_graphs(self, commit: Commit) -> Iterator[Named]:
        for checkpoint in commit.checkpoints:
            yield "put_checkpoint", self._put(tables.CHECKPOINTS, checkpoint)
        for version in commit.dropped:
            yield "drop_checkpoint", {"workflow_id": commit.workflow_id, "version": version}
        for event_write in commit.events:
            yield self._event(event_write)
        if commit.graph is not None:
            yield "add_graph", self._named(tables.GRAPHS, commit.graph)

    def _event(self, write: EventWrite) -> Named:
        event = write.event
        if event.received_by is None:
            return "add_event", self._named(EVENTS, event)
        # Receiving an event does not change its content.
        known = self.data.events[(event.workflow_id, event.event_id)]
        taken = replace(known, received_by=event.received_by, received_at=event.received_at)
        return "take_event", self._named(EVENTS, taken)

    def _run(self, workflow_id: str, update: RunUpdate) -> Iterator[Named]:
        run = replace(
            self.data.runs[workflow_id],
            status=update.status,
            updated_at=update.at,
            failure=update.failure,
            waits=update.waits,
        )
        changed = RUNS.named(self._stored(RUNS.row(run)))
        if not update.release:
            yield "update_run", changed
        else:
            yield "release_run" if update.status in _NOT_OVER else "end_run", changed
            yield "end_opening", self._opening(released(run, update))
        if update.traceparent is not None:
            traced = {"workflow_id": workflow_id, "traceparent": update.traceparent}
            yield "trace_run", traced
            yield "trace_opening", {**traced, "epoch": run.epoch}
        if update.graph_id is not None:
            bound = self._named(RUNS, replace(run, graph_id=update.graph_id))
            yield "bind_run", bound

    def _readiness(self, commit: Commit) -> Iterator[Named]:
        """Keep ``runs.ready_at`` true."""
        released = commit.run if commit.run is not None and commit.run.release else None
        is_over = released is not None and released.status not in _NOT_OVER
        enqueued = commit.claim is not None and commit.claim.run.holder_id is None
        if not is_over and (released or enqueued):
            yield "ready_since", {"workflow_id": commit.workflow_id}
        elif commit.fence is None and (commit.reviews or commit.events):
            yield "ready_unless_held", {"workflow_id": commit.workflow_id}
        run = self.data.runs.get(commit.workflow_id)
        parent = None if run is None else run.parent_id
        if is_over and parent is not None:
            yield from self._before_parent(parent)
            yield "ready_unless_held", {"workflow_id": parent}

    def _newest(self, commit: Commit) -> int | None:
        """The newest checkpoint that remains, if this commit removes some."""
        if commit.removal is not None and commit.removal.rest:
            return -1
        if not commit.dropped:
            return None
        return self._newest_kept.get(commit.workflow_id, -1)
