"""What the user says to a run is in the next request to its model, wherever the run is (A2).

A message is an event, and two beats receive it: ``plan``, which starts a turn, and ``reason``,
which may have waited for days before it asks. ``reason`` receives messages until the reply of the
turn is on record. Later messages wait for the next turn, so a reply always answers the same words.
Promise kept here: P211.
"""

from __future__ import annotations

from typing import Any

from nottwice.agent import conditions
from nottwice.agent.calls import cycles
from nottwice.agent.messages import Message, from_payload
from nottwice.agent.state import APPENDED, RunState
from nottwice.engine.asks import Doing, Read
from nottwice.engine.session import Scope
from nottwice.guard.waiting import receive
from nottwice.model.call import CallRow
from nottwice.model.run import EventRecord
from nottwice.model.tool import OWN_PREFIX

MESSAGE = "message"
"""The name of the event that carries a user's message."""
_RECEIVE = OWN_PREFIX + "receive"


def unheard(scope: Scope) -> Doing[int]:
    """Return how many messages of the user no beat has received."""
    run_id = scope.session.run_id
    events: list[EventRecord] = yield Read(lambda store: store.events(run_id, MESSAGE))
    return sum(event.received_by is None for event in events)


def to_hear(scope: Scope, *, is_answered: bool) -> Doing[int]:
    """Return how many messages belong to this beat: those it has already received, and new ones.

    ``is_answered``: its model has replied, so new messages do not belong to it.
    """
    count = 0 if is_answered else (yield from unheard(scope))
    if scope.steps[0].resumed:
        count += len((yield from taken_in(scope, scope.checkpoint_id)))
    return count


def taken_in(scope: Scope, visit: str) -> Doing[list[CallRow]]:
    """Return the messages that a visit of this beat has received, oldest first."""
    run_id = scope.session.run_id
    rows: list[CallRow] = yield Read(
        lambda store: store.calls_under(run_id, scope.node_id, visit=visit)
    )
    return [
        row
        for row in rows
        if row.identity.checkpoint_id == visit and row.identity.tool_name == _RECEIVE
    ]


def take_in(count: int) -> list[Message]:
    """Receive the next messages of the user. Durable: that they were received, when it returns."""
    return [from_payload(receive(MESSAGE)) for _ in range(count)]


def heard(state: RunState, messages: list[Message], turn: int) -> dict[str, Any]:
    """Return what messages received in a turn change: after a message, the counts start again."""
    if not messages:
        return {}
    first = len(state.plain["transcript"])
    return {
        "transcript": [message.to_plain() for message in messages],
        "heard": list(range(first, first + len(messages))),
        "repeats": dict(cycles.NONE),
        "refused_by": [],
        # Text that was cut off earlier is not part of the answer to this.
        "partial": "",
        "evidence": conditions.lasting(state.evidence),
        "round": {**state.plain["round"], "first_visit": turn},
    }


def applied(state: RunState, update: dict[str, Any]) -> RunState:
    """Return the state with an update applied, for the rest of the same beat."""
    parts = {
        name: [*state.plain[name], *part] if name in APPENDED else part
        for name, part in update.items()
    }
    return state.changed(**parts)
