"""Tells the listeners who has settled a doubt. This does not affect the call."""

from __future__ import annotations

from typing import Literal

from nottwice.engine import events
from nottwice.engine.session import Session
from nottwice.model.call import CallRow

Settler = Literal["verify", "person", "attempt"]


def doubt_ended(session: Session, row: CallRow, by: Settler) -> None:
    """Report that a call is no longer in doubt. The record says so already."""
    if not events.listeners:
        return
    ended = events.DoubtEnded(
        ledger=session.store.location,
        run_id=session.run_id,
        step=row.identity.node_id,
        tool=row.identity.tool_name,
        call_id=row.call_id,
        by=by,
    )
    events.tell(ended, session.store)
