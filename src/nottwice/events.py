"""Listen to what nottwice does, as it happens: ``nt.events.listen(print)``.

``ledger.on(listener)`` listens to one ledger only. nottwice calls a listener in the thread that
caused the event, so keep it quick. An error in a listener is logged and does no harm.
"""

from __future__ import annotations

from nottwice.engine.events import (
    AttemptBegan,
    AttemptEnded,
    AttemptReturned,
    CallEnded,
    CommitEnded,
    DoubtEnded,
    Event,
    EventTaken,
    Listener,
    ReviewDecided,
    ReviewOpened,
    RunBegan,
    RunClaimed,
    RunLeft,
    RunLost,
    RunOpening,
    RunOver,
    RunReady,
    RunReturned,
    StepBegan,
    StepEnded,
    StepReturned,
    listen,
)
from nottwice.engine.said import Said

__all__ = [
    "AttemptBegan",
    "AttemptEnded",
    "AttemptReturned",
    "CallEnded",
    "CommitEnded",
    "DoubtEnded",
    "Event",
    "EventTaken",
    "Listener",
    "ReviewDecided",
    "ReviewOpened",
    "RunBegan",
    "RunClaimed",
    "RunLeft",
    "RunLost",
    "RunOpening",
    "RunOver",
    "RunReady",
    "RunReturned",
    "Said",
    "StepBegan",
    "StepEnded",
    "StepReturned",
    "listen",
]
