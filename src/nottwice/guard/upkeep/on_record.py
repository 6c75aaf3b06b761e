"""What is on record: the runs and calls of a ledger, for programs that read it (L4).

This only reads, one page at a time. It returns plain data, which does not change if the storage
format does. Promise kept here: P172.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nottwice.engine.stepping.steps import is_note
from nottwice.model import values
from nottwice.model.call import CallRow, ResultKind
from nottwice.model.data.records import frozen_record
from nottwice.model.failure import Failure
from nottwice.model.run import RunRecord, RunStatus, Wait
from nottwice.model.runs.labels import NO_LABELS, Labels
from nottwice.model.runs.openings import OpeningRecord
from nottwice.store.interface import Store

PAGE = 200
QUEUED = "queued"
STATUSES = (QUEUED, *(status.value for status in RunStatus))


@frozen_record(frozen=True, slots=True)
class RecordedOpening:
    """One time that a process held a run: ``ledger.run_record(run_id).openings``."""

    epoch: int
    """Grows with every opening of the run. Upkeep counts, too, and is not listed."""
    holder: str
    """The id of the process."""
    began_at: float
    ended_at: float | None
    ended: str | None
    """``completed``, ``failed``, ``waiting``, ``aborted``, ``released`` (the run can continue),
    ``killed`` (the process was dead when another took the run) or ``taken over`` (it may have
    lived). None: it holds the run, or was killed and no process has opened the run since."""
    receipts: int | None
    """How many calls returned their recorded result. None: it was killed and could not say."""
    duplicates: int | None
    """How many effects were asked for again and not made again. None: as above."""
    tokens_saved: int | None
    """The tokens of the recorded model replies among them."""
    usd_saved: float | None
    """What those replies cost when they were made; 0 if no price was known."""
    trace_id: str | None
    """The trace that shows it. None: it was not traced."""


@frozen_record(frozen=True, slots=True)
class RecordedRun:
    """One run as the ledger has it: ``ledger.runs()``, ``ledger.run_record(run_id)``."""

    id: str
    status: str
    """``queued``, ``running``, ``waiting``, ``idle``, ``completed``, ``failed``, ``aborted`` or
    ``removed``. A run whose process was killed is still ``running`` on record."""
    graph: str | None
    """The graph that it is bound to, ``name@version``; None: it has none."""
    version: str | None
    """The version of its graph, or the ``version`` given to ``nt.run``; None: it has none."""
    started_at: float
    updated_at: float
    opened: int
    """How often a process started or resumed it."""
    input: Any
    """The input of a graph's run, as plain data; None for others."""
    waits: tuple[Wait, ...]
    failure: Failure | None
    parent: str | None
    """The run that spawned it."""
    origin: str | None
    """The run that it was forked from."""
    tags: dict[str, str]
    group: str | None
    """The group of runs that it belongs to."""
    openings: tuple[RecordedOpening, ...] | None
    """The processes that held it, oldest first. None in a list of runs: ``ledger.run_record``
    reads them."""


@frozen_record(frozen=True, slots=True)
class RecordedCall:
    """One call as the ledger has it: ``ledger.calls(run_id)``, ``ledger.in_doubt()``."""

    id: str
    run_id: str
    tool: str
    step: str
    """The path of the step that it was made in; ``/`` outside any step."""
    visit: str
    """Which visit of that step, as the ledger identifies it."""
    replay_class: str
    status: str
    """``pending``, ``done``, ``failed`` or ``unknown``."""
    args: dict[str, Any]
    """Plain data; a secret is replaced by its fingerprint."""
    result: Any
    """Plain data as stored, not converted to the type that the tool returned. None if there is
    none."""
    result_kept: bool
    """Whether ``result`` is what the call returned; False if the call has not returned, or its
    result was not kept."""
    failure: Failure | None
    key: str | None
    label: str | None
    """The label of a deliberate repeat: ``tool.again(label)``."""
    attempts: int
    first_started_at: float
    started_at: float
    """When the last attempt started."""
    finished_at: float | None
    settled_by: str | None
    parent_call: str | None
    """The call whose body made this one."""

    @property
    def in_doubt(self) -> bool:
        """Whether it may or may not have taken effect."""
        return self.status in ("pending", "unknown")


