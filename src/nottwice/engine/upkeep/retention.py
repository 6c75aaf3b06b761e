"""What of a ledger does nobody need any more, and how is it removed while others work? (L8)

A run and those that it has spawned are one family, and nothing of it is removed while any of them
is open. First each becomes a tombstone, the root before its children, which no one can claim any
more: from then on nothing that is still there can be taken for all there was. Then rows go, a few
in each commit. Whoever is killed in between leaves tombstones, and the next one goes on from there.
Promises kept here: P88 (nothing of an open run is removed), P89 (a removed run never starts again).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from nottwice.engine.clock import Clock
from nottwice.engine.session import FindTool
from nottwice.engine.upkeep import history
from nottwice.errors import RunBusy
from nottwice.model.calendar import utc
from nottwice.model.call import ROOT_NODE, CallIdentity, CallRow
from nottwice.model.records import frozen_record
from nottwice.model.retention import Retention
from nottwice.model.review import AuditEntry, ReviewStatus
from nottwice.model.run import Life, RunRecord, RunStatus, Wait, WaitKind
from nottwice.model.tool import OWN_PREFIX
from nottwice.store.interface import Commit, Outdated, Removal, Store

T = TypeVar("T")
MOST_RUNS = 200
MOST_ROWS = 500
"""In one commit: a holder who wants to write waits for a few milliseconds."""
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
    """When the next part of it may go; None: nothing is left but its tombstone."""


@dataclass(slots=True)
class RemovalReport:
    """What was removed, or would be: ``dry_run`` tells which."""

    dry_run: bool
    families: int = 0
    """Runs that were looked at, each with those that it has spawned."""
    runs: int = 0
    calls: int = 0
    checkpoints: int = 0
    still_open: int = 0
    """Families that are over long enough, but for a review, a doubt or a process."""
    unknown_tools: Counter[str] = field(default_factory=Counter)
    """Rows that are due and were kept, because nobody here knows how long their tool needs them."""
    named: list[RemovedRun] = field(default_factory=list)
    """The first runs, up to a thousand."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What somebody wants to have removed."""

    store: Store
    clock: Clock
    find_tool: FindTool
    retention: Retention
    by: str
    dry_run: bool = False
    unknown_tools: bool = False
    """Also rows of tools that are not declared here, by their class."""
    on_progress: Callable[[RemovalReport], None] = lambda removed: None


def remove_expired(sweep: Sweep) -> RemovalReport:
    """Remove what is due. Durable: each part when it is done; safe to kill and to repeat."""
    removed = RemovalReport(sweep.dry_run)
    now = sweep.clock.now()
    # What is left of a removed run was dated by the usual periods; others mean another look.
    usual = sweep.retention == Retention()
    last = ""
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
            removed.families += 1
            _look_at(sweep, list(_family(sweep.store, root)), removed, now)
            sweep.on_progress(removed)
        last = roots[-1].workflow_id


def _family(store: Store, run: RunRecord) -> Iterator[RunRecord]:
    """A run and all that it has spawned, directly or not; a parent before its children."""
    yield run
    for child in store.children(run.workflow_id):
        yield from _family(store, child)


def _look_at(sweep: Sweep, family: Sequence[RunRecord], removed: RemovalReport, now: float) -> None:
    ended_at = max(run.updated_at for run in family)
    if now < ended_at + sweep.retention.shortest_seconds:
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
    """Whether anybody may still do something in a run, or wants to know something about it."""
    if run.status in (RunStatus.RUNNING, RunStatus.WAITING):
        return True
    if run.holder_id is not None and store.life_of(run.holder_id) is not Life.DEAD:
        return True
    final = run.status in (RunStatus.ABORTED, RunStatus.REMOVED)
    for review in store.open_reviews(run.workflow_id):
        # Nobody will use what was decided about a run that can never be opened again.
        if not final or review.status is ReviewStatus.OPEN:
            return True
    if final:
        return False
    return any(row.replay_class.effectful for row in store.calls_in_doubt(run.workflow_id))


def _thinned(sweep: Sweep, run: RunRecord, removed: RemovalReport) -> RunRecord:
    """Remove all versions of a run but the last, from which it can still be told how it ended."""
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
    """One run of a family, and how much of it is due; a run may have more calls than memory."""

    run: RunRecord
    chunks: Iterator[tuple[CallIdentity, ...]]
    """The calls that are due, as many at a time as one commit may hold."""
    due: int = 0
    left: int = 0
    next_at: float | None = None
    """When the first of those that are left is due."""


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
    """When a row is due, and whether it is, for those who know its tool."""
    name = row.identity.tool_name
    tool = sweep.find_tool(name)
    due_at = sweep.retention.due_at(row, tool=tool, ended_at=ended_at)
    known = sweep.unknown_tools or tool is not None or name.startswith(OWN_PREFIX)
    return due_at, due_at <= now and known


