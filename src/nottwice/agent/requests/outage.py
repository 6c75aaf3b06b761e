"""What happens when a model cannot be reached, or rejects every request (A4)?

After a few attempts, or if the provider asks for a longer pause than is worth waiting for, the run
waits on a recorded timer. The process may end, and a worker resumes the run when it is due. Each
timer allows one more request. After ``give_up_after`` the run fails with the provider's last error;
resuming it starts over. Promise kept here: P191.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from nottwice.agent.requests.raising import find_call
from nottwice.agent.requests.reserving import ModelAsking, identity_of
from nottwice.engine.asks import Doing
from nottwice.engine.calls.requests import Request
from nottwice.engine.waits import waiting
from nottwice.errors import ToolFailure
from nottwice.guard.recorded import own_tool, request_for
from nottwice.model import values
from nottwice.model.call import CallRow, ResultKind, StoredResult
from nottwice.model.data.records import frozen_record
from nottwice.model.data.shapes import checked, not_believed
from nottwice.model.tool import Tool
from nottwice.store.interface import CallWrite

OUTAGE = "nottwice.outage"
FIRST_SECONDS = 30.0
MOST_SECONDS = 600.0
MOST_WHY_CHARACTERS = 200


@frozen_record(frozen=True, slots=True)
class Outage:
    """A time in which a model did not answer, recorded with its turn."""

    since: float | None
    """When the first request failed; None: the run stopped trying, and starts over."""
    due: float
    """When the model is asked next."""
    timers: int
    why: str
    model: str
    """The model that did not answer; another one may."""


def under_way(asking: ModelAsking) -> Doing[bool]:
    """Whether this turn is in an outage and its timer has expired; RunWaits until then."""
    request = _request(asking)
    known = yield from _known(request)
    if known is None or known.since is None or known.model != asking.provider.model:
        return False
    if asking.session.clock.now() < known.due:
        raise waiting.until(request, known.due, _what(known))
    asking.session.stops.lift(request.identity)
    return True


def wait(asking: ModelAsking, error: ToolFailure, row: CallRow | None) -> Doing[None]:
    """Make the run wait until the model is worth asking again; return if that took too long.

    Durable: the timer, before RunWaits is raised.
    """
    session, request = asking.session, _request(asking)
    known, now = (yield from _known(request)), session.clock.now()
    model = asking.provider.model
    if known is None or known.since is None or known.model != model:
        known = Outage(now, now, 0, "", model)
    assert known.since is not None
    last = known.since + asking.give_up_seconds
    failure = row.failure if row is not None else None
    asked_for = failure.retry_after_seconds if failure is not None else None
    pause = min(FIRST_SECONDS * 2.0 ** min(known.timers, 10), MOST_SECONDS)
    # Spread out: when a provider comes back, many runs are waiting for it.
    pause *= 0.5 + session.clock.random_unit() / 2
    due = min(now + max(pause, asked_for or 0.0), max(now, last))
    over = now >= last
    why = " ".join((failure.message if failure else error.message).split())
    why = why[:MOST_WHY_CHARACTERS]
    outage = Outage(None if over else known.since, due, known.timers + 1, why, model)
    yield from _note(asking, request, outage)
    if not over:
        raise waiting.until(request, due, _what(outage)) from error


def _note(asking: ModelAsking, request: Request, outage: Outage) -> Doing[None]:
    session = asking.session
    before = yield from find_call(session, request.identity)
    row = waiting.blank_row(request)
    if before is not None:
        row = before.next_attempt(
            attempt_id=session.new_attempt_id(),
            holder_id=session.holder.holder_id,
            now=session.clock.now(),
        )
    stored = StoredResult(ResultKind.PLAIN, values.encode(dataclasses.asdict(outage)))
    row = row.done(stored, now=session.clock.now())
    yield from session.commit(calls=(CallWrite(row, before.state if before else None),))


def _known(request: Request) -> Doing[Outage | None]:
    row = yield from find_call(request.scope.session, request.identity)
    if row is None:
        return None
    with not_believed(f"An outage of run {row.identity.workflow_id!r}"):
        return checked(Outage(**values.decode_object(row.kept_result().json)))


def _what(outage: Outage) -> str:
    return f"its model, which did not answer: {outage.why}"


def _request(asking: ModelAsking) -> Request:
    request = request_for(asking.scope, _OUTAGE, {})
    return dataclasses.replace(request, identity=identity_of(asking.scope, OUTAGE))


def _no_function(*args: Any) -> Any:
    raise AssertionError("the engine records it, and nothing calls it")


_OUTAGE: Tool = own_tool("outage", _no_function, Any, what="an outage")
