"""Listen to what nottwice does, as it happens: ``nt.events.listen(print)``.

``ledger.on(listener)`` listens to one ledger only. nottwice calls a listener in the thread that
caused the event, so keep it quick. An error that a listener raises is logged and has no effect.
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
    "StepEnded",
    "listen",
]
