"""Which questions does a ledger on SQL answer? The same for every database, by named statements.

A store defines how it reads (``_read``), how it commits and who holds runs; the answers follow from
that. Sealed rows are checked before they are believed (sealing.py).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import replace
from typing import Any, TypeVar

from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.review import AuditEntry, Evidence, Review
from nottwice.model.run import (
    CheckpointRecord,
    EventRecord,
    GraphRecord,
    LastVisit,
    RunCount,
    RunRecord,
    RunStatus,
    Standing,
    StepRecord,
)
from nottwice.model.runs.labels import Labels, Tags
from nottwice.model.runs.limits import LimitUse, Meter
from nottwice.model.runs.openings import OpeningRecord
from nottwice.model.runs.places import is_inside
from nottwice.model.runs.tally import ReadyCount, Tally
from nottwice.model.runs.workers import WorkerRecord
from nottwice.model.tools.tool_record import ToolRecord
from nottwice.store import limits, seal_walk, tally
from nottwice.store.base import StoreBase
from nottwice.store.interface import LEDGER
from nottwice.store.rules import MemoryData
from nottwice.store.sealing import Sealing
from nottwice.store.sql_outbox import ALL, SqlOutbox
from nottwice.store.statements import Parameters, Statements
from nottwice.store.table import UNREADABLE, Row, Table, corrupt
from nottwice.store.tables import (
    AUDIT,
    CALLS,
    CHECKPOINTS,
    EVENTS,
    EVER,
    EVIDENCE,
    GRAPHS,
    OF_RUNS,
    OPENINGS,
    REVIEWS,
    RUNS,
    STEPS,
    TOOLS,
    WORKERS,
    micros,
    seconds,
)

R = TypeVar("R")
_LAST = "\U0010ffff"


class SqlStore(SqlOutbox, StoreBase):
    """The questions that a ledger on SQL answers."""

    keeps_limits = True
    _statements: Statements
    _sealing: Sealing

    @abstractmethod
    def _read(self, sql: str, parameters: Parameters) -> list[Any]:
        """The rows that a statement finds in the ledger now."""

    @abstractmethod
    def _listed(self, texts: Collection[str]) -> Any:
        """Texts, such as ids of graphs to leave out, as one parameter."""

    def _ask(self, name: str, parameters: dict[str, Any]) -> list[Any]:
        return self._read(self._statements[name], parameters)

    def spell(self, sql: str) -> str:
        """See ``visits.Visited``."""
        return self._statements.spell(sql)

    def look_up(self, sql: str, parameters: Parameters) -> list[Any]:
        """See ``visits.Visited``."""
        return self._read(sql, parameters)

    def _sealed(self, table: Table[R], statement: str, /, **asked: Any) -> list[R]:
        """Records whose rows end with their seal, if all of these seals are good."""
        return table.records(self._sealing.check(table, self._ask(statement, asked)))

    def _one(self, table: Table[R], statement: str, /, **asked: Any) -> R | None:
        return table.first(self._sealing.check(table, self._ask(statement, asked)))

    def records(self, workflow_id: str) -> MemoryData:
        of_run = {"workflow_id": workflow_id}
        data = MemoryData()
        data.add(RUNS, RUNS.records(self._ask("run", of_run)))
        for table in OF_RUNS:
            data.add(table, self._sealed(table, f"all_{table.name}_of_run", **of_run))
        return data

    def all_records(self) -> MemoryData:
        data = MemoryData()
        for table in (RUNS, *OF_RUNS, GRAPHS, TOOLS):
            data.add(table, table.records(self._ask(f"whole_{table.name}", {})))
        return data

    def lease_left(self, holder_id: str) -> float | None:
        return None

    def load_run(self, workflow_id: str) -> RunRecord | None:
        return RUNS.first(self._ask("run", {"workflow_id": workflow_id}))

    def load_runs(self, run_ids: Collection[str]) -> dict[str, RunRecord]:
        found = RUNS.records(self._ask("some_runs", {"run_ids": self._listed(run_ids)}))
        return {run.workflow_id: run for run in found}

    def load_call(self, identity: CallIdentity) -> CallRow | None:
        return self._one(CALLS, "call", **identity._asdict())

    def load_step(self, workflow_id: str, node_id: str, checkpoint_id: str) -> StepRecord | None:
        where = {"node_id": node_id, "checkpoint_id": checkpoint_id}
        return self._one(STEPS, "step", workflow_id=workflow_id, **where)

    def load_review(self, review_id: str) -> Review | None:
        return self._one(REVIEWS, "review", review_id=review_id)

    def load_graph(self, graph_id: str) -> GraphRecord | None:
        return self._one(GRAPHS, "graph", graph_id=graph_id)

    # Calls

    def calls(
        self, workflow_id: str, *, limit: int | None = None, after: CallIdentity | None = None
    ) -> list[CallRow]:
        most = ALL if limit is None else limit
        if after is None:
            return self._sealed(CALLS, "calls", workflow_id=workflow_id, limit=most)
        where = {**after._asdict(), "workflow_id": workflow_id}
        return self._sealed(CALLS, "calls_after", **where, limit=most)

    def last_calls(
        self, workflow_id: str, *, limit: int, before: CallIdentity | None = None
    ) -> list[CallRow]:
        if before is None:
            found = self._sealed(CALLS, "last_calls", workflow_id=workflow_id, limit=limit)
        else:
            where = {**before._asdict(), "workflow_id": workflow_id}
            found = self._sealed(CALLS, "calls_before", **where, limit=limit)
        return found[::-1]

    def count_calls(self, workflow_id: str) -> int:
        ((counted,),) = self._ask("count_calls", {"workflow_id": workflow_id}) or ((0,),)
        return int(counted)

    def calls_in_doubt(self, workflow_id: str | None = None) -> list[CallRow]:
        if workflow_id is None:
            return self._sealed(CALLS, "all_calls_in_doubt")
        return self._sealed(CALLS, "calls_in_doubt", workflow_id=workflow_id)

    def calls_under(
        self, workflow_id: str, node_id: str, *, visit: str | None = None
    ) -> list[CallRow]:
        asked = {"workflow_id": workflow_id, "node_id": node_id, "beyond": node_id + _LAST}
        if visit is None:
            found = self._sealed(CALLS, "calls_under", **asked)
        else:
            # "0" follows "/", so this range is everything that starts with the visit and a "/".
            inside = {"inside_from": visit + "/", "inside_to": visit + "0"}
            found = self._sealed(CALLS, "calls_of_visit", **asked, checkpoint_id=visit, **inside)
        return [row for row in found if is_inside(row.identity.node_id, node_id)]

    def last_use_of_key(self, tool_name: str, key: str) -> CallRow | None:
        return self._one(CALLS, "last_use_of_key", tool_name=tool_name, idempotency_key=key)

    def standing(self, workflow_id: str) -> Standing:
        found = self._ask("standing", {"workflow_id": workflow_id, "ledger": LEDGER})
        if not found:
            return Standing()
        ((in_doubt, reviews, events, ledger_audit, ordinal),) = found
        if type(ordinal) is not int:
            raise corrupt("a step", (), TypeError(f"ordinal is {type(ordinal).__name__}"))
        return Standing(bool(in_doubt), bool(reviews), bool(events), bool(ledger_audit), ordinal)

    # Steps, checkpoints, events, graphs

    def steps(
        self, workflow_id: str, *, after: int = -1, in_progress_at: str | None = None
    ) -> list[StepRecord]:
        asked = {"workflow_id": workflow_id, "ordinal": after}
        if in_progress_at is None:
            return self._sealed(STEPS, "steps", **asked)
        return self._sealed(STEPS, "steps_in_progress", **asked, node_id=in_progress_at)

    def last_visits(self, workflow_id: str) -> list[LastVisit]:
        found = self._ask("last_visits", {"workflow_id": workflow_id})
        visits = [visited for *_, visited, _ in found]
        steps = STEPS.records(self._sealing.check(STEPS, found))
        return list(map(LastVisit, steps, visits))

    def checkpoint_chain(
        self, workflow_id: str, version: int | None = None
    ) -> list[CheckpointRecord]:
        if version is None:
            return self._sealed(CHECKPOINTS, "newest_chain", workflow_id=workflow_id)
        return self._sealed(CHECKPOINTS, "chain", workflow_id=workflow_id, version=version)

    def checkpoints(self, workflow_id: str) -> list[CheckpointRecord]:
        return CHECKPOINTS.records(self._ask("versions", {"workflow_id": workflow_id}))

    def events(self, workflow_id: str, name: str | None = None) -> list[EventRecord]:
        return self._sealed(EVENTS, "events", workflow_id=workflow_id, name=name)

    def graphs(self) -> list[GraphRecord]:
        return self._sealed(GRAPHS, "graphs")

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
        conditions, asked = self._labelled(prefix, graph, tags, group)
        if status is not None:
            conditions.append("_of_status")
            asked["status"] = status.value
        if queued is not None:
            conditions.append("_only_queued" if queued else "_not_queued")
        if before is not None:
            conditions.append("_before")
            asked |= {"before_at": micros(before.updated_at), "before_id": before.workflow_id}
        asked["limit"] = ALL if limit is None else limit
        return RUNS.records(self._read(self._statements.where("runs", conditions), asked))

    def _labelled(
        self, prefix: str, graph: str | None, tags: Tags, group: str | None
    ) -> tuple[list[str], dict[str, Any]]:
        conditions, asked = _chosen(prefix, graph)
        texts = Labels(tags, group).texts()
        if texts:
            conditions.append("_with_tags")
            asked["tags"] = self._listed(texts)
            asked["number_of_tags"] = len(texts)
        return conditions, asked

    def count_runs(
        self,
        *,
        prefix: str = "",
        graph: str | None = None,
        tags: Tags = (),
        group: str | None = None,
    ) -> list[RunCount]:
        conditions, asked = self._labelled(prefix, graph, tags, group)
        found = self._read(self._statements.where("count_runs", conditions), asked)
        return [_run_count(row) for row in found]

    def tally(
        self,
        *,
        now: float,
        prefix: str = "",
        graph: str | None = None,
        only_waiting: bool = False,
        limit: int = 0,
    ) -> Tally:
        conditions, asked = _chosen(prefix, graph)
        asked |= {"now": micros(now), "limit": limit}
        groups = "waiting_groups" if only_waiting else "groups"
        return tally.from_sql(
            self._read(self._statements.where(groups, conditions), asked),
            self._read(self._statements.where("told_runs", conditions), asked),
            self._ask("count_open_reviews", {}),
            self._ask("pressing_reviews", {"limit": limit}),
        )

    def openings(self, workflow_id: str) -> list[OpeningRecord]:
        return OPENINGS.records(self._ask("openings", {"workflow_id": workflow_id}))

    def load_tool(self, tool_name: str) -> ToolRecord | None:
        return self._one(TOOLS, "tool", tool_name=tool_name)

    def tools(self) -> list[ToolRecord]:
        return self._sealed(TOOLS, "tools")

    def children(self, workflow_id: str) -> list[RunRecord]:
        return RUNS.records(self._ask("children", {"parent_id": workflow_id}))

    def ready_runs(
        self, *, begun: bool, now: float, limit: int, without: Collection[str] = ()
    ) -> list[RunRecord]:
        asked = {"without": self._listed(without), "now": micros(now), "limit": limit}
        return RUNS.records(self._ask("ready_runs" if begun else "queued_runs", asked))

    def count_ready(self, *, now: float, limit: int) -> list[ReadyCount]:
        found = self._ask("count_ready", {"now": micros(now), "limit": limit})
        return [tally.ready_from_sql(row) for row in found]

    def holders_of_runs(self) -> list[str]:
        return [holder_id for (holder_id,) in self._ask("holders_of_runs", {})]

    def runs_held_by(self, holder_id: str) -> list[RunRecord]:
        return RUNS.records(self._ask("runs_held_by", {"holder_id": holder_id}))

    def expired_runs(
        self, *, ended_before: float, due_before: float, limit: int, after: str = ""
    ) -> list[RunRecord]:
        moments = {"ended_before": micros(ended_before), "due_before": micros(due_before)}
        return RUNS.records(self._ask("expired_runs", {"after": after, **moments, "limit": limit}))

    # People

    def reviews(self, workflow_id: str | None = None) -> list[Review]:
        if workflow_id is None:
            return REVIEWS.records(self._ask("all_reviews", {}))
        return self._sealed(REVIEWS, "reviews", workflow_id=workflow_id)

    def open_reviews(self, workflow_id: str | None = None) -> list[Review]:
        if workflow_id is None:
            return REVIEWS.records(self._ask("all_open_reviews", {}))
        return self._sealed(REVIEWS, "open_reviews", workflow_id=workflow_id)

    def find_reviews(self, prefix: str) -> list[Review]:
        return self._sealed(REVIEWS, "find_reviews", prefix=prefix)

    def group_reviews(self, group: str) -> list[Review]:
        return self._sealed(REVIEWS, "group_reviews", group_id=group)

    def evidence(self, workflow_id: str, call_id: str | None = None) -> list[Evidence]:
        return self._sealed(EVIDENCE, "evidence", workflow_id=workflow_id, call_id=call_id)

    def audit(self, workflow_id: str | None = None) -> list[AuditEntry]:
        if workflow_id is None:
            return AUDIT.records(self._ask("whole_audit", {}))
        return AUDIT.records(self._ask("audit", {"workflow_id": workflow_id}))

    def charged(self, meter: str, *, since: float | None = None, besides: str = "") -> int:
        after = EVER if since is None else micros(since)
        asked = {"meter": meter, "since": after, "besides": besides}
        ((shown,),) = self._ask("charged", asked) or ((0,),)
        return int(shown)

    # Workers

    def announce(self, worker: WorkerRecord) -> None:
        told = {**WORKERS.named(WORKERS.row(worker)), "now": micros(worker.seen_at)}
        self._visit(lambda ask: ask(self._statements["announce"], told))

    def workers(self, *, now: float) -> list[WorkerRecord]:
        found = self._ask("workers", {"now": micros(now)})
        # The last column is the time of the clock by which workers were seen.
        return [
            replace(worker, seen_at=seconds(micros(worker.seen_at) - row[-1] + micros(now)))
            for worker, row in zip(WORKERS.records(found), found, strict=True)
        ]

    def forget_workers(self, ids: Collection[str]) -> None:
        forget = self._statements["forget_worker"]
        self._visit(lambda ask: [ask(forget, {"presence_id": one}) for one in ids])

    # Limits

    def acquire(self, use: LimitUse, *, now: float) -> tuple[float, Meter] | None:
        return limits.acquire(self, self._statements, use, now=now)

    def end_use(self, use: LimitUse) -> None:
        limits.end_use(self, self._statements, use)

    # Seals

    def load_head(self, workflow_id: str) -> str | None:
        ((head,),) = self._ask("head", {"workflow_id": workflow_id}) or ((None,),)
        return None if head is None else str(head)

    def flaws(self, workflow_id: str, *, thorough: bool = False) -> list[str]:
        if self._sealing.seals is None:
            return []
        return seal_walk.flaws(self._ask, workflow_id, self._sealing, thorough=thorough)


def _chosen(prefix: str, graph: str | None) -> tuple[list[str], dict[str, Any]]:
    """The conditions of a list of runs, and their parameters."""
    conditions: list[str] = []
    asked: dict[str, Any] = {}
    if prefix:
        conditions.append("_with_prefix")
        asked["prefix"] = prefix
    if graph is not None:
        conditions.append("_of_graph")
        asked["graph"] = graph
    return conditions, asked


def _run_count(row: Row) -> RunCount:
    try:
        status, holder_id, number, queued = row
        return RunCount(RunStatus(status), holder_id, number, queued)
    except UNREADABLE as error:
        raise corrupt("a run", list(row), error) from error
