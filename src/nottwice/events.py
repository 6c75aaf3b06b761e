"""Listen to what nottwice does, as it happens: ``nt.events.listen(print)``.

``ledger.on(listener)`` listens to one ledger only. nottwice calls a listener in the thread that
caused the event, so keep it quick. An error in a listener is logged and does no harm.
"""

from __future__ import annotations

from nottwice.engine.events import (
    AttemptEnded,
    CallEnded,
    Event,
    Listener,
    ReviewDecided,
    ReviewOpened,
    RunClaimed,
    RunLeft,
    RunOver,
    RunReady,
    StepEnded,
    listen,
)

__all__ = [
    "AttemptEnded",
    "CallEnded",
    "Event",
    "Listener",
    "ReviewDecided",
    "ReviewOpened",
    "RunClaimed",
    "RunLeft",
    "RunOver",
    "RunReady",
    "StepEnded",
    "listen",
]
