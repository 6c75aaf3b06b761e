"""What happens to a file, or to a part of a reply, that a model API does not accept?

The first request that shows it is rejected, and so would be every later one, which would end the
conversation. The rejection is recorded as evidence about the call. Once the user has sent another
message, the run continues without what that request showed for the first time, and the model is
told so. Everything that an answered request showed stays. Promise kept here: P236.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from nottwice.agent.messages import (
    Block,
    Message,
    Role,
    Text,
    ToolResult,
    Unknown,
    block_from_plain,
    first_unseen,
)
from nottwice.agent.requests.files import File
from nottwice.agent.requests.hearing import taken_in
from nottwice.agent.state import RunState
from nottwice.engine.asks import Doing, Read
from nottwice.engine.session import Scope
from nottwice.errors import FileChanged, Permanent, ToolFailure
from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.review import Evidence

GOAL = -1
"""The number of the goal among the messages."""
LEFT_OUT = "left_out"
_REJECTED = re.compile(r"rejected by the model's API after (\d+) messages in this turn: ")
_STATUS = re.compile(r"answered with (\d{3})\b")
_OF_THE_REQUEST = ("400", "413", "422")
"""Statuses that mean that the request is wrong; 401, for example, is about the key."""


def note(
    scope: Scope, state: RunState, identity: CallIdentity, row: CallRow | None, error: ToolFailure
) -> Doing[ToolFailure]:
    """Return the error of a request that failed permanently: it says how the run can continue.

    Durable: what the request showed for the first time, if it was rejected, when it returns.
    """
    status = _STATUS.search(error.message)
    about_it = status is None or status[1] in _OF_THE_REQUEST
    names = [_name(block) for block in _shown_first(state)]
    if (
        not isinstance(error, Permanent)
        or isinstance(error, FileChanged)
        or not names
        or not about_it
    ):
        return error
    if row is None:
        return error
    session, what = scope.session, ", ".join(dict.fromkeys(names))
    heard = len((yield from taken_in(scope, scope.checkpoint_id)))
    item = Evidence(
        session.run_id,
        identity.call_id,
        row.attempt_id,
        session.clock.now(),
        "engine",
        f"rejected by the model's API after {heard} messages in this turn: it shows {what}",
    )
    yield from session.commit(evidence=(item,))
    text = (
        f"{error.message.rstrip('.')}. This request was the first to show {what}. If the API does "
        "not accept that, send a message: the run continues without it, "
        f"agent.run({session.run_id!r}, message='...')."
    )
    return type(error)(text, **error.facts)


def leave_out(scope: Scope, state: RunState, identity: CallIdentity) -> Doing[dict[str, Any]]:
    """Return what changes if the user has sent a message after a request of this turn was rejected.

    ``state``: as it was when the beat began.
    """
    if not scope.steps[0].resumed:
        return {}
    run_id, call_id = scope.session.run_id, identity.call_id
    known: list[Evidence] = yield Read(lambda store: store.evidence(run_id, call_id))
    heard = len((yield from taken_in(scope, scope.checkpoint_id)))
    found = (_REJECTED.match(item.text) for item in known)
    # By number and not by time, because another machine may have received the message.
    before = [number for one in found if one and (number := int(one[1])) < heard]
    if not before:
        return {}
    until = len(state.plain["transcript"]) + max(before)
    return {LEFT_OUT: [*state.plain.get(LEFT_OUT, ()), *range(_first_new(state), until)]}


def shown(state: RunState) -> RunState:
    """Return the state as a model may see it."""
    numbers = set(state.plain.get(LEFT_OUT, ()))
    if not numbers:
        return state
    transcript = [
        _without(plain) if number in numbers else plain
        for number, plain in enumerate(state.plain["transcript"])
    ]
    if GOAL not in numbers:
        return state.changed(transcript=transcript)
    files = [block_from_plain(plain) for plain in state.plain.get("files", ())]
    goal = "\n\n".join([state.goal, *(_told(file) for file in files if isinstance(file, File))])
    return state.changed(transcript=transcript, goal=goal, files=[])


def _first_new(state: RunState) -> int:
    """Return the number of the first message that no answered request showed: the newest reply."""
    return first_unseen(state.transcript) - 1


def _shown_first(state: RunState) -> Iterator[File | Unknown]:
    """Yield what the next request shows for the first time, and an API may not accept."""
    first, hidden = _first_new(state), set(state.plain.get(LEFT_OUT, ()))
    if first == GOAL and GOAL not in hidden:
        goal = (block_from_plain(plain) for plain in state.plain.get("files", ()))
        yield from (file for file in goal if isinstance(file, File))
    for number in range(max(0, first), len(state.transcript)):
        if number in hidden:
            continue
        for block in state.transcript[number].blocks:
            if isinstance(block, File | Unknown):
                yield block
            elif isinstance(block, ToolResult):
                yield from block.files


def _name(block: File | Unknown) -> str:
    if isinstance(block, File):
        return str(block.where)
    kind = block.payload.get("type") if isinstance(block.payload, Mapping) else None
    return f"a part of the model's reply of the kind {kind!r}"


def _without(plain: Mapping[str, Any]) -> dict[str, Any]:
    message = Message.from_plain(plain)
    return Message(message.role, tuple(_kept(message)), message.extra).to_plain()


def _kept(message: Message) -> Iterator[Block]:
    for block in message.blocks:
        if isinstance(block, File):
            yield Text(_told(block))
        elif isinstance(block, ToolResult) and block.files:
            content = "\n".join([block.content, *map(_told, block.files)])
            yield replace(block, content=content, files=())
        elif not (isinstance(block, Unknown) and message.role is Role.ASSISTANT):
            yield block


def _told(file: File) -> str:
    return (
        f"(The file {file.name} belongs here, and is not shown: the API rejected the request that "
        "showed it first.)"
    )
