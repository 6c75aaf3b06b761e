"""What is known about a run, put together from the ledger for somebody who looks at it?

Only reads. A run whose status is *running* while its holder is dead was interrupted; where, is told
by the call whose attempt never came back.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar, assert_never

from nottwice.cli.output import shorten, utc_text
from nottwice.engine.doubts.blocking import call_text, written_call
from nottwice.engine.doubts.restored import is_failover, mark_of
from nottwice.engine.upkeep.history import Version, history, load_whole
from nottwice.errors import UnknownRun, UsageError
from nottwice.graphs.outcome import NodeMark
from nottwice.graphs.recorded import recorded_definition
from nottwice.graphs.running import marks
from nottwice.guard.ledger import Ledger
from nottwice.guard.upkeep.on_record import runs_in_pages
from nottwice.model import values
from nottwice.model.asked import Question, WantedCall, shown_in
from nottwice.model.call import ROOT_NODE, CallRow, CallStatus
from nottwice.model.places import shown_node
from nottwice.model.records import frozen_record
from nottwice.model.review import MIGRATE, Evidence, Review, ReviewKind, ReviewStatus, Verb
from nottwice.model.run import (
    EventRecord,
    HolderRecord,
    Life,
    RunCount,
    RunRecord,
    RunStatus,
    StepRecord,
    Wait,
    WaitKind,
)
from nottwice.model.tally import DECIDED
from nottwice.reviews.queue import Case, case_of
from nottwice.store.interface import ManyFiles, Store

T = TypeVar("T")
INTERRUPTED = "interrupted"
QUEUED = "queued"
_ABORTING = ("cancel", f"decide {Verb.ABORT.value}")
"""What the audit calls the two ways of aborting a run."""
STATES = (
    QUEUED,
    "running",
    INTERRUPTED,
    "waiting",
    "completed",
    "failed",
    "aborted",
    "removed",
)
MOST_NAMES = 5
MOST_LOADED = 20
"""Of the reviews, and of the runs that need somebody; the rest are counted."""


class Holders:
    """What is known about holders, each looked up once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._records: dict[str, HolderRecord | None] = {}
        self._lives: dict[str, Life] = {}

    def record(self, holder_id: str) -> HolderRecord | None:
        if holder_id not in self._records:
            self._records[holder_id] = self._store.load_holder(holder_id)
        return self._records[holder_id]

    def life(self, holder_id: str) -> Life:
        if holder_id not in self._lives:
            self._lives[holder_id] = self._store.life_of(holder_id)
        return self._lives[holder_id]

    def describe(self, holder_id: str) -> str:
        record = self.record(holder_id)
        return f"holder {holder_id[:8]}" if record is None else record.describe()


@frozen_record(frozen=True, slots=True)
class RunView:
    """One run with its state, and who holds it."""

    run: RunRecord
    state: str
    holder: str | None
    holder_life: Life | None


@frozen_record(frozen=True, slots=True)
class Standing:
    """How far a run of a graph came, without any of its code."""

    view: RunView
    version: int | None
    """The number of its last checkpoint; None: it has none yet."""
    state: Any
    """As of that checkpoint, as plain data."""
    nodes: tuple[NodeMark, ...]


@frozen_record(frozen=True, slots=True)
class Overview:
    """The whole ledger in a few figures, with what needs somebody."""

    location: str
    states: dict[str, int]
    open_reviews: int
    decided_reviews: int
    """Decided, and not used yet."""
    cases: tuple[Case, ...]
    """The oldest reviews that are open."""
    calls_in_doubt: int
    interrupted: tuple[RunView, ...]
    """Those that changed last."""
    ready: tuple[RunView, ...]
    """Waiting runs for which something has come; those that changed last."""
    more: int
    """How many more are open, interrupted or ready than are loaded here."""
    waiting: dict[str, int]
    """How many runs wait for a review, a timer, an event, a child run."""
    copied_at: float | None = None
    """If the ledger is a copy that nobody has accounted for: when it was made."""
    failover: str | None = None
    """What is known about the failover, if one made that copy."""
    unreadable: tuple[str, ...] = ()
    """What is wrong with each file of the ledger that cannot be read."""
    decided: frozenset[str] = frozenset()
    """The reviews that the ready runs wait for and that are decided."""

    def is_decided(self, view: RunView) -> bool:
        """Whether a person has decided what a ready run waits for."""
        return any(wait.subject in self.decided for wait in view.run.waits)


