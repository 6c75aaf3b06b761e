"""What happens in a process that lacks a ``done_when`` function of a run?

It does everything except the check. By then the model's answer is on record, so nothing has failed.
The run waits, and a process that resumes it with the function checks it. Workers try again from
time to time, because another deploy may have the function. Meanwhile the run receives messages of
the user, and then checks what follows them. Promise kept here: P212.
"""

from __future__ import annotations

import logging
from typing import Any

from nottwice.engine.session import Scope
from nottwice.engine.waits import waiting
from nottwice.errors import ConditionUnknown, RunWaits
from nottwice.guard.recorded import own_tool, request_for
from nottwice.model.run import Wait, WaitKind
from nottwice.model.tool import Tool

AGAIN_SECONDS = 60.0
log = logging.getLogger("nottwice")


def wait_for_check(scope: Scope, unknown: ConditionUnknown, event: str) -> RunWaits:
    """Return the exception of a run that waits for a process with the function.

    ``event``: another event that wakes the run. Durable: why it waits, when the run is released.
    """
    session = scope.session
    log.warning("run=%r waits: %s", session.run_id, unknown)
    what = f"a process that has the function {unknown.condition} of its done_when"
    due = session.clock.now() + AGAIN_SECONDS
    error = waiting.until(request_for(scope, _CHECK, {"of": unknown.condition}), due, what)
    other = request_for(scope, _CHECK, {"or": event}).identity
    session.stops.note(other, error, Wait(WaitKind.EVENT, event, scope.node_id))
    return error


def _no_function(*args: Any) -> Any:
    raise AssertionError("the run waits for it, and nothing calls it")


_CHECK: Tool = own_tool("check", _no_function, Any, what="whether a condition is met")