def recorded_runs(
    store: Store, *, prefix: str, graph: str | None, status: str | None, labels: Labels
) -> Iterator[RecordedRun]:
    """Yield the runs of a ledger, last changed first, read as they are asked for."""
    if status == QUEUED:
        found = runs_in_pages(
            store,
            prefix=prefix,
            graph=graph,
            status=RunStatus.RUNNING,
            queued=True,
            labels=labels,
        )
    else:
        wanted = None if status is None else RunStatus(status)
        queued = False if wanted is RunStatus.RUNNING else None
        found = runs_in_pages(
            store, prefix=prefix, graph=graph, status=wanted, queued=queued, labels=labels
        )
    return map(recorded_run, found)


def runs_in_pages(
    store: Store,
    *,
    prefix: str = "",
    graph: str | None = None,
    status: RunStatus | None = None,
    queued: bool | None = None,
    labels: Labels = NO_LABELS,
    before: RunRecord | None = None,
) -> Iterator[RunRecord]:
    """Yield runs, last changed first, a page at a time. ``before``: only those that follow it."""
    last = before
    while True:
        page = store.runs(
            limit=PAGE,
            prefix=prefix,
            graph=graph,
            status=status,
            queued=queued,
            before=last,
            tags=labels.tags,
            group=labels.group,
        )
        yield from page
        if len(page) < PAGE:
            return
        last = page[-1]


def recorded_calls(store: Store, run_id: str) -> Iterator[RecordedCall]:
    """Yield the calls of a run, oldest first, read as they are asked for."""
    page = store.calls(run_id, limit=PAGE)
    while page:
        yield from (recorded_call(row) for row in page if not is_note(row))
        page = store.calls(run_id, limit=PAGE, after=page[-1].identity)


def recorded_run(run: RunRecord, openings: Sequence[OpeningRecord] | None = None) -> RecordedRun:
    # Without a graph, the stored input is only the version.
    given = None if run.graph_id is None else run.input_json
    return RecordedRun(
        id=run.workflow_id,
        status=QUEUED if run.is_queued else run.status.value,
        graph=run.graph_id,
        version=run.version,
        started_at=run.created_at,
        updated_at=run.updated_at,
        opened=run.epoch,
        input=None if given is None else values.decode(given),
        waits=run.waits,
        failure=run.failure,
        parent=run.parent_id,
        origin=run.origin,
        tags=dict(run.tags),
        group=run.group,
        openings=None if openings is None else tuple(map(_recorded_opening, openings)),
    )


def _recorded_opening(opening: OpeningRecord) -> RecordedOpening:
    return RecordedOpening(
        epoch=opening.epoch,
        holder=opening.holder_id,
        began_at=opening.began_at,
        ended_at=opening.ended_at,
        ended=None if opening.ended is None else opening.ended.value,
        receipts=opening.receipts,
        duplicates=opening.duplicates,
        tokens_saved=opening.tokens,
        usd_saved=opening.usd,
        trace_id=opening.trace_id,
    )


def recorded_call(row: CallRow) -> RecordedCall:
    kept = row.result is not None and row.result.kind is not ResultKind.NOT_KEPT
    return RecordedCall(
        id=row.call_id,
        run_id=row.identity.workflow_id,
        tool=row.identity.tool_name,
        step=row.identity.node_id,
        visit=row.identity.checkpoint_id,
        replay_class=row.replay_class.value,
        status=row.status.value.lower(),
        args=values.decode_object(row.args_json),
        result=values.decode(row.result.json) if kept and row.result is not None else None,
        result_kept=kept,
        failure=row.failure,
        key=row.key,
        label=row.label,
        attempts=row.attempt,
        first_started_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        settled_by=row.settled_by,
        parent_call=row.parent_call_id,
    )
