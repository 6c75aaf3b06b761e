"""Telling a run of an event: before the run exists, before or after it waits (B4).

An event for a run that was aborted would be kept and never taken, so it is refused (P233).
"""

from __future__ import annotations

import secrets
from typing import Any

from nottwice.engine.asks import Doing, Read, Write
from nottwice.engine.drivers import drive
from nottwice.engine.host import Seat
from nottwice.errors import RunAborted, UsageError
from nottwice.model import values
from nottwice.model.call import check_id
from nottwice.model.run import EventRecord, RunRecord, RunStatus
from nottwice.store.interface import Commit, EventWrite, Store, check_not_removed


def tell(
    seat: Seat, run_id: str, name: str, payload: Any, *, event_id: str | None, by: str
) -> EventRecord:
    """Put an event where its run will find it; the same id again is the same event.

    Durable: when it returns.
    """
    return drive(telling(seat, run_id, name, payload, event_id=event_id, by=by), seat)


def telling(
    seat: Seat, run_id: str, name: str, payload: Any, *, event_id: str | None, by: str
) -> Doing[EventRecord]:
    """The same for the engine."""
    values.check_plain(payload, root="payload")
    event = EventRecord(
        workflow_id=check_id(run_id, what="The run id"),
        event_id=check_id(event_id or secrets.token_hex(8), what="The event's id"),
        name=check_id(name, what="The event's name"),
        json=values.encode(payload),
        sent_at=seat.clock.now(),
        sent_by=check_id(by, what="The sender"),
    )
    run: RunRecord | None = yield Read(lambda store: store.load_run(event.workflow_id))
    check_not_removed(run)
    known: EventRecord | None = yield _known(event)
    if known is None and run is not None and run.status is RunStatus.ABORTED:
        raise RunAborted(
            f"Run {run_id!r} was aborted, so nothing in it takes the event {name!r} any more. "
            "Nothing was sent. Send it to a run with another id.",
            run_id=run_id,
        )
    if known is None:
        yield Write(Commit(workflow_id=event.workflow_id, events=(EventWrite(event),)))
        # Of two who send at once under one id, one was first.
        known = yield _known(event)
    if known is not None and (known.name, known.json) != (event.name, event.json):
        raise UsageError(
            f"Run {run_id!r} was told of an event {event.event_id!r} before, and it was another "
            f"one: {known.name!r}, sent by {known.sent_by}. Nothing was changed. One id stands for "
            "one event: give this one an id of its own."
        )
    return known or event


def _known(event: EventRecord) -> Read:
    def find(store: Store) -> EventRecord | None:
        found = store.events(event.workflow_id)
        return next((one for one in found if one.event_id == event.event_id), None)

    return Read(find)