@frozen_record(frozen=True, slots=True)
class CallView:
    """One call with everything that bears on it."""

    row: CallRow
    evidence: tuple[Evidence, ...]
    reviews: tuple[Review, ...]


@frozen_record(frozen=True, slots=True)
class RunDetails:
    """One run as a timeline."""

    view: RunView
    steps: tuple[StepRecord, ...]
    calls: tuple[CallView, ...]
    reviews: tuple[Review, ...]
    cut_off: tuple[CallRow, ...]
    """The calls during which the run was interrupted; empty if it was not, or between calls."""
    omitted_calls: int
    omitted_steps: int
    holders: Holders
    nodes: tuple[NodeMark, ...] = ()
    checkpoints: tuple[Version, ...] = ()
    events: tuple[EventRecord, ...] = ()
    children: tuple[RunView, ...] = ()

    @property
    def waits_for(self) -> list[Review]:
        return [review for review in self.reviews if is_pending(review)]


def look_over(ledger: Ledger) -> Overview:
    """Count what is in a ledger, and find what needs somebody.

    Runs are counted by the store (P171), and of what needs somebody only as much is loaded as
    anybody reads.
    """
    store, holders = ledger.store, Holders(ledger.store)
    states = _count_states(store.count_runs(), holders)
    tally = store.tally(now=ledger.clock.now(), over=False, limit=MOST_LOADED)
    waiting: Counter[str] = Counter()
    for group in tally.groups:
        waiting.update(dict.fromkeys(group.waits, group.runs))
    number_ready = sum(group.runs for group in tally.groups if group.ready)
    interrupted = tuple(
        itertools.islice(
            list_runs(ledger, prefix="", states=(INTERRUPTED,)),
            min(states[INTERRUPTED], MOST_LOADED),
        )
    )
    shown = tally.reviews
    ready = tuple(_view(run, holders) for run in tally.ready)
    needing = tally.open_reviews + states[INTERRUPTED] + number_ready
    mark = mark_of(store)
    return Overview(
        location=ledger.location,
        states={state: states[state] for state in STATES},
        open_reviews=tally.open_reviews,
        decided_reviews=tally.decided_reviews,
        cases=tuple(case_of(store, review) for review in shown),
        calls_in_doubt=len(store.calls_in_doubt()),
        interrupted=interrupted,
        ready=ready,
        more=needing - len(shown) - len(interrupted) - len(ready),
        waiting={kind: waiting[kind] for kind in (*(one.value for one in WaitKind), DECIDED)},
        copied_at=None if mark is None else mark.at,
        failover=mark.why if mark is not None and is_failover(mark) else None,
        unreadable=tuple(store.unreadable()) if isinstance(store, ManyFiles) else (),
        decided=decided_reviews(store, tally.ready),
    )


def _count_states(counts: Iterable[RunCount], holders: Holders) -> Counter[str]:
    found: Counter[str] = Counter()
    for count in counts:
        life = None if count.holder_id is None else holders.life(count.holder_id)
        found[QUEUED] += count.queued
        found[_state(count.status, life)] += count.runs - count.queued
    return found


def decided_reviews(store: Store, runs: Iterable[RunRecord]) -> frozenset[str]:
    """The ids of reviews that these runs wait for and whose decision none has used yet."""
    asking = [run for run in runs if any(wait.kind is WaitKind.REVIEW for wait in run.waits)]
    reviews = (review for run in asking for review in store.open_reviews(run.workflow_id))
    return frozenset(
        review.review_id for review in reviews if review.status is ReviewStatus.DECIDED
    )


def list_runs(
    ledger: Ledger, *, prefix: str, states: Sequence[str], graph: str | None = None
) -> Iterator[RunView]:
    """The runs whose id begins with ``prefix``, last changed first, read as they are asked for."""
    store, holders = ledger.store, Holders(ledger.store)
    if not states:
        found = runs_in_pages(store, prefix=prefix, graph=graph)
        return (_view(run, holders) for run in found)
    kinds = {_KINDS.get(state) or (RunStatus(state), False) for state in states}
    lists = [
        runs_in_pages(store, prefix=prefix, graph=graph, status=status, queued=queued)
        for status, queued in kinds
    ]
    merged = heapq.merge(*lists, key=lambda run: (run.updated_at, run.workflow_id), reverse=True)
    views = (_view(run, holders) for run in merged)
    return (view for view in views if view.state in states)


# The states that are not the status alone. Only a run that is running can be merely enqueued.
_KINDS = {QUEUED: (RunStatus.RUNNING, True), INTERRUPTED: (RunStatus.RUNNING, False)}


