"""What does a ledger no longer need, and how is it removed while other processes work? (L8)

A run and its child runs form a family. Nothing of a family is removed while one of its runs is
open. First each run becomes a tombstone, the root before its children. A tombstone cannot be
claimed, so its remaining rows are never mistaken for the complete run. Then rows are removed, a few
per commit. A killed sweep leaves tombstones, and the next sweep continues from there.
Promises kept here: P88 (nothing of an open run is removed), P89 (a removed run never starts again).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from nottwice.engine.clock import Clock
from nottwice.engine.host import FindTool
from nottwice.engine.upkeep import history
from nottwice.errors import RunBusy
from nottwice.model.call import ROOT_NODE, CallIdentity, CallRow
from nottwice.model.data.calendar import utc
from nottwice.model.data.records import frozen_record
from nottwice.model.review import AuditEntry, ReviewStatus
from nottwice.model.run import Life, RunRecord, RunStatus, Wait, WaitKind
from nottwice.model.runs.retention import Retention
from nottwice.model.tool import OWN_PREFIX
from nottwice.store.interface import Commit, Outdated, Removal, Store

T = TypeVar("T")
MOST_RUNS = 200
MOST_ROWS = 500
"""Rows per commit. A holder that wants to write waits only a few milliseconds."""
MOST_NAMED = 1_000
PAUSE_SECONDS = 0.005
_FAR_AWAY = 1e11
AUDITED_AS = "gc"


@frozen_record(frozen=True, slots=True)
class RemovedRun:
    """One run of which something was removed, or would be."""

    run_id: str
    ended_as: str
    ended_at: float
    calls: int
    calls_left: int
    due_at: float | None
    """When the next part of it may be removed. None: only its tombstone is left."""


@dataclass(slots=True)
class RemovalReport:
    """What was removed, or would be, depending on ``dry_run``."""

    dry_run: bool
    families: int = 0
    """Families of runs that were examined."""
    runs: int = 0
    calls: int = 0
    checkpoints: int = 0
    still_open: int = 0
    """Families that ended long enough ago, but still have a review, a doubt or a process."""
    unknown_tools: Counter[str] = field(default_factory=Counter)
    """Rows that are due but were kept, because their tools are not declared here."""
    named: list[RemovedRun] = field(default_factory=list)
    """The first runs, up to a thousand."""
    is_complete: bool = True
    """False if there were more families than the caller wanted to examine."""
    notices: int = 0
    """Old notices of the outbox, of any run."""
    groups: dict[str, bool] = field(default_factory=dict, repr=False)
    """Whether each group that was met is over for long enough."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What the caller wants to remove."""

    store: Store
    clock: Clock
    find_tool: FindTool
    retention: Retention
    by: str
    dry_run: bool = False
    unknown_tools: bool = False
    """Whether to remove rows of undeclared tools too, by their replay class."""
    on_progress: Callable[[RemovalReport], None] = lambda removed: None
    most_families: int | None = None
    """How many families to examine, for a reader who cannot wait. None: all."""


def remove_expired(sweep: Sweep) -> RemovalReport:
    """Remove what is due. Durable: each part when it is done. Safe to kill and to repeat."""
    removed = RemovalReport(sweep.dry_run)
    now = sweep.clock.now()
    # Tombstones were dated by the default periods, so other periods need another look at each.
    usual = sweep.retention == Retention()
    last = ""
    # Before the runs, whose own notices are removed with them: so a dry run counts the same.
    _forget_notices(sweep, removed, now)
    while True:
        roots = sweep.store.expired_runs(
            ended_before=now - sweep.retention.shortest_seconds,
            due_before=now if usual else _FAR_AWAY,
            limit=MOST_RUNS,
            after=last,
        )
        if not roots:
            return removed
        for root in roots:
            if removed.families == sweep.most_families:
                removed.is_complete = False
                return removed
            removed.families += 1
            _look_at(sweep, list(_family(sweep.store, root)), removed, now)
            sweep.on_progress(removed)
        last = roots[-1].workflow_id


def _forget_notices(sweep: Sweep, removed: RemovalReport, now: float) -> None:
    """Remove old notices of all runs, also of open ones: nothing is decided by them (P332)."""
    before = now - sweep.retention.shortest_seconds
    if sweep.dry_run:
        removed.notices = sweep.store.count_old_notices(
            settled_before=before, created_before=before
        )
        return
    gone = MOST_ROWS
    while gone == MOST_ROWS:
        gone = sweep.store.forget_notices(
            settled_before=before, created_before=before, limit=MOST_ROWS
        )
        removed.notices += gone
        sweep.clock.pause(PAUSE_SECONDS)


def _family(store: Store, run: RunRecord) -> Iterator[RunRecord]:
    """Yield a run and all its descendants, each parent before its children."""
    yield run
    for child in store.children(run.workflow_id):
        yield from _family(store, child)


