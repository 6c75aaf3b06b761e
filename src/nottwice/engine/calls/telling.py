"""Tells the listeners how a call ended for its caller. This does not affect the call."""

from __future__ import annotations

from typing import Any

from nottwice.engine import events
from nottwice.engine.calls.requests import Receipt, Request
from nottwice.model.call import CallRow


def tell_listeners(
    request: Request,
    row: CallRow | None,
    attempted: CallRow | None,
    receipt: Receipt[Any] | None,
    began: float,
) -> None:
    """Report what the caller got. Without a receipt it was an error."""
    identity, session = request.identity, request.scope.session
    if receipt is None and attempted is not None:
        # An attempt that was made here has not ended, or its waiter was interrupted.
        row = attempted
    seconds = session.clock.now() - began
    events.tell(
        events.CallEnded(
            ledger=session.store.location,
            run_id=identity.workflow_id,
            step=identity.node_id,
            tool=identity.tool_name,
            call_id=identity.call_id if row is None else row.call_id,
            attempts=0 if row is None else row.attempt,
            replay_class=request.tool.replay_class.value,
            outcome="failed" if row is None else events.ending(row),
            replayed=receipt is not None and receipt.replayed,
            settled_by=None if row is None else row.settled_by,
            seconds=max(0.0, seconds),
        ),
        session.store,
    )
