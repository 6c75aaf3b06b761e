"""Enqueue a run for a worker: ``app.enqueue(graph, run_id, input)`` (M1).

An enqueued run is an ordinary run that no process has started yet. Its id, graph and input are on
record. Enqueueing the same id again is the same run, and another input is refused.
Promise kept here: P62.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from nottwice.engine import events, ownership
from nottwice.engine.drivers import drive
from nottwice.engine.opening import Opening
from nottwice.engine.traces import traceparent
from nottwice.errors import RunBusy, UsageError
from nottwice.graphs.binding import check_unchanged
from nottwice.graphs.running import Runnable
from nottwice.guard.ledger import Ledger
from nottwice.model import values
from nottwice.model.call import check_id
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.run import GraphRecord, RunRecord, RunStatus
from nottwice.model.runs.labels import NO_LABELS, Labels, check_group
from nottwice.store.interface import Claim, Commit, Outdated, check_not_removed

MOST_AT_ONCE = 256
"""How many new runs share one commit."""
MOST_ASKED = 2_000
"""How many runs are looked up by one query."""


def enqueue(
    ledger: Ledger,
    graph: Runnable,
    run_id: str,
    given: Any,
    *,
    retry: bool = False,
    labels: Labels = NO_LABELS,
) -> bool:
    """Enqueue a run. Return False if it already exists. Durable: when it returns.

    A run that exists keeps its tags: only a process that opens it changes them.
    """
    check_id(run_id, what="The run id")
    while True:
        known = ledger.store.load_run(run_id)
        if known is not None:
            _check_same(ledger, graph, known, given, labels)
            if retry:
                _check_no_fork(ledger, known)
            return retry and _requeue(ledger, known)
        first = graph.state.first(given)
        check_unchanged(ledger.store, graph)
        commit = _commit(ledger, graph, run_id, first, labels)
        try:
            ledger.store.commit(commit)
        except Outdated:
            # Another process has just enqueued it.
            continue
        _tell(ledger, commit)
        return True


def enqueue_all(
    ledger: Ledger,
    graph: Runnable,
    inputs: Mapping[str, Any],
    *,
    retry: bool = False,
    labels: Labels = NO_LABELS,
) -> int:
    """Enqueue many runs and return how many are new. All are checked before one is written."""
    if not isinstance(inputs, Mapping):
        raise UsageError(
            f"enqueue_all takes a dict from run ids to inputs, not {type(inputs).__name__}. "
            "Nothing was enqueued."
        )
    new = dict(_new(ledger, graph, inputs, labels, retry=retry))
    check_unchanged(ledger.store, graph)
    waiting, written = list(new.items()), 0
    for start in range(0, len(waiting), MOST_AT_ONCE):
        # All are made before the first is committed, so that they share a transaction.
        batch = [
            _commit(ledger, graph, run_id, first, labels)
            for run_id, first in waiting[start : start + MOST_AT_ONCE]
        ]
        futures: list[tuple[Commit, Future[None]]] = [
            (commit, ledger.store.commit_soon(commit)) for commit in batch
        ]
        for commit, future in futures:
            run_id = commit.workflow_id
            try:
                future.result()
            except Outdated:
                written += enqueue(ledger, graph, run_id, inputs[run_id], labels=labels)
                continue
            written += 1
            _tell(ledger, commit)
    if retry:
        known = map(ledger.store.load_run, [run_id for run_id in inputs if run_id not in new])
        written += sum(_requeue(ledger, run) for run in known if run is not None)
    return written


def _new(
    ledger: Ledger, graph: Runnable, inputs: Mapping[str, Any], labels: Labels, *, retry: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the runs that do not exist yet, with the state that each starts with."""
    for run_id in inputs:
        check_id(run_id, what="The run id")
    exist: dict[str, RunRecord] = {}
    run_ids = list(inputs)
    for start in range(0, len(run_ids), MOST_ASKED):
        exist |= ledger.store.load_runs(run_ids[start : start + MOST_ASKED])
    for run_id, given in inputs.items():
        known = exist.get(run_id)
        if known is None:
            yield run_id, graph.state.first(given)
        else:
            _check_same(ledger, graph, known, given, labels)
            if retry:
                _check_no_fork(ledger, known)


def _commit(
    ledger: Ledger, graph: Runnable, run_id: str, first: dict[str, Any], labels: Labels
) -> Commit:
    now = ledger.clock.now()
    record = RunRecord(
        workflow_id=run_id,
        status=RunStatus.RUNNING,
        epoch=0,
        holder_id=None,
        created_at=now,
        updated_at=now,
        graph_id=graph.id,
        input_json=values.encode(first),
        tags=labels.tags,
        group=labels.group,
        traceparent=traceparent(),
    )
    recorded = GraphRecord(graph.id, graph.record_json, now)
    return Commit(workflow_id=run_id, claim=Claim(record), graph=recorded)


def _tell(ledger: Ledger, commit: Commit) -> None:
    """Tell the listeners of this process that a run is ready, as the outbox tells others (P303)."""
    if events.listeners:
        events.tell_of_commit(commit, ledger.store)


def _requeue(ledger: Ledger, known: RunRecord) -> bool:
    """Enqueue a failed run again. Return False if it has not failed.

    Only its holder may change a run, so the caller holds it for a moment.
    """
    if known.status is not RunStatus.FAILED:
        return False
    opening = Opening(host=ledger.host, run_id=known.workflow_id)
    try:
        session = drive(ownership.take(opening), ledger.host)
    except RunBusy:
        # Another process is already trying it again.
        return False
    drive(ownership.release(session, None, status=RunStatus.RUNNING), ledger.host)
    return True


def _check_no_fork(ledger: Ledger, known: RunRecord) -> None:
    """Refuse to enqueue a failed fork, because no worker takes it (P64)."""
    if known.status is RunStatus.FAILED and known.origin is not None:
        run_id = known.workflow_id
        raise UsageError(
            f"Run {run_id!r} is a fork of {known.origin!r}, and workers leave forks alone. Nothing "
            "was enqueued. Try it again here: nottwice run "
            f"--id {shlex.quote(run_id)} --app MODULE --store {shlex.quote(ledger.location)}"
        )


def _check_same(
    ledger: Ledger, graph: Runnable, known: RunRecord, given: Any, labels: Labels
) -> None:
    """Refuse an id that belongs to another run. The run's own graph version does not matter."""
    check_not_removed(known, location=ledger.location)
    run_id = known.workflow_id
    check_group(run_id, known.group, labels.group)
    if known.graph_id is None or split_graph_id(known.graph_id)[0] != graph.name:
        what = known.graph_id or "no graph (it was opened with nt.run)"
        raise UsageError(
            f"Run {run_id!r} already exists, of {what}. Nothing was enqueued. Choose another "
            f"id. See: nottwice show {shlex.quote(run_id)} --store {shlex.quote(ledger.location)}"
        )
    if given is None or graph.state.began_with(values.decode_object(known.given_input()), given):
        return
    raise UsageError(
        f"Run {run_id!r} already exists, with another input. Nothing was enqueued. Omit the "
        "input if you mean that run, or choose another id. See: nottwice show "
        f"{shlex.quote(run_id)} --store {shlex.quote(ledger.location)}"
    )