def _group_is_over(sweep: Sweep, root: RunRecord, removed: RemovalReport, now: float) -> bool:
    """Whether every run of the group, too, has ended long enough ago (P305).

    The runs of a group work on one task. A host that does a part of the task again needs the
    receipts of all parts. Each group is looked up once per sweep.
    """
    group = root.group
    if group is None:
        return True
    known = removed.groups.get(group)
    if known is None:
        last = sweep.store.runs(group=group, limit=1)
        open_runs = [
            one
            for one in sweep.store.count_runs(group=group)
            if one.status in (RunStatus.RUNNING, RunStatus.WAITING)
        ]
        ended_at = max((run.updated_at for run in last), default=0.0)
        due = not open_runs and now >= ended_at + sweep.retention.shortest_seconds
        known = removed.groups[group] = due
    return known


def _look_at(sweep: Sweep, family: Sequence[RunRecord], removed: RemovalReport, now: float) -> None:
    ended_at = max(run.updated_at for run in family)
    if now < ended_at + sweep.retention.shortest_seconds:
        return
    if not _group_is_over(sweep, family[0], removed, now):
        return
    if any(_is_open(sweep.store, run) for run in family):
        removed.still_open += 1
        return
    failed = any(run.status is RunStatus.FAILED for run in family)
    if not failed or now >= ended_at + sweep.retention.seconds_of("failed"):
        family = [_thinned(sweep, run, removed) for run in family]
        parts = [_part(sweep, run, removed, now, ended_at) for run in family]
        is_old = now >= ended_at + sweep.retention.seconds_of("pure")
        if any(part.due for part in parts) or (is_old and not any(part.left for part in parts)):
            _remove(sweep, parts, removed, now)


def _is_open(store: Store, run: RunRecord) -> bool:
    """Whether a process may still work in a run, or a person may still ask about it."""
    if run.status in (RunStatus.RUNNING, RunStatus.WAITING):
        return True
    if run.holder_id is not None and store.life_of(run.holder_id) is not Life.DEAD:
        return True
    final = run.status in (RunStatus.ABORTED, RunStatus.REMOVED)
    for review in store.open_reviews(run.workflow_id):
        # A decision about a run that can never be opened again will never be used.
        if not final or review.status is ReviewStatus.OPEN:
            return True
    if final:
        return False
    return any(row.replay_class.effectful for row in store.calls_in_doubt(run.workflow_id))


def _thinned(sweep: Sweep, run: RunRecord, removed: RemovalReport) -> RunRecord:
    """Remove all versions of a run except the last, which still shows how it ended."""
    if run.status is RunStatus.REMOVED:
        return run
    versions = [one.version for one in sweep.store.checkpoints(run.workflow_id)[:-1]]
    if not versions:
        return run
    if not sweep.dry_run:
        try:
            history.prune(sweep.store, run.workflow_id, versions=versions)
        except RunBusy:
            return run
        sweep.clock.pause(PAUSE_SECONDS)
    removed.checkpoints += len(versions)
    return sweep.store.load_run(run.workflow_id) or run


@dataclass(slots=True)
class _Part:
    """One run of a family, and how much of it is due. Its calls may not fit into memory."""

    run: RunRecord
    chunks: Iterator[tuple[CallIdentity, ...]]
    """The calls that are due, in chunks that fit into one commit."""
    due: int = 0
    left: int = 0
    next_at: float | None = None
    """When the first of the remaining rows is due."""


def _part(
    sweep: Sweep, run: RunRecord, removed: RemovalReport, now: float, ended_at: float
) -> _Part:
    part = _Part(run, _due_chunks(sweep, run, now, ended_at))
    for row in _rows(sweep, run):
        due_at, is_due = _judge(sweep, row, now, ended_at)
        if is_due:
            part.due += 1
            continue
        part.left += 1
        part.next_at = due_at if part.next_at is None else min(part.next_at, due_at)
        if due_at <= now:
            removed.unknown_tools[row.identity.tool_name] += 1
    return part


def _judge(sweep: Sweep, row: CallRow, now: float, ended_at: float) -> tuple[float, bool]:
    """Return when a row is due, and whether it may be removed now."""
    name = row.identity.tool_name
    tool = sweep.find_tool(name)
    due_at = sweep.retention.due_at(row, tool=tool, ended_at=ended_at)
    known = sweep.unknown_tools or tool is not None or name.startswith(OWN_PREFIX)
    return due_at, due_at <= now and known


def _rows(sweep: Sweep, run: RunRecord) -> Iterator[CallRow]:
    """Yield all calls of a run, page by page. A page is yielded after the next one is read."""
    rows = sweep.store.last_calls(run.workflow_id, limit=MOST_ROWS)
    while rows:
        # The caller may remove the rows it gets, so the next page is read first.
        first = rows[0].identity
        before = sweep.store.last_calls(run.workflow_id, limit=MOST_ROWS, before=first)
        yield from rows
        rows = before


def _due_chunks(
    sweep: Sweep, run: RunRecord, now: float, ended_at: float
) -> Iterator[tuple[CallIdentity, ...]]:
    due = (row.identity for row in _rows(sweep, run) if _judge(sweep, row, now, ended_at)[1])
    return iter(lambda: tuple(islice(due, MOST_ROWS)), ())


