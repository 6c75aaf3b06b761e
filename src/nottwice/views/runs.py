"""Which runs are in a ledger, and what state is each in?

A run whose status is *running* while its holder is dead was interrupted. Promise kept here: P171
(a list loads only the runs that it shows).
"""

from __future__ import annotations

import heapq
import itertools
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any

from nottwice.errors import UnknownRun, UsageError
from nottwice.guard.ledger import Ledger
from nottwice.guard.upkeep.on_record import runs_in_pages
from nottwice.model.data.records import frozen_record
from nottwice.model.failure import Failure
from nottwice.model.review import Review, ReviewStatus
from nottwice.model.run import (
    HolderRecord,
    Life,
    RunCount,
    RunRecord,
    RunStatus,
    Wait,
    WaitKind,
)
from nottwice.model.runs.labels import NO_LABELS, Labels
from nottwice.model.runs.openings import OpeningEnd, OpeningRecord
from nottwice.reviews.queue import believed
from nottwice.store.interface import Store
from nottwice.views.shape import LEDGER, Timestamp, moment, one_of
from nottwice.views.wording import ToolTexts

INTERRUPTED = "interrupted"
QUEUED = "queued"
STATES = (
    QUEUED,
    "running",
    INTERRUPTED,
    "waiting",
    "idle",
    "completed",
    "failed",
    "aborted",
    "removed",
)
MOST_NAMES = 5
MOST_ROWS = 50


