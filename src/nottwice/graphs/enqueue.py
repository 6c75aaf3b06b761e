"""Put a run down for somebody else to begin: ``app.enqueue(graph, run_id, input)`` (M1).

A run that is enqueued is a run like any other which nobody has begun: it has its id, its graph and
its input on record. So the same id asked for again is the same run, and with another input it is
refused. Promise kept here: P62.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from nottwice.engine import ownership
from nottwice.engine.drivers import drive
from nottwice.errors import RunBusy, UsageError
from nottwice.graphs.binding import check_unchanged
from nottwice.graphs.running import Runnable
from nottwice.guard import registry
from nottwice.guard.ledger import Ledger
from nottwice.model import values
from nottwice.model.call import check_id
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.run import GraphRecord, RunRecord, RunStatus
from nottwice.store.interface import Claim, Commit, Outdated, check_not_removed

MOST_AT_ONCE = 256
"""So many new runs share a commit."""


def enqueue(
    ledger: Ledger, graph: Runnable, run_id: str, given: Any, *, retry: bool = False
) -> bool:
    """Put a run down; False: it is there already. Durable: when it returns."""
    check_id(run_id, what="The run id")
    while True:
        known = ledger.store.load_run(run_id)
        if known is not None:
            _check_same(ledger, graph, known, given)
            return retry and _put_back(ledger, known)
        first = graph.state.first(given)
        check_unchanged(ledger.store, graph)
        try:
            ledger.store.commit(_commit(ledger, graph, run_id, first))
        except Outdated:
            # Somebody else puts it down at this very moment.
            continue
        return True


def enqueue_all(
    ledger: Ledger, graph: Runnable, inputs: Mapping[str, Any], *, retry: bool = False
) -> int:
    """Put many runs down and return how many are new; all are checked before one is written."""
    if not isinstance(inputs, Mapping):
        raise UsageError(
            f"enqueue_all takes a dict from run ids to inputs, not {type(inputs).__name__}. "
            "Nothing was enqueued."
        )
    new = dict(_new(ledger, graph, inputs))
    check_unchanged(ledger.store, graph)
    waiting, written = list(new.items()), 0
    while waiting:
        batch, waiting = waiting[:MOST_AT_ONCE], waiting[MOST_AT_ONCE:]
        futures: list[tuple[str, Future[None]]] = [
            (run_id, ledger.store.commit_soon(_commit(ledger, graph, run_id, first)))
            for run_id, first in batch
        ]
        for run_id, future in futures:
            try:
                future.result()
                written += 1
            except Outdated:
                written += enqueue(ledger, graph, run_id, inputs[run_id])
    if retry:
        known = map(ledger.store.load_run, inputs.keys() - new.keys())
        written += sum(_put_back(ledger, run) for run in known if run is not None)
    return written


def _new(
    ledger: Ledger, graph: Runnable, inputs: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Those that are not there yet, with the state that each begins with."""
    for run_id, given in inputs.items():
        check_id(run_id, what="The run id")
        known = ledger.store.load_run(run_id)
        if known is None:
            yield run_id, graph.state.first(given)
        else:
            _check_same(ledger, graph, known, given)


def _commit(ledger: Ledger, graph: Runnable, run_id: str, first: dict[str, Any]) -> Commit:
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
    )
    recorded = GraphRecord(graph.id, graph.record_json, now)
    return Commit(workflow_id=run_id, claim=Claim(record), graph=recorded)


def _put_back(ledger: Ledger, known: RunRecord) -> bool:
    """Let a run that failed be tried again by a worker; False: it has not failed.

    Only its holder may change a run, so whoever puts it back holds it for that moment.
    """
    if known.status is not RunStatus.FAILED:
        return False
    opening = ownership.Opening(host=ledger, run_id=known.workflow_id, find_tool=registry.find_tool)
    try:
        session = drive(ownership.take(opening), ledger)
    except RunBusy:
        # Somebody tries it again at this very moment.
        return False
    drive(ownership.release(session, None, status=RunStatus.RUNNING), ledger)
    return True


def _check_same(ledger: Ledger, graph: Runnable, known: RunRecord, given: Any) -> None:
    """Refuse a run whose id another one has; the version that it began with is its own affair."""
    check_not_removed(known)
    run_id = known.workflow_id
    if known.graph_id is None or split_graph_id(known.graph_id)[0] != graph.name:
        what = known.graph_id or "no graph: it was opened with nt.run"
        raise UsageError(
            f"There is a run {run_id!r} already, of {what}. Nothing was enqueued. Choose another "
            f"id. See: nottwice show {shlex.quote(run_id)} --store {shlex.quote(ledger.location)}"
        )
    if given is None or graph.state.began_with(values.decode_object(known.given_input()), given):
        return
    raise UsageError(
        f"There is a run {run_id!r} already, with another input. Nothing was enqueued. Leave the "
        "input out if you mean that run, or choose another id. See: nottwice show "
        f"{shlex.quote(run_id)} --store {shlex.quote(ledger.location)}"
    )
