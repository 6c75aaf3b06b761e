"""What happens, told as it happens: ``nt.events.listen(print)``.

``ledger.on(listener)`` tells of one ledger only. A listener is called in the thread in which
something happened, so it should be quick; an error that it raises is logged and harms nothing.
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
