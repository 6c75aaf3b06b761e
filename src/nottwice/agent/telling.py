"""What an agent writes to the log ``nottwice``, for people who watch it (O1).

Each log record carries what happened as data, like all log records of the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nottwice.agent.messages import Message, described
from nottwice.agent.requests.asking import AnsweredTurn
from nottwice.engine import said as words
from nottwice.engine.said import Said
from nottwice.engine.session import Scope
from nottwice.model.data.records import frozen_record

TURN: Final = "begin a turn"
HEARD: Final = "hear the user"
REPLIED: Final = "the model replied"
CALLED: Final = "the model calls"
RESULT: Final = "a tool is answered"
NOT_BEGUN: Final = "not begun yet"
FINISHED: Final = "the task is done"


@frozen_record(frozen=True, slots=True, kw_only=True)
class Told(Said):
    """Something that an agent did: ``decision`` says what, ``text`` is for people."""

    text: str = ""
    turn: int = 0
    tokens: int = 0
    usd: float | None = None
    replayed: bool = False
    is_error: bool = False


def begin_turn(scope: Scope, turn: int) -> None:
    _tell(scope, TURN, turn=turn)


def hear(scope: Scope, turn: int, messages: Sequence[Message]) -> None:
    for message in messages:
        _tell(scope, HEARD, text=described(message), turn=turn)


def reply(scope: Scope, turn: int, answered: AnsweredTurn) -> None:
    message = answered.reply.message
    _tell(
        scope,
        REPLIED,
        text=message.text,
        turn=turn,
        tokens=answered.reply.usage.tokens,
        usd=answered.usd,
        replayed=answered.replayed,
    )
    for call in message.tool_calls:
        arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
        _tell(scope, CALLED, text=f"{call.name}({arguments})", turn=turn)


def results(scope: Scope, message: Message) -> None:
    for result in message.tool_results:
        _tell(scope, RESULT, text=result.content, is_error=result.is_error)


def not_begun(scope: Scope, calls: Sequence[str]) -> None:
    for call in calls:
        _tell(scope, NOT_BEGUN, text=call)


def finish(scope: Scope, text: str) -> None:
    _tell(scope, FINISHED, text=text)


def _tell(
    scope: Scope,
    decision: str,
    *,
    text: str = "",
    turn: int = 0,
    tokens: int = 0,
    usd: float | None = None,
    replayed: bool = False,
    is_error: bool = False,
) -> None:
    if words.is_heard():
        words.say(
            Told(
                ledger=scope.session.store.location,
                run_id=scope.session.run_id,
                decision=decision,
                step=scope.node_id,
                visit=scope.checkpoint_id,
                text=text,
                turn=turn,
                tokens=tokens,
                usd=usd,
                replayed=replayed,
                is_error=is_error,
                detail=f"turn={turn}" if turn else "",
            ),
            scope.session.store,
        )
