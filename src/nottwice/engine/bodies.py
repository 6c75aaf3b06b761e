"""Tells listeners when code of the user begins and returns, in the context in which it runs.

A listener may change the context at the beginning, as tracing does, and must change it back at the
return: both are told in the same thread or task. Without a listener, nothing is built.
"""

from __future__ import annotations

import contextvars
from typing import Literal

from nottwice.engine import events
from nottwice.engine.calls.in_flight import InFlight
from nottwice.engine.session import Scope, Session, current_scope
from nottwice.engine.waits.stops import is_wait


def attempt_began(mine: InFlight | None) -> None:
    """Report that the body of a tool is about to run."""
    scope = current_scope.get()
    if mine is None or mine.row is None or scope is None:
        return
    row, session = mine.row, scope.session
    events.tell(
        events.AttemptBegan(
            ledger=session.store.location,
            run_id=row.identity.workflow_id,
            step=row.identity.node_id,
            tool=row.identity.tool_name,
            call_id=row.call_id,
            attempt=row.attempt,
            replay_class=row.replay_class.value,
        ),
        session.store,
    )


def attempt_returned(mine: InFlight | None) -> None:
    """Report that the body of a tool has returned or raised."""
    scope = current_scope.get()
    if mine is None or mine.row is None or scope is None:
        return
    row, session = mine.row, scope.session
    events.tell(
        events.AttemptReturned(
            ledger=session.store.location,
            run_id=row.identity.workflow_id,
            call_id=row.call_id,
            attempt=row.attempt,
        ),
        session.store,
    )


def step_began(scope: Scope) -> None:
    """Report that the code of a step is about to run."""
    state, session = scope.steps[0], scope.session
    events.tell(
        events.StepBegan(
            ledger=session.store.location,
            run_id=session.run_id,
            step=state.record.node_id,
            visit=state.record.checkpoint_id,
            resumed=state.resumed,
        ),
        session.store,
    )


def step_returned(scope: Scope, error: BaseException | None) -> None:
    """Report that the code of a step has returned or raised."""
    state, session = scope.steps[0], scope.session
    outcome: Literal["done", "failed", "waiting"] = "done"
    if error is not None:
        outcome = "waiting" if is_wait(error) else "failed"
    events.tell(
        events.StepReturned(
            ledger=session.store.location,
            run_id=session.run_id,
            step=state.record.node_id,
            visit=state.record.checkpoint_id,
            outcome=outcome,
            error_type=type(error).__qualname__ if outcome == "failed" else None,
        ),
        session.store,
    )


def run_began(session: Session) -> None:
    """Report that the code of a run is about to run."""
    events.tell(
        events.RunBegan(ledger=session.store.location, run_id=session.run_id), session.store
    )


def run_returned(session: Session) -> None:
    """Report that the code of a run has returned or raised."""
    events.tell(
        events.RunReturned(ledger=session.store.location, run_id=session.run_id), session.store
    )


class NodeBody:
    """Lets the code of a node run in its scope."""

    __slots__ = ("_scope", "_token", "error")

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.error: BaseException | None = None

    def __enter__(self) -> NodeBody:
        self._token: contextvars.Token[Scope | None] = current_scope.set(self._scope)
        if events.listeners:
            step_began(self._scope)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if events.listeners:
            step_returned(self._scope, error or self.error)
        current_scope.reset(self._token)