def count_runs(
    ledger: Ledger, *, prefix: str, states: Sequence[str], graph: str | None = None
) -> int:
    """How many runs ``list_runs`` would show."""
    counts = ledger.store.count_runs(prefix=prefix, graph=graph)
    found = _count_states(counts, Holders(ledger.store))
    return sum(number for state, number in found.items() if not states or state in states)


def find_run(ledger: Ledger, name: str, *, list_command: str) -> RunRecord:
    """A run by its id, a beginning of it that fits only one, or a review of it."""
    store = ledger.store
    exact = store.load_run(name) if name else None
    if exact is not None:
        return exact
    found = store.runs(prefix=name, limit=MOST_NAMES + 1) if name else []
    if not found and name:
        reviewed = {review.identity.workflow_id for review in store.find_reviews(name)}
        found = [run for run in map(store.load_run, sorted(reviewed)) if run is not None]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UnknownRun(
            f"There is no run {name!r} in {ledger.location}. Nothing was changed. "
            f"List them with: {list_command}"
        )
    names = ", ".join(repr(run.workflow_id) for run in found[:MOST_NAMES])
    more = " and more" if len(found) > MOST_NAMES else ""
    raise UsageError(f"{name!r} is the beginning of several runs: {names}{more}. Give more of it.")


def look_into(ledger: Ledger, run: RunRecord, *, limit: int | None) -> RunDetails:
    """Everything about one run; beyond ``limit`` calls only the last ones and the notable."""
    store, holders = ledger.store, Holders(ledger.store)
    run_id = run.workflow_id
    reviews = store.reviews(run_id)
    evidence_of: dict[str, list[Evidence]] = defaultdict(list)
    for item in store.evidence(run_id):
        evidence_of[item.call_id].append(item)
    reviews_of: dict[str, list[Review]] = defaultdict(list)
    for review in reviews:
        reviews_of[review.call_id].append(review)
    rows, omitted = _shown_rows(store, run_id, reviews, limit)
    kept = [
        CallView(row, tuple(evidence_of[row.call_id]), tuple(reviews_of[row.call_id]))
        for row in rows
    ]
    view = _view(run, holders)
    cut_off = [
        row
        for row in rows
        if row.status is CallStatus.PENDING and holders.life(row.holder_id) is not Life.ALIVE
    ]
    steps = store.steps(run_id)
    kept_steps = _last(steps, limit, keep=lambda step: step.finished_at is None)
    return RunDetails(
        view=view,
        steps=tuple(kept_steps),
        calls=tuple(kept),
        reviews=tuple(reviews),
        cut_off=tuple(cut_off),
        omitted_calls=omitted,
        omitted_steps=len(steps) - len(kept_steps),
        holders=holders,
        nodes=_nodes(store, run),
        checkpoints=tuple(history(store, run_id)),
        events=tuple(store.events(run_id)),
        children=tuple(_view(child, holders) for child in store.children(run_id)),
    )


def _shown_rows(
    store: Store, run_id: str, reviews: Sequence[Review], limit: int | None
) -> tuple[list[CallRow], int]:
    """The last calls and, however old they are, those in doubt or decided about; the rest counted.

    A run may have more calls than anybody wants in memory.
    """
    if limit is None:
        return store.calls(run_id), 0
    last = store.last_calls(run_id, limit=limit)
    shown = {row.identity: row for row in last}
    decided = (store.load_call(review.identity) for review in reviews)
    notable = [*store.calls_in_doubt(run_id), *(row for row in decided if row is not None)]
    early = {row.identity: row for row in notable if row.identity not in shown}
    found = [*sorted(early.values(), key=lambda row: row.created_at), *last]
    return found, max(0, store.count_calls(run_id) - len(found))


def view_of(ledger: Ledger, run_id: str) -> RunView:
    """A run that is known to be there."""
    run = ledger.store.load_run(run_id)
    assert run is not None
    return _view(run, Holders(ledger.store))


def stand(ledger: Ledger, run_id: str) -> Standing:
    """How far a run of a graph came."""
    store, view = ledger.store, view_of(ledger, run_id)
    run = view.run
    saved = store.checkpoints(run_id)
    if saved:
        state = load_whole(store, run_id)["state"]
    else:
        state = None if run.input_json is None else values.decode_object(run.input_json)
    return Standing(
        view=view,
        version=saved[-1].version if saved else None,
        state=state,
        nodes=_nodes(store, run),
    )


