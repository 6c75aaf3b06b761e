"""May a call, or a run, begin under the limits that all workers keep together? (P311)

If a limit leaves no room, nothing begins and nothing fails: the run waits for a time, like one
that sleeps, and is tried again then. A limit is asked before the intent of a call is recorded, so
it can neither lose nor repeat an effect.
"""

from __future__ import annotations

import logging
from typing import TypeVar

from nottwice.engine.asks import Apart, Doing, Read
from nottwice.engine.calls.requests import Request
from nottwice.engine.session import Session
from nottwice.engine.waits import waiting
from nottwice.errors import NottwiceError
from nottwice.model.call import ROOT_NODE
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.run import Wait, WaitKind
from nottwice.model.runs.limits import LimitUse, Meter, meters_of_call, meters_of_run

T = TypeVar("T")
log = logging.getLogger("nottwice")


def enter_call(request: Request, attempt_id: str) -> Doing[LimitUse | None]:
    """Count an attempt under the limits of its tool. Raises RunWaits if there is no room."""
    session = request.scope.session
    meters = meters_of_call(session.host.limits, request.tool.name)
    if not meters:
        return None
    use = LimitUse(attempt_id, session.holder.holder_id, meters)
    full = yield from _acquire(session, use)
    if full is None:
        session.stops.lift(request.identity)
        return use
    seconds, meter = full
    raise waiting.until(request, session.clock.now() + seconds, meter.limit.text)


def enter_run(session: Session) -> Doing[LimitUse | Wait | None]:
    """Count a run under the limits of its graph and its tags. A wait: there is no room."""
    run = session.run
    if not session.host.limits or run.graph_id is None:
        return None
    meters = meters_of_run(session.host.limits, split_graph_id(run.graph_id)[0], run.tags)
    if not meters:
        return None
    begins = session.standing.last_ordinal == 0
    use = LimitUse(f"run {run.workflow_id}", session.holder.holder_id, meters, begins)
    full = yield from _acquire(session, use)
    if full is None:
        return use
    seconds, meter = full
    until = session.clock.now() + seconds
    return Wait(WaitKind.TIMER, meter.limit.text, ROOT_NODE, until)


def during(use: LimitUse, work: Doing[T]) -> Doing[T]:
    """Do something that was counted, and note its end, however it ends.

    Durable: that it has ended, when this returns. If that cannot be written, it counts until this
    process ends.
    """
    try:
        done = yield from work
    except GeneratorExit:
        raise
    except BaseException:
        yield from _end(use)
        raise
    yield from _end(use)
    return done


def _end(use: LimitUse) -> Doing[None]:
    try:
        yield Read(lambda store: store.end_use(use))
    except NottwiceError as error:
        log.warning("what %r was counted for has ended, which was not written: %s", use, error)


def _acquire(session: Session, use: LimitUse) -> Doing[tuple[float, Meter] | None]:
    try:
        full: tuple[float, Meter] | None = yield Apart(_acquired(use, session.clock.now()))
    except GeneratorExit:
        raise
    except BaseException:
        # It may be counted, and nothing will be done under it.
        yield from _end(use)
        raise
    return full


def _acquired(use: LimitUse, now: float) -> Doing[tuple[float, Meter] | None]:
    full: tuple[float, Meter] | None = yield Read(lambda store: store.acquire(use, now=now))
    return full
