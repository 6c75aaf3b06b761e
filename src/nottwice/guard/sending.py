"""Sending an event to a run: before the run exists, before it waits, or after (B4).

An event for an aborted run would be kept and never received, so it is refused (P233).
"""

from __future__ import annotations

import secrets
from typing import Any

from nottwice.engine.asks import Doing, Read, Write
from nottwice.engine.drivers import drive
from nottwice.engine.host import Host
from nottwice.engine.traces import traceparent
from nottwice.errors import RunAborted, UsageError
from nottwice.model import values
from nottwice.model.call import check_id
from nottwice.model.run import EventRecord, RunRecord, RunStatus
from nottwice.store.interface import Commit, EventWrite, Store, check_not_removed


def tell(
    host: Host, run_id: str, name: str, payload: Any, *, event_id: str | None, by: str
) -> EventRecord:
    """Store an event for its run; the same id again is the same event.

    Durable: when it returns.
    """
    return drive(telling(host, run_id, name, payload, event_id=event_id, by=by), host)


def telling(
    host: Host, run_id: str, name: str, payload: Any, *, event_id: str | None, by: str
) -> Doing[EventRecord]:
    """Do the same inside the engine."""
    values.check_plain(payload, root="payload")
    if event_id is None:
        event_id = secrets.token_hex(8)
    event = EventRecord(
        workflow_id=check_id(run_id, what="The run id"),
        event_id=check_id(event_id, what="The event's id"),
        name=check_id(name, what="The event's name"),
        json=values.encode(payload),
        sent_at=host.clock.now(),
        sent_by=check_id(by, what="The sender"),
        traceparent=traceparent(),
    )
    run: RunRecord | None = yield Read(lambda store: store.load_run(event.workflow_id))
    check_not_removed(run, location=host.store.location)
    known: EventRecord | None = yield _known(event)
    if known is None and run is not None and run.status is RunStatus.ABORTED:
        raise RunAborted(
            f"Run {run_id!r} was aborted, so nothing in it takes the event {name!r} any more. "
            "Nothing was sent. Send it to a run with another id.",
            run_id=run_id,
        )
    if known is None:
        yield Write(Commit(workflow_id=event.workflow_id, events=(EventWrite(event),)))
        # Another process may have sent an event with the same id first.
        known = yield _known(event)
    if known is not None and (known.name, known.json) != (event.name, event.json):
        raise UsageError(
            f"Run {run_id!r} already has another event with the id {event.event_id!r}: "
            f"{known.name!r}, sent by {known.sent_by}. Nothing was changed. One id means one "
            "event: give this one another id."
        )
    return known or event


def _known(event: EventRecord) -> Read:
    def find(store: Store) -> EventRecord | None:
        found = store.events(event.workflow_id)
        return next((one for one in found if one.event_id == event.event_id), None)

    return Read(find)