def after_text(version: Version, before: Version | None) -> str:
    """What had just ended when a version was saved."""
    node_id = version.node_id
    if node_id == ROOT_NODE:
        return "the input"
    if node_id.startswith("/["):
        return shown_node(node_id)
    if node_id.startswith("/"):
        return f"the migration to {node_id[1:]}"
    if before is not None and before.node_id.startswith("/["):
        # The node itself had not begun, and has a version of its own when it ends.
        return f"the branches before {node_id}"
    return node_id


def migration_texts(store: Store, run: RunRecord) -> list[str]:
    """Who moved a run to another version of its graph, from where to where, and why."""
    if run.graph_id is None:
        return []
    said = [each for each in store.audit(run.workflow_id) if each.action == MIGRATE]
    return [shorten(f"{one.subject}, by {one.who}: {one.why}") for one in said]


def abort_text(store: Store, run: RunRecord) -> str | None:
    """Who aborted a run, and why; None if nobody did."""
    if run.status is not RunStatus.ABORTED:
        return None
    said = [each for each in store.audit(run.workflow_id) if each.action in _ABORTING]
    return shorten(f"by {said[-1].who}: {said[-1].why}") if said else None


def _nodes(store: Store, run: RunRecord) -> tuple[NodeMark, ...]:
    """Where each node stands; from the ledger alone, so that no code is needed to look."""
    graph = None if run.graph_id is None else store.load_graph(run.graph_id)
    if graph is None:
        return ()
    visited = store.last_visits(run.workflow_id)
    return tuple(marks(recorded_definition(graph), visited, bound=run.graph_id))


def subject_text(review: Review, row: CallRow | None) -> str:
    """What a review is about, in one line: a question, or a call."""
    shown = shown_in(review)
    match shown:
        case Question():
            return shown.text
        case WantedCall():
            return written_call(shown.tool, shown.args)
        case None:
            if review.kind is ReviewKind.UNDEPLOYABLE:
                return "the version of its graph"
            if review.kind is ReviewKind.RESTORED:
                return "the copy that it is in"
            if review.kind is ReviewKind.CORRUPT:
                return "its rows and seals"
            return review.identity.tool_name if row is None else call_text(row)
        case _:
            assert_never(shown)


def kind_of(wait: Wait, decided: Collection[str]) -> str:
    """What a run waits for; a review that is decided waits for the run to be opened again."""
    is_decided = wait.kind is WaitKind.REVIEW and wait.subject in decided
    return DECIDED if is_decided else wait.kind.value


def wait_text(wait: Wait, *, decided: Collection[str] = ()) -> str:
    """One reason why a run waits, in words."""
    until = "" if wait.until is None else f" until {utc_text(wait.until)} UTC"
    match wait.kind:
        case WaitKind.REVIEW:
            is_decided = wait.subject in decided
            return f"review {wait.subject}" + (", decided: resume it" if is_decided else "")
        case WaitKind.TIMER:
            return f"timer {wait.subject}{until}"
        case WaitKind.EVENT:
            return f"event {wait.subject}{until}"
        case WaitKind.CHILD:
            return f"child run {wait.subject}"
        case _:
            assert_never(wait.kind)


def is_pending(review: Review) -> bool:
    """Whether a review still holds its run up: nobody decided, or nobody used the decision."""
    return review.status in (ReviewStatus.OPEN, ReviewStatus.DECIDED)


def _view(run: RunRecord, holders: Holders) -> RunView:
    life = None if run.holder_id is None else holders.life(run.holder_id)
    who = None if run.holder_id is None else holders.describe(run.holder_id)
    return RunView(run, QUEUED if run.is_queued else _state(run.status, life), who, life)


def _state(status: RunStatus, life: Life | None) -> str:
    # A run that nobody holds is not running either: its last holder could not finish claiming it.
    if status is RunStatus.RUNNING and life in (None, Life.DEAD):
        return INTERRUPTED
    return status.value


def _last(items: Sequence[T], limit: int | None, *, keep: Callable[[T], bool]) -> list[T]:
    """The last ``limit`` items, and of those before them the ones to keep."""
    if limit is None or len(items) <= limit:
        return list(items)
    first = len(items) - limit
    return [item for index, item in enumerate(items) if index >= first or keep(item)]


def count_text(counts: Iterable[tuple[str, int]]) -> str:
    """The figures that are not zero, as in ``1 waiting, 5 completed``."""
    return ", ".join(f"{number} {name}" for name, number in counts if number) or "none"
