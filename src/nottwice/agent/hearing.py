"""What the user says to a run is in the next request to its model, wherever the run stands (A2).

A message is an event, and two beats take it in: ``plan``, which begins a turn, and ``reason``,
which may have waited for days before it asks. There a message is taken in as long as the turn has
no reply on record; after that it waits for the next turn, so a reply always answers the same words.
Promise kept here: P211.
"""

from __future__ import annotations

from typing import Any

from nottwice.agent import conditions, cycles
from nottwice.agent.messages import Message, from_payload
from nottwice.agent.state import APPENDED, RunState
from nottwice.engine.asks import Doing, Read
from nottwice.engine.session import Scope
from nottwice.guard.waiting import receive
from nottwice.model.call import CallRow
from nottwice.model.run import EventRecord
from nottwice.model.tool import OWN_PREFIX

MESSAGE = "message"
"""The event by which a user speaks to a run."""
_RECEIVE = OWN_PREFIX + "receive"


def unheard(scope: Scope) -> Doing[int]:
    """How many messages of the user no beat has taken in."""
    run_id = scope.session.run_id
    events: list[EventRecord] = yield Read(lambda store: store.events(run_id, MESSAGE))
    return sum(event.received_by is None for event in events)


def to_hear(scope: Scope, *, is_answered: bool) -> Doing[int]:
    """How many messages belong to this beat: those it has taken in before, and new ones.

    ``is_answered``: its model has replied, so nothing new belongs to it.
    """
    count = 0 if is_answered else (yield from unheard(scope))
    if scope.steps[0].resumed:
        count += len((yield from taken_in(scope, scope.checkpoint_id)))
    return count


def taken_in(scope: Scope, visit: str) -> Doing[list[CallRow]]:
    """The messages that a visit of this beat has taken in, oldest first."""
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
    """The next messages of the user. Durable: that they were taken in, when it returns."""
    return [from_payload(receive(MESSAGE)) for _ in range(count)]


def heard(state: RunState, messages: list[Message], turn: int) -> dict[str, Any]:
    """What changes with messages that are heard in a turn: the user's word begins a new count."""
    if not messages:
        return {}
    first = len(state.plain["transcript"])
    return {
        "transcript": [message.to_plain() for message in messages],
        "heard": list(range(first, first + len(messages))),
        "repeats": dict(cycles.NONE),
        "refused_by": [],
        # What was cut off before is no part of the answer to this.
        "partial": "",
        "evidence": conditions.lasting(state.evidence),
        "round": {**state.plain["round"], "first_visit": turn},
    }


def applied(state: RunState, update: dict[str, Any]) -> RunState:
    """The state as it will be with an update, for the rest of the same beat."""
    parts = {
        name: [*state.plain[name], *part] if name in APPENDED else part
        for name, part in update.items()
    }
    return state.changed(**parts)
