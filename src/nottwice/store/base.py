"""How does a store answer every question of the engine? From a few primitives.

A custom store derives from :class:`StoreBase` and defines how a commit becomes durable, which
records exist, and which holders are alive. All other methods of ``Store`` follow from these, and so
will methods that later versions of nottwice need. A store that can answer faster overrides the
method. Promise kept here: P217.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable
from concurrent.futures import Future
from dataclasses import replace

from nottwice.errors import KeyMissing, UsageError
from nottwice.model.call import CallIdentity, CallRow
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
from nottwice.model.runs.labels import Tags
from nottwice.model.runs.limits import LimitUse, Meter
from nottwice.model.runs.openings import OpeningRecord
from nottwice.model.runs.places import is_inside
from nottwice.model.runs.tally import ReadyCount, Tally
from nottwice.model.runs.workers import WorkerRecord
from nottwice.model.tools.tool_record import ToolRecord
from nottwice.store import rules
from nottwice.store.claiming import ClaimedRun, ClaimRequest
from nottwice.store.interface import LEDGER, Commit
from nottwice.store.outbox import Outbox
from nottwice.store.rules import MemoryData
from nottwice.store.tally import tally


class StoreBase(Outbox):
    """A store that answers every question from its records."""

    location: str
    """Where the ledger is, in a form for people."""
    reads_can_block: bool = True
    """Whether a read may have to wait; see ``Store``."""
    claims_many: bool = False
    """Whether ``claim_ready`` claims runs; see ``Store``."""
    keeps_limits: bool = False
    """Whether ``acquire`` counts; see ``Store``."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r})"

    # Primitives

    @abstractmethod
    def commit(self, commit: Commit) -> None:
        """Apply one commit completely or not at all; see ``Store.commit``.

        Durable: when it returns. ``rules.check`` refuses what must not be written, and
        ``rules.apply`` makes the changes.
        """

    @abstractmethod
    def holder(self) -> HolderRecord:
        """This process as a holder; see ``Store.holder``."""

    @abstractmethod
    def load_holder(self, holder_id: str) -> HolderRecord | None:
        """A process that held runs."""

    @abstractmethod
    def life_of(self, holder_id: str) -> Life:
        """What can be proven about a holder now. NOT_PROVEN is always safe."""

    @abstractmethod
    def records(self, workflow_id: str) -> MemoryData:
        """All records of one run; empty if there is no such run."""

    @abstractmethod
    def all_records(self) -> MemoryData:
        """All records of the ledger, of every run."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources. Everything that was reported durable stays durable."""

    # What follows from the primitives

    def commit_soon(self, commit: Commit) -> Future[None]:
        future: Future[None] = Future()
        try:
            self.commit(commit)
            future.set_result(None)
        except Exception as error:
            future.set_exception(error)
        return future

    def lease_left(self, holder_id: str) -> float | None:
        return None

    def load_run(self, workflow_id: str) -> RunRecord | None:
        return self.records(workflow_id).runs.get(workflow_id)

    def load_runs(self, run_ids: Collection[str]) -> dict[str, RunRecord]:
        found = ((run_id, self.load_run(run_id)) for run_id in run_ids)
        return {run_id: run for run_id, run in found if run is not None}

    def load_call(self, identity: CallIdentity) -> CallRow | None:
        return self.records(identity.workflow_id).calls.get(identity)

    def load_step(self, workflow_id: str, node_id: str, checkpoint_id: str) -> StepRecord | None:
        return self.records(workflow_id).steps.get((workflow_id, node_id, checkpoint_id))

    def load_review(self, review_id: str) -> Review | None:
        return self.all_records().reviews.get(review_id)

    def load_graph(self, graph_id: str) -> GraphRecord | None:
        return self.all_records().graphs.get(graph_id)

    def _some(self, workflow_id: str | None) -> MemoryData:
        return self.all_records() if workflow_id is None else self.records(workflow_id)

    # Calls

    def calls(
        self, workflow_id: str, *, limit: int | None = None, after: CallIdentity | None = None
    ) -> list[CallRow]:
        data = self.records(workflow_id)
        with data.guard:
            found = _oldest_first(data.calls.of("run", workflow_id))
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
        data = self.records(workflow_id)
        with data.guard:
            return data.calls.count("run", workflow_id)

    def calls_in_doubt(self, workflow_id: str | None = None) -> list[CallRow]:
        data = self._some(workflow_id)
        with data.guard:
            return _oldest_first(data.calls.of("in_doubt", workflow_id))

    def calls_under(
        self, workflow_id: str, node_id: str, *, visit: str | None = None
    ) -> list[CallRow]:
        data = self.records(workflow_id)
        with data.guard:
            if visit is None:
                found = data.calls.of("run", workflow_id)
            else:
                found = data.calls.of("visit", (workflow_id, visit))
        return _oldest_first(row for row in found if is_inside(row.identity.node_id, node_id))

    def last_use_of_key(self, tool_name: str, key: str) -> CallRow | None:
        data = self.all_records()
        with data.guard:
            uses = _oldest_first(data.calls.of("key", (tool_name, key)))
        return uses[-1] if uses else None

    def standing(self, workflow_id: str) -> Standing:
        steps = self.steps(workflow_id)
        return Standing(
            in_doubt=bool(self.calls_in_doubt(workflow_id)),
            reviews=bool(self.open_reviews(workflow_id)),
            events=bool(self.events(workflow_id)),
            ledger_audit=bool(self.audit(LEDGER)),
            last_ordinal=steps[-1].ordinal if steps else 0,
        )

    # Steps, checkpoints, events, graphs

    def steps(
        self, workflow_id: str, *, after: int = -1, in_progress_at: str | None = None
    ) -> list[StepRecord]:
        data = self.records(workflow_id)
        with data.guard:
            if in_progress_at is None:
                found = data.steps.of("run", workflow_id)
            else:
                found = data.steps.of("in_progress", (workflow_id, in_progress_at))
        later = [step for step in found if step.ordinal > after]
        return sorted(later, key=lambda step: step.ordinal)

    def last_visits(self, workflow_id: str) -> list[LastVisit]:
        steps = self.steps(workflow_id)
        visits = Counter(step.node_id for step in steps)
        last = {step.node_id: step for step in steps}
        by_ordinal = sorted(last.values(), key=lambda step: step.ordinal)
        return [LastVisit(step, visits[step.node_id]) for step in by_ordinal]

    def checkpoint_chain(
        self, workflow_id: str, version: int | None = None
    ) -> list[CheckpointRecord]:
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
        return [replace(one, json="") for one in self._checkpoints(workflow_id)]

    def _checkpoints(self, workflow_id: str) -> list[CheckpointRecord]:
        data = self.records(workflow_id)
        with data.guard:
            kept = data.checkpoints.of("run", workflow_id)
        return sorted(kept, key=lambda one: one.version)

    def events(self, workflow_id: str, name: str | None = None) -> list[EventRecord]:
        data = self.records(workflow_id)
        with data.guard:
            told = data.events.of("run", workflow_id)
        found = [event for event in told if name in (None, event.name)]
        return sorted(found, key=lambda event: event.sent_at)

    def graphs(self) -> list[GraphRecord]:
        data = self.all_records()
        with data.guard:
            return sorted(data.graphs.values(), key=lambda graph: graph.graph_id)

    # Runs

    def runs(
        self,
        *,
        limit: int | None = None,
        prefix: str = "",
        graph: str | None = None,
        status: RunStatus | None = None,
        queued: bool | None = None,
        before: RunRecord | None = None,
        tags: Tags = (),
        group: str | None = None,
    ) -> list[RunRecord]:
        found = [
            run
            for run in _chosen(self.all_records(), prefix, graph, tags, group)
            if status in (None, run.status)
            and queued in (None, run.is_queued)
            and (before is None or _last_changed(run) < _last_changed(before))
        ]
        return sorted(found, key=_last_changed, reverse=True)[:limit]

    def count_runs(
        self,
        *,
        prefix: str = "",
        graph: str | None = None,
        tags: Tags = (),
        group: str | None = None,
    ) -> list[RunCount]:
        runs: Counter[tuple[RunStatus, str | None]] = Counter()
        queued: Counter[tuple[RunStatus, str | None]] = Counter()
        for run in _chosen(self.all_records(), prefix, graph, tags, group):
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
        only_waiting: bool = False,
        limit: int = 0,
    ) -> Tally:
        data = self.all_records()
        chosen = _chosen(data, prefix, graph)
        runs = [run for run in chosen if not only_waiting or run.status is RunStatus.WAITING]
        with data.guard:
            return tally(data, runs, now=now, limit=limit)

    def children(self, workflow_id: str) -> list[RunRecord]:
        data = self.all_records()
        with data.guard:
            found = data.runs.of("parent", workflow_id)
        return sorted(found, key=lambda run: (run.created_at, run.workflow_id))

    def openings(self, workflow_id: str) -> list[OpeningRecord]:
        data = self.records(workflow_id)
        with data.guard:
            found = data.openings.of("run", workflow_id)
        return sorted(found, key=lambda opening: opening.epoch)

    def load_tool(self, tool_name: str) -> ToolRecord | None:
        return self.all_records().tools.get(tool_name)

    def tools(self) -> list[ToolRecord]:
        data = self.all_records()
        with data.guard:
            return sorted(data.tools.values(), key=lambda tool: tool.tool_name)

    def ready_runs(
        self, *, begun: bool, now: float, limit: int, without: Collection[str] = ()
    ) -> list[RunRecord]:
        found: list[tuple[float, str, RunRecord]] = []
        data = self.all_records()
        with data.guard:
            for run in data.runs.values():
                since = rules.ready_since(data, run, now=now)
                if since is None or run.graph_id in without:
                    continue
                if begun == (run.epoch > 0):
                    found.append((since, run.workflow_id, run))
        found.sort(key=lambda one: one[:2])
        return [run for _, _, run in found[:limit]]

    def claim_ready(self, wanted: ClaimRequest) -> list[ClaimedRun]:
        return []

    def lives(self) -> dict[str, Life]:
        return {holder_id: self.life_of(holder_id) for holder_id in self.holders_of_runs()}

    def count_ready(self, *, now: float, limit: int) -> list[ReadyCount]:
        counted: dict[tuple[str, bool], list[float]] = {}
        data = self.all_records()
        with data.guard:
            for run in data.runs.values():
                since = rules.ready_since(data, run, now=now)
                if since is not None and run.graph_id is not None:
                    counted.setdefault((run.graph_id, run.epoch > 0), []).append(since)
        found: dict[str, ReadyCount] = {}
        for (graph_id, _), moments in counted.items():
            known = found.get(graph_id, ReadyCount(graph_id, 0, min(moments)))
            runs, oldest_at = known.runs + min(len(moments), limit), min(*moments, known.oldest_at)
            found[graph_id] = ReadyCount(graph_id, runs, oldest_at)
        return [found[graph_id] for graph_id in sorted(found)]

    def holders_of_runs(self) -> list[str]:
        runs = self.all_records().list_runs()
        return sorted({run.holder_id for run in runs if run.holder_id and run.graph_id})

    def runs_held_by(self, holder_id: str) -> list[RunRecord]:
        runs = self.all_records().list_runs()
        held = [run for run in runs if run.holder_id == holder_id and run.graph_id is not None]
        return sorted(held, key=lambda run: (run.claimed_at or 0.0, run.workflow_id))

    def expired_runs(
        self, *, ended_before: float, due_before: float, limit: int, after: str = ""
    ) -> list[RunRecord]:
        found = [
            run
            for run in self.all_records().list_runs()
            if run.workflow_id > after
            and rules.is_expired(run, ended_before=ended_before, due_before=due_before)
        ]
        return sorted(found, key=lambda run: run.workflow_id)[:limit]

    # People

    def reviews(self, workflow_id: str | None = None) -> list[Review]:
        data = self._some(workflow_id)
        with data.guard:
            if workflow_id is None:
                found = list(data.reviews.values())
            else:
                found = data.reviews.of("run", workflow_id)
        return sorted(found, key=lambda review: (review.opened_at, review.review_id))

    def open_reviews(self, workflow_id: str | None = None) -> list[Review]:
        data = self._some(workflow_id)
        with data.guard:
            return rules.open_reviews(data, workflow_id)

    def find_reviews(self, prefix: str) -> list[Review]:
        found = [review for review in self.reviews() if review.review_id.startswith(prefix)]
        return sorted(found, key=lambda review: review.review_id)

    def group_reviews(self, group: str) -> list[Review]:
        data = self.all_records()
        with data.guard:
            return rules.reviews_of_group(data, group)

    def evidence(self, workflow_id: str, call_id: str | None = None) -> list[Evidence]:
        data = self.records(workflow_id)
        with data.guard:
            if call_id is None:
                found = data.evidence.keys_of("run", workflow_id)
            else:
                found = data.evidence.keys_of("call", (workflow_id, call_id))
        return sorted(found, key=lambda item: item.at)

    def audit(self, workflow_id: str | None = None) -> list[AuditEntry]:
        data = self._some(workflow_id)
        with data.guard:
            if workflow_id is None:
                found = list(data.audit)
            else:
                found = data.audit.keys_of("run", workflow_id)
        return sorted(found, key=lambda entry: entry.at)

    def charged(self, meter: str, *, since: float | None = None, besides: str = "") -> int:
        data = self.all_records()
        with data.guard:
            return rules.charged(data, meter, since=since, besides=besides)

    # Workers: a store keeps no records of them unless it overrides these methods.

    def announce(self, worker: WorkerRecord) -> None:
        pass

    def workers(self, *, now: float) -> list[WorkerRecord]:
        return []

    def forget_workers(self, ids: Collection[str]) -> None:
        pass

    # Limits: a store keeps none unless it overrides these methods.

    def acquire(self, use: LimitUse, *, now: float) -> tuple[float, Meter] | None:
        raise UsageError(
            f"The store {self.location} keeps no limits. Nothing was started. Use SQLite or "
            "PostgreSQL, or leave limits= out."
        )

    def end_use(self, use: LimitUse) -> None:
        raise UsageError(f"The store {self.location} keeps no limits. Nothing was changed.")

    # Seals: a store has none unless it overrides these methods.

    def load_head(self, workflow_id: str) -> str | None:
        return None

    def flaws(self, workflow_id: str, *, thorough: bool = False) -> list[str]:
        return []

    def adopt(self, workflow_id: str, *, entry: AuditEntry) -> None:
        raise KeyMissing(f"The store {self.location} keeps no seals. Nothing was changed.")


def _chosen(
    data: MemoryData,
    prefix: str,
    graph: str | None,
    tags: Tags = (),
    group: str | None = None,
) -> list[RunRecord]:
    found = [
        run
        for run in data.list_runs()
        if run.workflow_id.startswith(prefix)
        and set(tags) <= set(run.tags)
        and group in (None, run.group)
    ]
    if graph is None:
        return found
    return [run for run in found if rules.is_run_of(run.graph_id, graph)]


def _last_changed(run: RunRecord) -> tuple[float, str]:
    return run.updated_at, run.workflow_id


def _oldest_first(rows: Iterable[CallRow]) -> list[CallRow]:
    return sorted(rows, key=lambda row: row.created_at)
