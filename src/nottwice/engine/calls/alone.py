"""Lets only one caller in this process work on a given call at a time (D13).

Calls, waits and child runs all begin here. A second caller waits until the first has ended, and
then looks at what is on record.
"""

from __future__ import annotations

from nottwice.engine.asks import Doing, Join
from nottwice.engine.calls.in_flight import InFlight
from nottwice.engine.session import Session
from nottwice.errors import ReplayUnsafeError
from nottwice.model.call import CallIdentity


def enter_alone(
    session: Session,
    identity: CallIdentity,
    parent: InFlight | None,
    *,
    limit_seconds: float | None = None,
) -> Doing[InFlight]:
    """Register a call once no other caller works on it. ``session.in_flight.leave`` ends it.

    ``limit_seconds``: how long to wait for the other caller before raising ReplayUnsafeError.
    """
    while True:
        session.check_usable()
        mine, ours = session.in_flight.enter(identity, parent)
        if ours:
            return mine
        assert mine.waits_for is not None
        try:
            over = yield Join(mine.waits_for, limit_seconds)
        finally:
            session.in_flight.stop_waiting(mine)
        if not over:
            raise _still_running(identity)


def _still_running(identity: CallIdentity) -> ReplayUnsafeError:
    return ReplayUnsafeError(
        f"Tool {identity.tool_name!r} passed its time limit and is still running in this process. "
        "It was not started again. The run is held until it ends; its outcome will be recorded.",
        call_id=identity.call_id,
    )
