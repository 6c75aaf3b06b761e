"""A ledger in memory, with the semantics of the durable ones: for unit tests and dry runs.

It survives nothing but a ``close()``: a second MemoryStore on the same data stands for the next
process, and the first one, once closed, for a dead holder.
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from nottwice.errors import Fenced, KeyConflict
from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.review import AuditEntry, Evidence, Review, ReviewStatus
from nottwice.model.run import (
    CheckpointRecord,
    EventRecord,
    GraphRecord,
    HolderRecord,
    Life,
    RunRecord,
    StepRecord,
)
from nottwice.store.interface import (
    Blocked,
    CallWrite,
    Claim,
    Commit,
    EventWrite,
    Outdated,
    ReviewWrite,
    both_pure,
    key_conflict_text,
    may_take,
)

_WAITING = (ReviewStatus.OPEN, ReviewStatus.DECIDED)


@dataclass
class MemoryData:
    """What a MemoryStore keeps."""

    guard: threading.RLock = field(default_factory=threading.RLock)
    runs: dict[str, RunRecord] = field(default_factory=dict)
    calls: dict[CallIdentity, CallRow] = field(default_factory=dict)
    steps: dict[tuple[str, str, str], StepRecord] = field(default_factory=dict)
    reviews: dict[str, Review] = field(default_factory=dict)
    evidence: dict[Evidence, None] = field(default_factory=dict)
    audit: dict[AuditEntry, None] = field(default_factory=dict)
    checkpoints: dict[tuple[str, int], CheckpointRecord] = field(default_factory=dict)
    events: dict[tuple[str, str], EventRecord] = field(default_factory=dict)
    graphs: dict[str, GraphRecord] = field(default_factory=dict)
    holders: dict[str, HolderRecord] = field(default_factory=dict)
    alive: set[str] = field(default_factory=set)


class MemoryStore:
    """A ledger that lives as long as its data."""

    location = ":memory:"

    def __init__(self, data: MemoryData | None = None, *, now: float = 0.0) -> None:
        self.data = data or MemoryData()
        self._holder = HolderRecord(
            holder_id=uuid.uuid4().hex,
            host=socket.gethostname(),
            machine_id="",
            boot_id="",
            pid_namespace="",
            pid=os.getpid(),
            pid_started="",
            since=now,
        )

    def commit(self, commit: Commit) -> None:
        with self.data.guard:
            self._check(commit)
            self._apply(commit)

    def commit_soon(self, commit: Commit) -> Future[None]:
        future: Future[None] = Future()
        try:
            self.commit(commit)
            future.set_result(None)
        except Exception as error:
            future.set_exception(error)
        return future

    def holder(self) -> HolderRecord:
        self.data.holders[self._holder.holder_id] = self._holder
        self.data.alive.add(self._holder.holder_id)
        return self._holder

    def load_holder(self, holder_id: str) -> HolderRecord | None:
        return self.data.holders.get(holder_id)

    def life_of(self, holder_id: str) -> Life:
        if holder_id not in self.data.holders:
            return Life.NOT_PROVEN
        return Life.ALIVE if holder_id in self.data.alive else Life.DEAD

    def load_run(self, workflow_id: str) -> RunRecord | None:
        return self.data.runs.get(workflow_id)

    def load_call(self, identity: CallIdentity) -> CallRow | None:
        return self.data.calls.get(identity)

    def load_step(self, workflow_id: str, node_id: str, checkpoint_id: str) -> StepRecord | None:
        return self.data.steps.get((workflow_id, node_id, checkpoint_id))

    def load_review(self, review_id: str) -> Review | None:
        return self.data.reviews.get(review_id)

    def calls(self, workflow_id: str) -> list[CallRow]:
        with self.data.guard:
            found = [
                row for row in self.data.calls.values() if row.identity.workflow_id == workflow_id
            ]
        return sorted(found, key=lambda row: row.created_at)

    def calls_in_doubt(self, workflow_id: str) -> list[CallRow]:
        return [row for row in self.calls(workflow_id) if row.status.in_doubt]

    def calls_under(self, workflow_id: str, node_id: str) -> list[CallRow]:
        return [
            row
            for row in self.calls(workflow_id)
            if row.identity.node_id == node_id
            or row.identity.node_id.startswith((node_id + "/", node_id + "["))
        ]

    def steps(self, workflow_id: str) -> list[StepRecord]:
        with self.data.guard:
            found = [step for step in self.data.steps.values() if step.workflow_id == workflow_id]
        return sorted(found, key=lambda step: step.ordinal)

    def last_use_of_key(self, tool_name: str, key: str) -> CallRow | None:
        with self.data.guard:
            uses = [
                row
                for row in self.data.calls.values()
                if row.identity.tool_name == tool_name and row.key == key
            ]
        return sorted(uses, key=lambda row: row.created_at)[-1] if uses else None

    def runs(self, *, limit: int | None = None, prefix: str = "") -> list[RunRecord]:
        with self.data.guard:
            found = [run for run in self.data.runs.values() if run.workflow_id.startswith(prefix)]
        found.sort(key=lambda run: (run.updated_at, run.workflow_id), reverse=True)
        return found[:limit]

    def reviews(self, workflow_id: str | None = None) -> list[Review]:
        with self.data.guard:
            found = [
                review
                for review in self.data.reviews.values()
                if workflow_id in (None, review.identity.workflow_id)
            ]
        return sorted(found, key=lambda review: (review.opened_at, review.review_id))

    def open_reviews(self, workflow_id: str | None = None) -> list[Review]:
        return [review for review in self.reviews(workflow_id) if review.status in _WAITING]

    def find_reviews(self, prefix: str) -> list[Review]:
        found = [review for review in self.reviews() if review.review_id.startswith(prefix)]
        return sorted(found, key=lambda review: review.review_id)

    def evidence(self, workflow_id: str, call_id: str | None = None) -> list[Evidence]:
        with self.data.guard:
            found = [
                item
                for item in self.data.evidence
                if item.workflow_id == workflow_id and call_id in (None, item.call_id)
            ]
        return sorted(found, key=lambda item: item.at)

    def audit(self, workflow_id: str | None = None) -> list[AuditEntry]:
        with self.data.guard:
            found = [entry for entry in self.data.audit if workflow_id in (None, entry.workflow_id)]
        return sorted(found, key=lambda entry: entry.at)

    def checkpoint_chain(
        self, workflow_id: str, version: int | None = None
    ) -> list[CheckpointRecord]:
        with self.data.guard:
            kept = self._checkpoints(workflow_id)
        if version is None and kept:
            version = kept[-1].version
        last = next((one for one in kept if one.version == version), None)
        if last is None:
            return []
        return [one for one in kept if last.snapshot <= one.version <= last.version]

    def checkpoints(self, workflow_id: str) -> list[CheckpointRecord]:
        with self.data.guard:
            return [replace(one, json="") for one in self._checkpoints(workflow_id)]

    def _checkpoints(self, workflow_id: str) -> list[CheckpointRecord]:
        kept = [one for one in self.data.checkpoints.values() if one.workflow_id == workflow_id]
        return sorted(kept, key=lambda one: one.version)

    def events(self, workflow_id: str, name: str | None = None) -> list[EventRecord]:
        with self.data.guard:
            found = [
                event
                for event in self.data.events.values()
                if event.workflow_id == workflow_id and name in (None, event.name)
            ]
        return sorted(found, key=lambda event: event.sent_at)

    def load_graph(self, graph_id: str) -> GraphRecord | None:
        return self.data.graphs.get(graph_id)

    def graphs(self) -> list[GraphRecord]:
        with self.data.guard:
            return sorted(self.data.graphs.values(), key=lambda graph: graph.graph_id)

    def children(self, workflow_id: str) -> list[RunRecord]:
        with self.data.guard:
            found = [run for run in self.data.runs.values() if run.parent_id == workflow_id]
        return sorted(found, key=lambda run: (run.created_at, run.workflow_id))

    def close(self) -> None:
        """The holder is gone; the data stays for whoever has it."""
        self.data.alive.discard(self._holder.holder_id)

    # Preconditions first, all of them; then the writes.

    def _check(self, commit: Commit) -> None:
        if commit.fence is not None:
            self._check_fence(commit)
        if commit.unless_blocked:
            waiting = [one for one in self.open_reviews(commit.workflow_id) if one.blocks]
            if waiting:
                raise Blocked(waiting)
        if commit.claim is not None:
            self._check_claim(commit.claim)
        for write in commit.calls:
            self._check_call(write)
        for review_write in commit.reviews:
            self._check_review(review_write)
        for event_write in commit.events:
            self._check_event(event_write)

    def _check_fence(self, commit: Commit) -> None:
        run, fence = self.data.runs.get(commit.workflow_id), commit.fence
        assert fence is not None
        if run is not None and run.epoch == fence.epoch:
            released_before = commit.run is not None and commit.run.release
            if run.holder_id == fence.holder_id or (released_before and run.holder_id is None):
                return
        raise Fenced(f"Run {commit.workflow_id!r} was taken over. Nothing was written.")

    def _check_claim(self, claim: Claim) -> None:
        run = self.data.runs.get(claim.run.workflow_id)
        epoch = None if run is None else run.epoch
        if epoch != claim.after_epoch and run != claim.run:
            raise Outdated(f"epoch {epoch}")

    def _check_call(self, write: CallWrite) -> None:
        row = write.row
        found = self.data.calls.get(row.identity)
        if found is not None:
            if found.state != write.after and found != row and not both_pure(found, row):
                raise Outdated(f"call {row.call_id} is {found.status.value}")
            return
        if write.after is not None:
            raise Outdated(f"call {row.call_id} is gone")
        for other in self.data.calls.values():
            if (
                row.key is not None
                and (other.key, other.identity.tool_name) == (row.key, row.identity.tool_name)
                and other.identity.input_hash != row.identity.input_hash
            ):
                raise KeyConflict(key_conflict_text(row, other_run=other.identity.workflow_id))

    def _check_review(self, write: ReviewWrite) -> None:
        found = self.data.reviews.get(write.review.review_id)
        version = None if found is None else found.version
        same_run = found is None or found.identity.workflow_id == write.review.identity.workflow_id
        if (version != write.after_version or not same_run) and found != write.review:
            raise Outdated(f"review {write.review.review_id} has version {version}")

    def _check_event(self, write: EventWrite) -> None:
        event = write.event
        found = self.data.events.get((event.workflow_id, event.event_id))
        if event.received_by is not None and (found is None or not may_take(found, event)):
            raise Outdated(f"event {event.event_id} was taken")

    def _apply(self, commit: Commit) -> None:
        data = self.data
        if commit.claim is not None:
            data.runs[commit.workflow_id] = commit.claim.run
        for write in commit.calls:
            data.calls[write.row.identity] = self._kept(write.row)
        for step in commit.steps:
            data.steps[(step.workflow_id, step.node_id, step.checkpoint_id)] = step
        for review_write in commit.reviews:
            data.reviews[review_write.review.review_id] = review_write.review
        for item in commit.evidence:
            # The same words about the same attempt at the same time are one item.
            said = {replace(known, result=None) for known in data.evidence}
            if replace(item, result=None) not in said:
                data.evidence[item] = None
        data.audit.update(dict.fromkeys(commit.audit))
        for checkpoint in commit.checkpoints:
            data.checkpoints[(checkpoint.workflow_id, checkpoint.version)] = checkpoint
        for version in commit.dropped:
            data.checkpoints.pop((commit.workflow_id, version), None)
        for event_write in commit.events:
            event = event_write.event
            where = (event.workflow_id, event.event_id)
            if event.received_by is not None or where not in data.events:
                data.events[where] = event
        if commit.graph is not None:
            data.graphs.setdefault(commit.graph.graph_id, commit.graph)
        if commit.run is not None:
            run, update = data.runs[commit.workflow_id], commit.run
            data.runs[commit.workflow_id] = replace(
                run,
                status=update.status,
                updated_at=update.at,
                failure=update.failure,
                holder_id=None if update.release else run.holder_id,
                waits=update.waits,
            )

    def _kept(self, row: CallRow) -> CallRow:
        """The row with what is never recomputed once it was stored (P9)."""
        found = self.data.calls.get(row.identity)
        if found is None:
            return row
        names = "call_id replay_class args_json created_at label key key_since window_seconds"
        kept = {name: getattr(found, name) for name in (*names.split(), "trace_id")}
        return row._replace(**kept)
