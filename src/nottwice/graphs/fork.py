"""Forks: a new run from an earlier checkpoint of another run (L10).

A fork reuses the receipts of its origin, matched by node, visit, tool and arguments. It makes no
new effects: a call without a receipt in the origin is refused. Forking itself is refused while any
call of the origin is in doubt, because a doubt cannot be copied. Promise kept here: P30.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from nottwice.engine import ownership
from nottwice.engine.asks import Doing, Read
from nottwice.engine.drivers import drive
from nottwice.engine.opening import Opening
from nottwice.engine.session import Session
from nottwice.errors import UnknownRun, UsageError
from nottwice.graphs.running import Runnable, check_bound
from nottwice.graphs.state import Go
from nottwice.guard.ledger import Ledger
from nottwice.model.call import CallRow, check_id
from nottwice.model.run import GraphRecord, RunRecord, RunStatus
from nottwice.model.saving.checkpoint import save
from nottwice.model.saving.image import load_image
from nottwice.store.interface import CallWrite, Store, check_not_removed


def fork(
    ledger: Ledger,
    graph: Runnable,
    run_id: str,
    *,
    to: str,
    at: int | None = None,
    update: Any = None,
) -> None:
    """Create run ``to`` from checkpoint ``at`` of a run. ``graph.run(to)`` then advances it.

    ``at=None`` is the newest checkpoint. ``update`` changes the state that the fork starts with.
    Durable: when it returns. To finish an interrupted fork, repeat the call.
    """
    check_id(to, what="The id of the fork")
    origin = _origin(ledger.store, graph, run_id, to)
    chain = ledger.store.checkpoint_chain(run_id, at)
    if not chain:
        what = "no checkpoint yet" if at is None else f"no checkpoint {at}"
        raise UsageError(
            f"Run {run_id!r} has {what}. Nothing was forked. To list its checkpoints: "
            f"nottwice history {shlex.quote(run_id)}"
        )
    image = load_image(chain)
    if update is not None:
        if isinstance(update, str | Go):
            raise UsageError(
                "A fork continues at its checkpoint, so its update cannot choose a route. Nothing "
                "was forked. Pass a dict of what changes."
            )
        ending = graph.state.read(graph.state.hand_out(image["state"]), update, image["state"], "/")
        added = {
            key: [*image["state"].get(key, ()), *ending.additions[key]] for key in ending.additions
        }
        image = {**image, "state": {**image["state"], **ending.changes, **added}}
    drive(_fork(ledger, graph, origin, to, image), ledger.host)


def _origin(store: Store, graph: Runnable, run_id: str, to: str) -> RunRecord:
    origin = store.load_run(run_id)
    if origin is None:
        raise UnknownRun(f"There is no run {run_id!r} in {store.location}. Nothing was forked.")
    check_not_removed(origin, location=store.location)
    check_bound(store, graph, origin)
    known = store.load_run(to)
    if known is not None and (known.origin != run_id or store.checkpoint_chain(to)):
        raise UsageError(f"Run {to!r} already exists. Nothing was forked. Choose another id.")
    return origin


def _fork(ledger: Ledger, graph: Runnable, origin: RunRecord, to: str, image: Any) -> Doing[None]:
    now = ledger.clock.now()
    opening = Opening(
        host=ledger.host,
        run_id=to,
        labels=origin.labels,
        graph=GraphRecord(origin.graph_id or graph.id, graph.record_json, now),
        input_json=origin.input_json or "{}",
        origin=origin.workflow_id,
    )
    rows: list[CallRow] = yield Read(lambda store: store.calls(origin.workflow_id))
    _check_certain(rows)
    session: Session = yield from ownership.take(opening)
    record, _ = save(None, workflow_id=to, node_id="/", old=None, new=image, now=now)
    session.pending.add_checkpoint(record)
    yield from session.commit(calls=tuple(_copies(rows, to)))
    yield from ownership.release(session, None, status=RunStatus.RUNNING)


def _check_certain(rows: list[CallRow]) -> None:
    """Refuse to copy a doubt. Checks the rows to be copied, because the origin may be running."""
    for row in rows:
        if row.status.in_doubt:
            raise UsageError(
                f"Run {row.identity.workflow_id!r} has a call in doubt ({row.identity.tool_name}). "
                "Nothing was forked, because it must be known first whether the call happened. "
                "Resume the run, or decide its reviews: nottwice reviews"
            )


def _copies(rows: list[CallRow], to: str) -> Iterator[CallWrite]:
    """Yield the receipts under the fork's run id. Visits have the same numbers in both runs.

    The receipt id stays the same, so a system that ingests by receipt id sees no duplicate (L6).
    """
    for row in rows:
        yield CallWrite(row._replace(identity=row.identity._replace(workflow_id=to)))