def _remove(sweep: Sweep, parts: Sequence[_Part], removed: RemovalReport, now: float) -> None:
    for part in parts:
        removed.runs += part.run.status is not RunStatus.REMOVED
        removed.calls += part.due
        if len(removed.named) < MOST_NAMED:
            removed.named.append(_named(part))
    if sweep.dry_run:
        return
    try:
        if len(parts) == 1 and _is_small(sweep, parts[0]):
            _remove_in_one_commit(sweep, parts[0], now)
            return
        for part in parts:
            part.run = _buried(sweep, part, now)
        for part in parts:
            for calls in part.chunks:
                _commit(sweep, Removal(part.run, part.run.epoch, calls=calls))
        # The root comes last, because the next sweep finds the rest through the root.
        for part in reversed(parts):
            _date(sweep, part, parts, now)
    except Outdated:
        # At this moment a process opened a failed run, or another sweep is working here.
        return


def _is_small(sweep: Sweep, part: _Part) -> bool:
    few = part.due <= MOST_ROWS
    return few and (part.left > 0 or len(sweep.store.steps(part.run.workflow_id)) <= MOST_ROWS)


def _remove_in_one_commit(sweep: Sweep, part: _Part, now: float) -> None:
    """Remove a small run in one commit. Durable: when this returns."""
    run, next_at = part.run, part.next_at
    waits = () if next_at is None else (_until(max(next_at, now)),)
    tombstone = replace(_tombstone(run), waits=waits)
    if next_at is None:
        tombstone = _bare(tombstone)
    calls = next(part.chunks, ())
    removal = Removal(tombstone, run.epoch, calls=calls, rest=next_at is None)
    _commit(sweep, removal, audit=_entry(sweep, part, now))


def _buried(sweep: Sweep, part: _Part, now: float) -> RunRecord:
    """Leave a tombstone. Durable: when this returns; from then on the run cannot be claimed."""
    run = part.run
    if run.status is RunStatus.REMOVED:
        return run
    tombstone = replace(_tombstone(run), waits=(_until(now),))
    # Without permission to remove, this fails before anything has changed.
    removal = Removal(tombstone, run.epoch, calls=next(part.chunks, ()))
    _commit(sweep, removal, audit=_entry(sweep, part, now))
    return tombstone


def _tombstone(run: RunRecord) -> RunRecord:
    if run.status is RunStatus.REMOVED:
        return run
    return replace(run, status=RunStatus.REMOVED, epoch=run.epoch + 1, holder_id=None)


def _bare(tombstone: RunRecord) -> RunRecord:
    """Return what is kept permanently. Tags and groups may name people, so they are removed."""
    return replace(tombstone, input_json=None, failure=None, tags=(), group=None)


def _entry(sweep: Sweep, part: _Part, now: float) -> AuditEntry | None:
    """Return the audit entry of a removed run. It is written once and kept permanently."""
    run = part.run
    if run.status is RunStatus.REMOVED:
        return None
    ended = utc(run.updated_at)
    calls = part.due + part.left
    why = f"retention: {run.status.value} since {ended:%Y-%m-%d}, {calls} calls"
    return AuditEntry(run.workflow_id, now, sweep.by, AUDITED_AS, f"run {run.workflow_id}", why)


def _date(sweep: Sweep, part: _Part, parts: Sequence[_Part], now: float) -> None:
    """Write into a tombstone when to look again. If no row is left, remove the rest."""
    run = part.run
    next_at = part.next_at
    if run.root_id is None:
        # Tombstones of children are found through the tombstone of their root.
        next_at = min((one.next_at for one in parts if one.next_at is not None), default=None)
    waits = () if next_at is None else (_until(max(next_at, now)),)
    if part.left:
        _commit(sweep, Removal(replace(run, waits=waits), run.epoch))
        return
    bare = replace(_bare(run), waits=waits)
    if bare != run:
        _remove_steps(sweep, run)
        _commit(sweep, Removal(bare, run.epoch, rest=True))


def _remove_steps(sweep: Sweep, run: RunRecord) -> None:
    steps = [(step.node_id, step.checkpoint_id) for step in sweep.store.steps(run.workflow_id)]
    for some in _few(steps):
        _commit(sweep, Removal(run, run.epoch, steps=tuple(some)))


def _few(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split the items into chunks that fit into one commit."""
    return (items[start : start + MOST_ROWS] for start in range(0, len(items), MOST_ROWS))


def _commit(sweep: Sweep, removal: Removal, *, audit: AuditEntry | None = None) -> None:
    entries = () if audit is None else (audit,)
    run_id = removal.run.workflow_id
    sweep.store.commit(Commit(workflow_id=run_id, removal=removal, audit=entries))
    # Let other writers have their turn.
    sweep.clock.pause(PAUSE_SECONDS)


def _until(moment: float) -> Wait:
    return Wait(WaitKind.TIMER, "retention", ROOT_NODE, moment)


def _named(part: _Part) -> RemovedRun:
    run = part.run
    return RemovedRun(
        run_id=run.workflow_id,
        ended_as=run.status.value,
        ended_at=run.updated_at,
        calls=part.due,
        calls_left=part.left,
        due_at=part.next_at,
    )
