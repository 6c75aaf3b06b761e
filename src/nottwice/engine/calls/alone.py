"""Of those in this process who ask for the very same thing, one at a time does so (D13).

Calls, waits and child runs all begin here. Whoever comes second waits until the first is over, and
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
    """Register a call when no other is under way; ``session.in_flight.leave`` ends it.

    ``limit_seconds``: how long to wait for the one that is under way; ReplayUnsafeError after it.
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