class Holders:
    """The holders of runs and attempts; each is looked up once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.tools = ToolTexts(store)
        """What the ledger knows about the tools of their calls."""
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


@frozen_record(frozen=True, slots=True, kw_only=True)
class FailureView:
    """The error that ended a run, a step or an attempt."""

    failure_class: Annotated[str, "retryable, permanent or ambiguous"]
    error_type: Annotated[str, "the type of the exception"]
    message: Annotated[str, "its text"]
    retry_after_seconds: Annotated[float | None, "the wait that was asked for, or null"]

    def __str__(self) -> str:
        return f"{self.error_type}: {self.message}"


@frozen_record(frozen=True, slots=True, kw_only=True)
class WaitView:
    """One thing that a run waits for."""

    kind: Annotated[WaitKind, one_of(WaitKind)]
    subject: Annotated[
        str, "the review's id, the event's name, the child run's id, or where the timer is"
    ]
    step: Annotated[str, "the step that waits"]
    until: Annotated[Timestamp | None, "when the wait ends on its own, or null"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run with its state and its holder."""

    run_id: Annotated[str, "the id that the user chose"]
    state: Annotated[
        str, "queued, running, interrupted, waiting, idle, completed, failed, aborted or removed"
    ]
    started_at: Annotated[Timestamp, "when it was first opened"]
    updated_at: Annotated[Timestamp, "when its state last changed"]
    opened: Annotated[int, "how often it was opened"]
    holder: Annotated[str | None, "the process that holds it, or null"]
    holder_life: Annotated[Life | None, "alive, dead, not proven, or null"]
    failure: Annotated[FailureView | None, "the error that ended it, or null; see failure"]
    waits: Annotated[tuple[WaitView, ...], "everything that it waits for; see wait"]
    graph: Annotated[
        str | None, "the graph that it is bound to, name@version; null if it is not of a graph"
    ]
    version: Annotated[
        str | None, "the version of the code that it began with; null if it has none"
    ]
    parent: Annotated[str | None, "the run that spawned it, or null"]
    origin: Annotated[str | None, "the run that it was forked from, or null"]
    root: Annotated[
        str | None, "the run at the top of its family, which resumes it; null if it has no parent"
    ]
    tags: Annotated[dict[str, str], "the tags that callers gave it"]
    group: Annotated[str | None, "the group of runs that it belongs to, or null"]
    is_final: bool
    """Whether its status can never change again."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class OpeningView:
    """One time that a process held a run."""

    epoch: Annotated[int, "grows with every opening; upkeep also counts, but is not listed"]
    holder: Annotated[str, "the process that held it"]
    began_at: Annotated[Timestamp, "when it claimed the run"]
    ended_at: Annotated[Timestamp | None, "when it released the run, or another took it; or null"]
    ended: Annotated[
        OpeningEnd | None,
        "completed, failed, waiting, aborted, released, killed or taken over; null while it holds "
        "the run, or if it was killed and no process has opened the run since",
    ]
    receipts: Annotated[
        int | None, "how many calls returned a result of an earlier opening; null if it was killed"
    ]
    duplicates: Annotated[
        int | None,
        "how many effects were asked for again and not made again; null if it was killed",
    ]
    tokens_saved: Annotated[int | None, "the tokens of model replies among them, or null"]
    usd_saved: Annotated[
        float | None, "what those replies cost when they were made, 0 if not known, or null"
    ]
    trace_id: Annotated[str | None, "the trace that shows it, if it was traced, or null"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunList:
    """The runs that were asked for, last changed first."""

    ledger: Annotated[str, LEDGER]
    runs: Annotated[tuple[RunView, ...], "the runs, last changed first; see run"]
    omitted: Annotated[int, "how many more there are; --all prints them"]
    now: float
    decided: frozenset[str]
    """The reviews that these runs wait for and that are decided."""


def show_runs(
    ledger: Ledger,
    *,
    prefix: str = "",
    states: Sequence[str] = (),
    graph: str | None = None,
    most: int | None = MOST_ROWS,
    labels: Labels = NO_LABELS,
) -> RunList:
    """The last ``most`` runs that fit, and how many more there are."""
    found = list_runs(ledger, prefix=prefix, states=states, graph=graph, labels=labels)
    shown = tuple(itertools.islice(found, most))
    omitted = 0
    if most is not None and len(shown) == most:
        counted = count_runs(ledger, prefix=prefix, states=states, graph=graph, labels=labels)
        # Another process may have removed some in the meantime.
        omitted = max(0, counted - len(shown))
    return RunList(
        ledger=ledger.location,
        runs=shown,
        omitted=omitted,
        now=ledger.clock.now(),
        decided=decided_reviews(ledger.store, shown),
    )


def list_runs(
    ledger: Ledger,
    *,
    prefix: str = "",
    states: Sequence[str] = (),
    graph: str | None = None,
    labels: Labels = NO_LABELS,
    before: RunRecord | None = None,
) -> Iterator[RunView]:
    """The runs whose id begins with ``prefix``, last changed first, read as they are asked for.

    ``before``: only the runs that follow this one in the list, as it was read.
    """
    store, holders = ledger.store, Holders(ledger.store)
    if not states:
        found = runs_in_pages(store, prefix=prefix, graph=graph, labels=labels, before=before)
        return (run_view(run, holders) for run in found)
    kinds = {_KINDS.get(state) or (RunStatus(state), False) for state in states}
    lists = [
        runs_in_pages(
            store,
            prefix=prefix,
            graph=graph,
            status=status,
            queued=queued,
            labels=labels,
            before=before,
        )
        for status, queued in kinds
    ]
    merged = heapq.merge(*lists, key=lambda run: (run.updated_at, run.workflow_id), reverse=True)
    views = (run_view(run, holders) for run in merged)
    return (view for view in views if view.state in states)


# The states that are not the status alone. Only a run that is running can be merely enqueued.
_KINDS = {QUEUED: (RunStatus.RUNNING, True), INTERRUPTED: (RunStatus.RUNNING, False)}


def count_runs(
    ledger: Ledger,
    *,
    prefix: str = "",
    states: Sequence[str] = (),
    graph: str | None = None,
    labels: Labels = NO_LABELS,
) -> int:
    """How many runs ``list_runs`` would show."""
    counts = ledger.store.count_runs(
        prefix=prefix, graph=graph, tags=labels.tags, group=labels.group
    )
    found = count_states(counts, Holders(ledger.store))
    return sum(number for state, number in found.items() if not states or state in states)


def count_states(counts: Iterable[RunCount], holders: Holders) -> Counter[str]:
    """How many runs are in each state."""
    found: Counter[str] = Counter()
    for count in counts:
        life = None if count.holder_id is None else holders.life(count.holder_id)
        found[QUEUED] += count.queued
        found[_state(count.status, life)] += count.runs - count.queued
    return found


def find_run(ledger: Ledger, name: str, *, list_command: str) -> RunView:
    """A run by its id, by a prefix that only one run has, or by one of its reviews."""
    store = ledger.store
    exact = store.load_run(name) if name else None
    found = [] if exact is None else [exact]
    if not found and name:
        found = store.runs(prefix=name, limit=MOST_NAMES + 1)
    if not found and name:
        reviewed = {review.identity.workflow_id for review in store.find_reviews(name)}
        found = [run for run in map(store.load_run, sorted(reviewed)) if run is not None]
    if len(found) == 1:
        return run_view(found[0], Holders(store))
    if not found:
        raise UnknownRun(
            f"There is no run {name!r} in {ledger.location}. Nothing was changed. "
            f"List them with: {list_command}"
        )
    names = ", ".join(repr(run.workflow_id) for run in found[:MOST_NAMES])
    more = " and more" if len(found) > MOST_NAMES else ""
    if any(run.group == name for run in found):
        raise UsageError(
            f"{name!r} is a group of runs: {names}{more}. Show one of them, or list all: "
            f"{list_command} --group {shlex.quote(name)}"
        )
    raise UsageError(f"{name!r} is the beginning of several runs: {names}{more}. Give more of it.")


def view_of(ledger: Ledger, run_id: str) -> RunView:
    """A run that exists."""
    return run_view(load_run(ledger.store, run_id), Holders(ledger.store))


def load_run(store: Store, run_id: str) -> RunRecord:
    """The record of a run; UnknownRun if it does not exist."""
    run = store.load_run(run_id)
    if run is None:
        raise UnknownRun(
            f"There is no run {run_id!r} in {store.location}. Nothing was changed. "
            "List them with: nottwice runs"
        )
    return run


def run_view(run: RunRecord, holders: Holders) -> RunView:
    """A run as it is shown."""
    life = None if run.holder_id is None else holders.life(run.holder_id)
    return RunView(
        run_id=run.workflow_id,
        state=QUEUED if run.is_queued else _state(run.status, life),
        started_at=Timestamp(run.created_at),
        updated_at=Timestamp(run.updated_at),
        opened=run.epoch,
        holder=None if run.holder_id is None else holders.describe(run.holder_id),
        holder_life=life,
        failure=failure_view(run.failure),
        waits=tuple(map(wait_view, run.waits)),
        graph=run.graph_id,
        version=run.version,
        parent=run.parent_id,
        origin=run.origin,
        root=run.root_id,
        tags=dict(run.tags),
        group=run.group,
        is_final=run.status.is_final,
    )


def opening_view(opening: OpeningRecord, holders: Holders) -> OpeningView:
    """An opening as it is shown."""
    return OpeningView(
        epoch=opening.epoch,
        holder=holders.describe(opening.holder_id),
        began_at=Timestamp(opening.began_at),
        ended_at=moment(opening.ended_at),
        ended=opening.ended,
        receipts=opening.receipts,
        duplicates=opening.duplicates,
        tokens_saved=opening.tokens,
        usd_saved=opening.usd,
        trace_id=opening.trace_id,
    )


def wait_view(wait: Wait) -> WaitView:
    """What a run waits for, as it is shown."""
    return WaitView(
        kind=wait.kind, subject=wait.subject, step=wait.node_id, until=moment(wait.until)
    )


def failure_view(failure: Failure | None) -> FailureView | None:
    """A recorded error as it is shown."""
    plain: Any = None if failure is None else failure.to_plain()
    return None if plain is None else FailureView(**plain)


def decided_reviews(store: Store, runs: Iterable[RunView]) -> frozenset[str]:
    """The ids of reviews that these runs wait for and whose decision no run has used yet."""
    asking = [run for run in runs if any(wait.kind is WaitKind.REVIEW for wait in run.waits)]
    none: list[Review] = []
    return frozenset(
        review.review_id
        for run in asking
        for review in believed(partial(store.open_reviews, run.run_id), none)
        if review.status is ReviewStatus.DECIDED
    )


def _state(status: RunStatus, life: Life | None) -> str:
    # A run without a holder is not running either: its last holder could not finish claiming it.
    if status is RunStatus.RUNNING and life in (None, Life.DEAD):
        return INTERRUPTED
    return status.value
