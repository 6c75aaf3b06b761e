"""What must hold before a commit, and what does it change? The rules, over records in memory.

These are the only rules. The store in memory keeps such records and nothing else. The JSON store
reads them from a file and writes them back. The SQL stores load what the rules need and then
execute the statements that follow from them (sql_plan.py).

A precondition holds if the store shows what the writer saw or, for a repeated commit, exactly what
the commit writes. Similar is not enough: two processes that act at the same moment write similar
rows. Promises kept here: P5 (every precondition is checked before the first change), P6, P7, P9.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, assert_never

from nottwice.errors import KeyConflict, OwnershipLost
from nottwice.model.call import CallIdentity, CallRow, CallStatus
from nottwice.model.policy import ChargeRecord
from nottwice.model.review import AuditEntry, Evidence, Review, ReviewStatus
from nottwice.model.run import (
    CheckpointRecord,
    EventRecord,
    GraphRecord,
    HolderRecord,
    RunRecord,
    RunStatus,
    StepRecord,
    StepStatus,
    Wait,
    WaitKind,
)
from nottwice.model.runs.notices import NoticeRecord
from nottwice.model.runs.openings import OpeningRecord, begun_by, end_of, trace_opening
from nottwice.model.runs.workers import WorkerRecord
from nottwice.model.tools.tool_record import ToolRecord
from nottwice.store.indexed import Indexed
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
    check_not_removed,
)
from nottwice.store.notices import apply_notices, check_notices
from nottwice.store.table import Table
from nottwice.store.tables import CALLS, CHANGING, REVIEWS, RUNS

_CHANGING = {CALLS.attribute_of[column] for column in CHANGING}
_WAITING = (ReviewStatus.OPEN, ReviewStatus.DECIDED)


def _visits(identity: CallIdentity, row: CallRow) -> Iterator[tuple[str, str]]:
    """Every visit that a call belongs to: of its own step, and of the steps around it."""
    run, checkpoint = identity.workflow_id, identity.checkpoint_id
    yield run, checkpoint
    end = checkpoint.rfind("/")
    while end >= 0:
        yield run, checkpoint[:end]
        end = checkpoint.rfind("/", 0, end)


# How records are found (P170). Each function yields the groups that a record belongs to.
_CALLS = {
    "run": lambda identity, row: (identity.workflow_id,),
    "key": lambda identity, row: () if row.key is None else ((identity.tool_name, row.key),),
    # None means all runs.
    "in_doubt": lambda identity, row: (identity.workflow_id, None) if row.status.in_doubt else (),
    "visit": _visits,
}
_STEPS = {
    "run": lambda where, step: where[:1],
    "in_progress": lambda where, step: (
        (where[:2],) if step.status is StepStatus.IN_PROGRESS else ()
    ),
}
_REVIEWS = {
    "run": lambda review_id, review: (review.identity.workflow_id,),
    "waiting": lambda review_id, review: (
        (review.identity.workflow_id, None) if review.status in _WAITING else ()
    ),
    "group": lambda review_id, review: (
        (review.group,) if review.group is not None and review.blocks_group else ()
    ),
}
_EVIDENCE = {
    "run": lambda item, _: (item.workflow_id,),
    "call": lambda item, _: ((item.workflow_id, item.call_id),),
}
_AUDIT = {"run": lambda entry, _: (entry.workflow_id,)}
_OF_RUN = {"run": lambda where, record: where[:1]}
_CHARGES = {"meter": lambda where, charge: where[:1]}
_NOTICES = {"run": lambda notice_id, notice: (notice.workflow_id,)}
_RUNS = {"parent": lambda run_id, run: () if run.parent_id is None else (run.parent_id,)}


class Newest(dict[str, ToolRecord]):
    """Tools by name. Of two records of one tool, the newer one stays, whatever their order."""

    def __setitem__(self, name: str, tool: ToolRecord) -> None:
        known = self.get(name)
        if known is None or known.recorded_at <= tool.recorded_at:
            super().__setitem__(name, tool)

    def update(self, *others: Any, **named: Any) -> None:
        for name, tool in dict(*others, **named).items():
            self[name] = tool

    def copy(self) -> Newest:
        return Newest(self)


class MemoryData:
    """The records of a ledger, or of one of its runs, each by its key.

    A kind of record is created when it is first used, because a commit looks at only two or three.
    """

    guard: threading.RLock
    runs: Indexed[str, RunRecord]
    calls: Indexed[CallIdentity, CallRow]
    steps: Indexed[tuple[str, str, str], StepRecord]
    reviews: Indexed[str, Review]
    evidence: Indexed[Evidence, None]
    audit: Indexed[AuditEntry, None]
    checkpoints: Indexed[tuple[str, int], CheckpointRecord]
    events: Indexed[tuple[str, str], EventRecord]
    graphs: dict[str, GraphRecord]
    openings: Indexed[tuple[str, int], OpeningRecord]
    tools: Newest
    outbox: Indexed[str, NoticeRecord]
    charges: Indexed[tuple[str, str], ChargeRecord]
    shown: dict[tuple[str, float | None, str], int]
    """Sums that a database has computed itself, by the arguments of ``charged``."""
    fences: dict[str, tuple[str | None, int]]
    """The holder and epoch of each run of which only these were loaded."""
    holders: dict[str, HolderRecord]
    alive: set[str]
    workers: dict[str, WorkerRecord]

    def __init__(self, **records: Any) -> None:
        self.__dict__.update(records)

    def __getattr__(self, name: str) -> Any:
        if name not in _MADE_BY:
            raise AttributeError(name)
        # Two threads that ask at the same moment get the same object.
        return self.__dict__.setdefault(name, _MADE_BY[name]())

    def list_runs(self) -> list[RunRecord]:
        """All runs at this moment."""
        with self.guard:
            return list(self.runs.values())

    def copy(self) -> MemoryData:
        """A copy to change. The records themselves are immutable."""
        return MemoryData(
            **{name: getattr(self, name).copy() for name in (*_KEPT_BY, *_KEPT_AS_KEYS)}
        )

    def update(self, other: MemoryData) -> None:
        """Add all records of another MemoryData."""
        for name in (*_KEPT_BY, *_KEPT_AS_KEYS):
            getattr(self, name).update(getattr(other, name))

    def add(self, table: Table[Any], records: Iterable[Any]) -> None:
        """Add records that were read from a table."""
        name = "calls" if table is CALLS else table.name
        if name in _KEPT_AS_KEYS:
            getattr(self, name).update(dict.fromkeys(records))
        else:
            getattr(self, name).update({_KEPT_BY[name](record): record for record in records})


_MADE_BY: dict[str, Callable[[], Any]] = {
    "guard": threading.RLock,
    "runs": partial(Indexed, _RUNS),
    "calls": partial(Indexed, _CALLS),
    "steps": partial(Indexed, _STEPS),
    "reviews": partial(Indexed, _REVIEWS),
    "evidence": partial(Indexed, _EVIDENCE),
    "audit": partial(Indexed, _AUDIT),
    "checkpoints": partial(Indexed, _OF_RUN),
    "events": partial(Indexed, _OF_RUN),
    "graphs": dict,
    "openings": partial(Indexed, _OF_RUN),
    "tools": Newest,
    "outbox": partial(Indexed, _NOTICES),
    "charges": partial(Indexed, _CHARGES),
    "shown": dict,
    "fences": dict,
    "holders": dict,
    "alive": set,
    "workers": dict,
}
_KEPT_BY: dict[str, Callable[[Any], Any]] = {
    "runs": attrgetter("workflow_id"),
    "calls": attrgetter("identity"),
    "steps": attrgetter("workflow_id", "node_id", "checkpoint_id"),
    "reviews": attrgetter("review_id"),
    "checkpoints": attrgetter("workflow_id", "version"),
    "events": attrgetter("workflow_id", "event_id"),
    "graphs": attrgetter("graph_id"),
    "openings": attrgetter("workflow_id", "epoch"),
    "tools": attrgetter("tool_name"),
    "outbox": attrgetter("notice_id"),
    "charges": attrgetter("meter", "call_id"),
}
"""The key of each kind of record."""
_KEPT_AS_KEYS = ("evidence", "audit")
"""Records that are only ever added, each at most once."""


def check(data: MemoryData, commit: Commit) -> None:
    """Refuse a commit whose preconditions do not hold: OwnershipLost, Blocked, Outdated,
    KeyConflict."""
    if commit.fence is not None and commit.claim is None:
        _check_fence(data, commit)
    if commit.unless_blocked and data.reviews:
        waiting = [one for one in open_reviews(data, commit.workflow_id) if one.blocks]
        waiting += reviews_of_group(data, commit.group, but=commit.workflow_id)
        if waiting:
            raise Blocked(waiting)
    if commit.claim is not None:
        _check_claim(data, commit.claim)
    if commit.removal is not None:
        _check_removal(data, commit.removal)
    for write in commit.calls:
        _check_call(data, write)
    for review_write in commit.reviews:
        _check_review(data, review_write)
    for event_write in commit.events:
        _check_event(data, event_write)
    for charge_write in commit.charges:
        _check_charge(data, charge_write)
    check_notices(data, commit)


def _check_fence(data: MemoryData, commit: Commit) -> None:
    fence = commit.fence
    assert fence is not None
    if data.fences.get(commit.workflow_id) == (fence.holder_id, fence.epoch):
        return
    run = data.runs.get(commit.workflow_id)
    if run is not None and run.epoch == fence.epoch:
        released_before = commit.run is not None and commit.run.release
        if run.holder_id == fence.holder_id or (released_before and run.holder_id is None):
            return
    raise OwnershipLost(
        f"Run {commit.workflow_id!r} was taken over by another holder. This process wrote "
        "nothing and must stop driving the run."
    )


def _check_claim(data: MemoryData, claim: Claim) -> None:
    run = data.runs.get(claim.run.workflow_id)
    epoch = None if run is None else run.epoch
    if epoch != claim.after_epoch and not RUNS.same(run, claim.run):
        raise Outdated(f"epoch {epoch}")
    check_not_removed(run)


def _check_removal(data: MemoryData, removal: Removal) -> None:
    run = data.runs.get(removal.run.workflow_id)
    if not may_be_removed(run, removal):
        raise Outdated(f"run {removal.run.workflow_id} is not as it was")


def _check_call(data: MemoryData, write: CallWrite) -> None:
    row = write.row
    found = data.calls.get(row.identity)
    if found is not None:
        if found.state != write.after and not (both_pure(found, row) or CALLS.same(found, row)):
            raise Outdated(f"call {row.call_id} is {found.status.value}")
        return
    if write.after is not None:
        raise Outdated(f"call {row.call_id} is gone")
    if row.key is None or not data.calls:
        return
    for other in data.calls.of("key", (row.identity.tool_name, row.key)):
        if other.identity.input_hash != row.identity.input_hash:
            raise KeyConflict(key_conflict_text(row, other_run=other.identity.workflow_id))


def _check_review(data: MemoryData, write: ReviewWrite) -> None:
    found = data.reviews.get(write.review.review_id)
    version = None if found is None else found.version
    same_run = found is None or found.identity.workflow_id == write.review.identity.workflow_id
    if (version != write.after_version or not same_run) and not REVIEWS.same(found, write.review):
        raise Outdated(f"review {write.review.review_id} has version {version}")


def _check_event(data: MemoryData, write: EventWrite) -> None:
    event = write.event
    found = data.events.get((event.workflow_id, event.event_id))
    if event.received_by is not None and (found is None or not may_take(found, event)):
        raise Outdated(f"event {event.event_id} was taken")


def _check_charge(data: MemoryData, write: ChargeWrite) -> None:
    charge, at_most = write.charge, write.at_most
    if at_most is None:
        return
    shown = charged(data, charge.meter, since=write.since, besides=charge.call_id)
    if shown + charge.amount > at_most:
        raise Outdated(f"meter {charge.meter!r} shows {shown}")


def key_conflict_text(row: CallRow, *, other_run: str) -> str:
    """The error text for a key that was used for two different calls."""
    return (
        f"Tool {row.identity.tool_name!r} was called with the idempotency key {row.key!r}, which "
        f"run {other_run!r} already used with different arguments. Nothing was sent. Make the "
        "key name everything that makes two calls different, or repeat on purpose with "
        ".again('a label')."
    )


def both_pure(known: CallRow, row: CallRow) -> bool:
    """Whether a row may replace another, whatever state the other is in.

    The results of pure tools are written as part of other commits, and a new result is as good as
    the old one. Such a row must never be the reason why the receipt of an effect is refused.
    """
    return not (known.replay_class.effectful or row.replay_class.effectful)


def may_be_removed(known: RunRecord | None, removal: Removal) -> bool:
    """Whether a run is finished and unchanged since it was read, or this same commit removed it."""
    if known is None or known.status in (RunStatus.RUNNING, RunStatus.WAITING):
        return False
    return known.epoch == removal.after_epoch or RUNS.same(known, removal.run)


def may_take(known: EventRecord, event: EventRecord) -> bool:
    """Whether an event can be received: it was not received yet, or by this very call."""
    return known.received_by in (None, event.received_by)


def charged(data: MemoryData, meter: str, *, since: float | None, besides: str) -> int:
    """What a meter shows; see ``Store.charged``."""
    known = data.shown.get((meter, since, besides))
    if known is not None:
        return known
    return sum(
        one.amount
        for one in data.charges.of("meter", meter)
        if one.call_id != besides
        and (since is None or one.at > since)
        and (one.if_failed or not _has_failed(data.calls.get(one.identity)))
    )


def _has_failed(row: CallRow | None) -> bool:
    return row is not None and row.status is CallStatus.FAILED and row.retry_at is None


def apply(data: MemoryData, commit: Commit) -> None:
    """Make the changes of a commit that passed ``check``. Nothing is refused from here on."""
    apply_notices(data, commit)
    if commit.claim is not None:
        _open(data, commit.claim)
        data.runs[commit.workflow_id] = commit.claim.run
    for write in commit.calls:
        data.calls[write.row.identity] = _kept(data, write.row)
    for step in commit.steps:
        _mark(data, step)
    for review_write in commit.reviews:
        data.reviews[review_write.review.review_id] = review_write.review
    for item in commit.evidence:
        # The same text about the same attempt at the same time is one item.
        known = data.evidence.keys_of("call", (item.workflow_id, item.call_id))
        said = {replace(one, result=None) for one in known}
        if replace(item, result=None) not in said:
            data.evidence[item] = None
    data.audit.update(dict.fromkeys(commit.audit))
    for checkpoint in commit.checkpoints:
        data.checkpoints[(checkpoint.workflow_id, checkpoint.version)] = checkpoint
    for version in commit.dropped:
        data.checkpoints.pop((commit.workflow_id, version), None)
    for event_write in commit.events:
        _tell_or_take(data, event_write.event)
    for charge_write in commit.charges:
        charge = charge_write.charge
        data.charges[(charge.meter, charge.call_id)] = charge
    if commit.graph is not None:
        data.graphs.setdefault(commit.graph.graph_id, commit.graph)
    for tool in commit.tools:
        data.tools[tool.tool_name] = tool
    if commit.run is not None:
        run, update = data.runs[commit.workflow_id], commit.run
        if update.release:
            _end_opening(data, released(run, update))
        data.runs[commit.workflow_id] = replace(
            run,
            status=update.status,
            updated_at=update.at,
            failure=update.failure,
            holder_id=None if update.release else run.holder_id,
            waits=update.waits,
            graph_id=run.graph_id if update.graph_id is None else update.graph_id,
            traceparent=update.traceparent or run.traceparent,
        )
        trace_opening(data.openings, run, update.traceparent)
    if commit.removal is not None:
        _remove(data, commit.removal)


def _open(data: MemoryData, claim: Claim) -> None:
    """Begin an opening, and end the one before if its holder did not."""
    left = taken_over(data.runs.get(claim.run.workflow_id), claim)
    if left is not None:
        _end_opening(data, left)
    begun = begun_by(claim.run, claim.at, claim.traceparent)
    if begun is not None:
        data.openings.setdefault((begun.workflow_id, begun.epoch), begun)


def taken_over(known: RunRecord | None, claim: Claim) -> OpeningRecord | None:
    """The opening that a claim ends: that of a holder that did not release the run."""
    if known is None or known.holder_id is None or known.epoch == claim.run.epoch:
        return None
    at = claim.run.updated_at if claim.at is None else claim.at
    return OpeningRecord(known.workflow_id, known.epoch, known.holder_id, at, at, claim.left)


def released(run: RunRecord, update: RunUpdate) -> OpeningRecord:
    """The opening that a release ends."""
    at = update.at if update.released_at is None else update.released_at
    saved, holder, ended = update.saved, run.holder_id or "", end_of(update.status)
    figures = (saved.receipts, saved.duplicates, saved.tokens, saved.usd)
    return OpeningRecord(run.workflow_id, run.epoch, holder, at, at, ended, *figures)


def _end_opening(data: MemoryData, ended: OpeningRecord) -> None:
    """End an opening that is on record and has not ended yet. What it began with stays."""
    where = (ended.workflow_id, ended.epoch)
    known = data.openings.get(where)
    if known is not None and known.ended is None:
        data.openings[where] = known.ended_as(ended)


def _remove(data: MemoryData, removal: Removal) -> None:
    run = removal.run.workflow_id
    data.runs[run] = removal.run
    for identity in removal.calls:
        data.calls.pop(identity, None)
    for node_id, checkpoint_id in removal.steps:
        data.steps.pop((run, node_id, checkpoint_id), None)
    if not removal.rest:
        return
    for step in data.steps.keys_of("run", run):
        del data.steps[step]
    for checkpoint in data.checkpoints.keys_of("run", run):
        del data.checkpoints[checkpoint]
    for event in data.events.keys_of("run", run):
        del data.events[event]
    for opening in data.openings.keys_of("run", run):
        del data.openings[opening]
    for review_id in data.reviews.keys_of("run", run):
        del data.reviews[review_id]
    for item in data.evidence.keys_of("run", run):
        del data.evidence[item]
    for notice_id in data.outbox.keys_of("run", run):
        del data.outbox[notice_id]


def _mark(data: MemoryData, step: StepRecord) -> None:
    """Write a step. Its start is written once. A step that is done stays done, because a delayed
    commit may still carry its earlier state."""
    where = (step.workflow_id, step.node_id, step.checkpoint_id)
    known = data.steps.setdefault(where, step)
    if known.status is not StepStatus.DONE:
        data.steps[where] = replace(step, ordinal=known.ordinal, started_at=known.started_at)


def _tell_or_take(data: MemoryData, event: EventRecord) -> None:
    where = (event.workflow_id, event.event_id)
    known = data.events.setdefault(where, event)
    if event.received_by is not None:
        # Receiving an event does not change its content.
        received_by, received_at = event.received_by, event.received_at
        data.events[where] = replace(known, received_by=received_by, received_at=received_at)


def _kept(data: MemoryData, row: CallRow) -> CallRow:
    """The row, with the values that never change once they are stored (P9)."""
    found = data.calls.get(row.identity)
    if found is None:
        return row
    return found._replace(**{name: getattr(row, name) for name in _CHANGING})


def open_reviews(data: MemoryData, workflow_id: str | None) -> list[Review]:
    """Reviews that are open, or decided but not used yet, oldest first."""
    found = data.reviews.of("waiting", workflow_id)
    return sorted(found, key=lambda review: (review.opened_at, review.review_id))


def reviews_of_group(data: MemoryData, group: str | None, *, but: str = "") -> list[Review]:
    """Reviews that hold back new effects of a group, without those of the run ``but`` (P301)."""
    if group is None:
        return []
    found = [one for one in data.reviews.of("group", group) if one.identity.workflow_id != but]
    return sorted(found, key=lambda review: (review.opened_at, review.review_id))


_OVER = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.ABORTED, RunStatus.REMOVED)
# An idle run may have another turn, and so may a completed one. Neither is kept forever.
_MAY_EXPIRE = (*_OVER, RunStatus.IDLE)


def ready_since(data: MemoryData, run: RunRecord, *, now: float) -> float | None:
    """Since when a run of a graph that has no holder can continue; None if it cannot.

    It cannot if it has a holder, is over, or still waits. A failed run is over until a caller asks
    for it again, and workers never take a fork. The clock matters only for timers: a clock that was
    set back must not hide a run that was recorded before.
    """
    if run.graph_id is None or run.origin is not None or run.holder_id is not None:
        return None
    if run.status is RunStatus.RUNNING:
        return run.updated_at
    if run.status is not RunStatus.WAITING:
        return None
    if any(_has_come(data, run, wait) for wait in run.waits):
        # Only a holder updates a run, so this is when the run was released.
        return run.updated_at
    return run.wake_at if run.wake_at is not None and run.wake_at <= now else None


def has_come(data: MemoryData, run: RunRecord, *, now: float) -> bool:
    """Whether anything that a run waits for has arrived."""
    is_due = run.wake_at is not None and run.wake_at <= now
    return is_due or any(_has_come(data, run, wait) for wait in run.waits)


def is_run_of(graph_id: str | None, graph: str) -> bool:
    """Whether ``graph`` is the name or the id of the graph that a run is bound to."""
    return graph_id is not None and graph in (graph_id, graph_id.rpartition("@")[0])


def is_expired(run: RunRecord, *, ended_before: float, due_before: float) -> bool:
    """Whether retention should look at a run, and so at the runs that it spawned."""
    if run.root_id is not None or run.status not in _MAY_EXPIRE:
        return False
    if run.status is RunStatus.REMOVED:
        return run.wake_at is not None and run.wake_at <= due_before
    return run.updated_at < ended_before


def _has_come(data: MemoryData, run: RunRecord, wait: Wait) -> bool:
    return has_arrived(
        wait,
        review=data.reviews.get,
        events=lambda name: [e for e in data.events.of("run", run.workflow_id) if e.name == name],
        run=data.runs.get,
    )


def has_arrived(
    wait: Wait,
    *,
    review: Callable[[str], Review | None],
    events: Callable[[str], Iterable[EventRecord]],
    run: Callable[[str], RunRecord | None],
) -> bool:
    """Whether what a run waits for has arrived. In SQL this is ``_has_come``.

    Until when it waits is a matter of the caller, who has a clock.
    """
    match wait.kind:
        case WaitKind.REVIEW:
            asked = review(wait.subject)
            return asked is None or asked.status is not ReviewStatus.OPEN
        case WaitKind.EVENT:
            return any(event.received_by is None for event in events(wait.subject))
        case WaitKind.CHILD:
            child = run(wait.subject)
            return child is None or child.status in _OVER
        case WaitKind.TIMER:
            return False
        case _:
            assert_never(wait.kind)