def _rows(sweep: Sweep, run: RunRecord) -> Iterator[CallRow]:
    """All calls of a run, a few in memory at a time; each read before the last ones are used."""
    rows = sweep.store.last_calls(run.workflow_id, limit=MOST_ROWS)
    while rows:
        # Whoever removes what it is given must not remove the mark of where we are.
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
            _remove_at_once(sweep, parts[0], now)
            return
        for part in parts:
            part.run = _buried(sweep, part, now)
        for part in parts:
            for calls in part.chunks:
                _commit(sweep, Removal(part.run, part.run.epoch, calls=calls))
        # The root last: it is by the root that the next sweep finds what is left.
        for part in reversed(parts):
            _date(sweep, part, parts, now)
    except Outdated:
        # Somebody opened a failed run at this very moment, or sweeps here as well.
        return


def _is_small(sweep: Sweep, part: _Part) -> bool:
    few = part.due <= MOST_ROWS
    return few and (part.left > 0 or len(sweep.store.steps(part.run.workflow_id)) <= MOST_ROWS)


def _remove_at_once(sweep: Sweep, part: _Part, now: float) -> None:
    """Most runs: everything in one commit. Durable: when it returns."""
    run, next_at = part.run, part.next_at
    waits = () if next_at is None else (_until(max(next_at, now)),)
    tombstone = replace(_tombstone(run), waits=waits)
    if next_at is None:
        tombstone = replace(tombstone, input_json=None, failure=None)
    calls = next(part.chunks, ())
    removal = Removal(tombstone, run.epoch, calls=calls, rest=next_at is None)
    _commit(sweep, removal, audit=_entry(sweep, part, now))


def _buried(sweep: Sweep, part: _Part, now: float) -> RunRecord:
    """Leave a tombstone. Durable: when it returns; from then on nobody can claim the run."""
    run = part.run
    if run.status is RunStatus.REMOVED:
        return run
    tombstone = replace(_tombstone(run), waits=(_until(now),))
    # Who may not remove anything is told so before anything has changed.
    removal = Removal(tombstone, run.epoch, calls=next(part.chunks, ()))
    _commit(sweep, removal, audit=_entry(sweep, part, now))
    return tombstone


def _tombstone(run: RunRecord) -> RunRecord:
    if run.status is RunStatus.REMOVED:
        return run
    return replace(run, status=RunStatus.REMOVED, epoch=run.epoch + 1, holder_id=None)


def _entry(sweep: Sweep, part: _Part, now: float) -> AuditEntry | None:
    """What is kept for good of a run that is removed; it says so once."""
    run = part.run
    if run.status is RunStatus.REMOVED:
        return None
    ended = utc(run.updated_at)
    calls = part.due + part.left
    why = f"retention: {run.status.value} since {ended:%Y-%m-%d}, {calls} calls"
    return AuditEntry(run.workflow_id, now, sweep.by, AUDITED_AS, f"run {run.workflow_id}", why)


def _date(sweep: Sweep, part: _Part, parts: Sequence[_Part], now: float) -> None:
    """Write into a tombstone when to look again; or, if no row is left, remove the rest."""
    run = part.run
    next_at = part.next_at
    if run.root_id is None:
        # Tombstones of children are found by that of their root.
        next_at = min((one.next_at for one in parts if one.next_at is not None), default=None)
    waits = () if next_at is None else (_until(max(next_at, now)),)
    if part.left:
        _commit(sweep, Removal(replace(run, waits=waits), run.epoch))
        return
    bare = replace(run, waits=waits, input_json=None, failure=None)
    if bare != run:
        _remove_steps(sweep, run)
        _commit(sweep, Removal(bare, run.epoch, rest=True))


def _remove_steps(sweep: Sweep, run: RunRecord) -> None:
    steps = [(step.node_id, step.checkpoint_id) for step in sweep.store.steps(run.workflow_id)]
    for some in _few(steps):
        _commit(sweep, Removal(run, run.epoch, steps=tuple(some)))


def _few(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """As many at a time as one commit may hold."""
    return (items[start : start + MOST_ROWS] for start in range(0, len(items), MOST_ROWS))


def _commit(sweep: Sweep, removal: Removal, *, audit: AuditEntry | None = None) -> None:
    entries = () if audit is None else (audit,)
    run_id = removal.run.workflow_id
    sweep.store.commit(Commit(workflow_id=run_id, removal=removal, audit=entries))
    # Others who write have their turn.
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
