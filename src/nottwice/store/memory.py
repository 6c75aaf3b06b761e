"""A ledger in memory, with the semantics of the durable ones: for unit tests and dry runs.

It survives nothing but a ``close()``: a second MemoryStore on the same data stands for the next
process, and the first one, once closed, for a dead holder.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections import Counter
from collections.abc import Collection, Iterable
from concurrent.futures import Future
from dataclasses import replace

from nottwice.errors import KeyMissing
from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.places import is_inside
from nottwice.model.review import AuditEntry, Evidence, Review
from nottwice.model.run import (
    CheckpointRecord,
    EventRecord,
    GraphRecord,
    HolderRecord,
    LastVisit,
    Life,
    RunCount,
    RunRecord,
    RunStatus,
    Standing,
    StepRecord,
)
from nottwice.model.tally import Tally
from nottwice.store.interface import LEDGER, Commit
from nottwice.store.rules import MemoryData as MemoryData
from nottwice.store.rules import (
    apply,
    charged,
    check,
    is_expired,
    is_run_of,
    open_reviews,
    ready_since,
)
from nottwice.store.tally import tally


class MemoryStore:
    """A ledger that lives as long as its data."""

    location = ":memory:"

    # Nothing to wait for.
    reads_can_block = False

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
            check(self.data, commit)
            apply(self.data, commit)

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

    def calls(
        self, workflow_id: str, *, limit: int | None = None, after: CallIdentity | None = None
    ) -> list[CallRow]:
        with self.data.guard:
            found = _oldest_first(self.data.calls.of("run", workflow_id))
        if after is not None:
            places = {row.identity: place for place, row in enumerate(found)}
            found = found[places.get(after, len(found)) + 1 :]
        return found[:limit]

    def last_calls(
        self, workflow_id: str, *, limit: int, before: CallIdentity | None = None
    ) -> list[CallRow]:
        found = self.calls(workflow_id)
        if before is not None:
            places = {row.identity: place for place, row in enumerate(found)}
            found = found[: places.get(before, 0)]
        return found[max(0, len(found) - limit) :]

    def count_calls(self, workflow_id: str) -> int:
        with self.data.guard:
            return self.data.calls.count("run", workflow_id)

    def calls_in_doubt(self, workflow_id: str | None = None) -> list[CallRow]:
        with self.data.guard:
            found = self.data.calls.of("in_doubt", workflow_id)
        return _oldest_first(found)

    def standing(self, workflow_id: str) -> Standing:
        steps = self.steps(workflow_id)
        return Standing(
            in_doubt=bool(self.calls_in_doubt(workflow_id)),
            reviews=bool(self.open_reviews(workflow_id)),
            events=bool(self.events(workflow_id)),
            ledger_audit=bool(self.audit(LEDGER)),
            last_ordinal=steps[-1].ordinal if steps else 0,
        )

    def calls_under(
        self, workflow_id: str, node_id: str, *, visit: str | None = None
    ) -> list[CallRow]:
        with self.data.guard:
            if visit is None:
                found = self.data.calls.of("run", workflow_id)
            else:
                found = self.data.calls.of("visit", (workflow_id, visit))
        return _oldest_first(row for row in found if is_inside(row.identity.node_id, node_id))

    def steps(
        self, workflow_id: str, *, after: int = -1, in_progress_at: str | None = None
    ) -> list[StepRecord]:
        with self.data.guard:
            if in_progress_at is None:
                found = self.data.steps.of("run", workflow_id)
            else:
                found = self.data.steps.of("in_progress", (workflow_id, in_progress_at))
        later = [step for step in found if step.ordinal > after]
        return sorted(later, key=lambda step: step.ordinal)

    def last_visits(self, workflow_id: str) -> list[LastVisit]:
        steps = self.steps(workflow_id)
        visits = Counter(step.node_id for step in steps)
        last = {step.node_id: step for step in steps}
        by_ordinal = sorted(last.values(), key=lambda step: step.ordinal)
        return [LastVisit(step, visits[step.node_id]) for step in by_ordinal]

    def last_use_of_key(self, tool_name: str, key: str) -> CallRow | None:
        with self.data.guard:
            uses = self.data.calls.of("key", (tool_name, key))
        return _oldest_first(uses)[-1] if uses else None

    def runs(
        self,
        *,
        limit: int | None = None,
        prefix: str = "",
        graph: str | None = None,
        status: RunStatus | None = None,
        queued: bool | None = None,
        before: RunRecord | None = None,
    ) -> list[RunRecord]:
        found = [
            run
            for run in self._chosen(prefix, graph)
            if status in (None, run.status)
            and queued in (None, run.is_queued)
            and (before is None or _last_changed(run) < _last_changed(before))
        ]
        return sorted(found, key=_last_changed, reverse=True)[:limit]

    def count_runs(self, *, prefix: str = "", graph: str | None = None) -> list[RunCount]:
        runs: Counter[tuple[RunStatus, str | None]] = Counter()
        queued: Counter[tuple[RunStatus, str | None]] = Counter()
        for run in self._chosen(prefix, graph):
            where = run.status, run.holder_id if run.status is RunStatus.RUNNING else None
            runs[where] += 1
            queued[where] += run.is_queued
        return [RunCount(*where, number, queued[where]) for where, number in runs.items()]

    def tally(
        self,
        *,
        now: float,
        prefix: str = "",
        graph: str | None = None,
        over: bool = True,
        limit: int = 0,
    ) -> Tally:
        runs = [run for run in self._chosen(prefix, graph) if over or not run.status.is_final]
        with self.data.guard:
            return tally(self.data, runs, now=now, limit=limit)

    def _chosen(self, prefix: str, graph: str | None) -> list[RunRecord]:
        with self.data.guard:
            found = [run for run in self.data.runs.values() if run.workflow_id.startswith(prefix)]
        if graph is None:
            return found
        return [run for run in found if is_run_of(run.graph_id, graph)]

    def reviews(self, workflow_id: str | None = None) -> list[Review]:
        with self.data.guard:
            if workflow_id is None:
                found = list(self.data.reviews.values())
            else:
                found = self.data.reviews.of("run", workflow_id)
        return sorted(found, key=lambda review: (review.opened_at, review.review_id))

    def open_reviews(self, workflow_id: str | None = None) -> list[Review]:
        with self.data.guard:
            return open_reviews(self.data, workflow_id)

    def find_reviews(self, prefix: str) -> list[Review]:
        found = [review for review in self.reviews() if review.review_id.startswith(prefix)]
        return sorted(found, key=lambda review: review.review_id)

    def evidence(self, workflow_id: str, call_id: str | None = None) -> list[Evidence]:
        with self.data.guard:
            if call_id is None:
                found = self.data.evidence.keys_of("run", workflow_id)
            else:
                found = self.data.evidence.keys_of("call", (workflow_id, call_id))
        return sorted(found, key=lambda item: item.at)

    def audit(self, workflow_id: str | None = None) -> list[AuditEntry]:
        with self.data.guard:
            if workflow_id is None:
                found = list(self.data.audit)
            else:
                found = self.data.audit.keys_of("run", workflow_id)
        return sorted(found, key=lambda entry: entry.at)

    def charged(self, meter: str, *, since: float | None = None, besides: str = "") -> int:
        with self.data.guard:
            return charged(self.data, meter, since=since, besides=besides)

    def checkpoint_chain(
        self, workflow_id: str, version: int | None = None
    ) -> list[CheckpointRecord]:
        with self.data.guard:
            kept = self._checkpoints(workflow_id)
        if version is None and kept:
            version = kept[-1].version
        wanted = next((one for one in kept if one.version == version), None)
        if wanted is None:
            return []
        first, last = sorted((wanted.version, wanted.snapshot))
        if wanted.is_turned:
            first = next((one.snapshot for one in kept if one.version == last), first)
        return [
            one
            for one in kept
            if first <= one.version <= last and (not one.is_turned or one.version >= wanted.version)
        ]

    def checkpoints(self, workflow_id: str) -> list[CheckpointRecord]:
        with self.data.guard:
            return [replace(one, json="") for one in self._checkpoints(workflow_id)]

    def _checkpoints(self, workflow_id: str) -> list[CheckpointRecord]:
        kept = self.data.checkpoints.of("run", workflow_id)
        return sorted(kept, key=lambda one: one.version)

    def events(self, workflow_id: str, name: str | None = None) -> list[EventRecord]:
        with self.data.guard:
            told = self.data.events.of("run", workflow_id)
        found = [event for event in told if name in (None, event.name)]
        return sorted(found, key=lambda event: event.sent_at)

    def load_graph(self, graph_id: str) -> GraphRecord | None:
        return self.data.graphs.get(graph_id)

    def graphs(self) -> list[GraphRecord]:
        with self.data.guard:
            return sorted(self.data.graphs.values(), key=lambda graph: graph.graph_id)

    def children(self, workflow_id: str) -> list[RunRecord]:
        with self.data.guard:
            found = self.data.runs.of("parent", workflow_id)
        return sorted(found, key=lambda run: (run.created_at, run.workflow_id))

    def ready_runs(
        self, *, begun: bool, now: float, limit: int, without: Collection[str] = ()
    ) -> list[RunRecord]:
        found: list[tuple[float, str, RunRecord]] = []
        with self.data.guard:
            for run in self.data.runs.values():
                since = ready_since(self.data, run, now=now)
                if since is None or run.graph_id in without:
                    continue
                if begun == (run.epoch > 0):
                    found.append((since, run.workflow_id, run))
        found.sort(key=lambda one: one[:2])
        return [run for _, _, run in found[:limit]]

    def holders_of_runs(self) -> list[str]:
        with self.data.guard:
            runs = list(self.data.runs.values())
        return sorted({run.holder_id for run in runs if run.holder_id and run.graph_id})

    def runs_held_by(self, holder_id: str) -> list[RunRecord]:
        with self.data.guard:
            runs = list(self.data.runs.values())
        held = [run for run in runs if run.holder_id == holder_id and run.graph_id is not None]
        return sorted(held, key=lambda run: (run.claimed_at or 0.0, run.workflow_id))

    def expired_runs(
        self, *, ended_before: float, due_before: float, limit: int, after: str = ""
    ) -> list[RunRecord]:
        with self.data.guard:
            found = [
                run
                for run in self.data.runs.values()
                if run.workflow_id > after
                and is_expired(run, ended_before=ended_before, due_before=due_before)
            ]
        return sorted(found, key=lambda run: run.workflow_id)[:limit]

    def load_head(self, workflow_id: str) -> str | None:
        return None

    def flaws(self, workflow_id: str, *, thorough: bool = False) -> list[str]:
        # Nobody else can write here.
        return []

    def adopt(self, workflow_id: str, *, entry: AuditEntry) -> None:
        raise KeyMissing("A ledger in memory has no key and needs no seals. Nothing was changed.")

    def close(self) -> None:
        """The holder is gone; the data stays for whoever has it."""
        self.data.alive.discard(self._holder.holder_id)


def _last_changed(run: RunRecord) -> tuple[float, str]:
    return run.updated_at, run.workflow_id


def _oldest_first(rows: Iterable[CallRow]) -> list[CallRow]:
    return sorted(rows, key=lambda row: row.created_at)
