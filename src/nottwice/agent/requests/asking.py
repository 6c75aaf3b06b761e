"""How a model is asked: once per turn, within the budget, with a durable reply (L7, A4).

A turn has one reply, even if the prompt has changed by the time the turn is resumed. Asking again
would bring other words, other arguments and a second effect. A turn writes two rows. The
reservation says what the request may cost at most, and is durable before the model is asked. It
counts every attempt, including one after a crash. The reply, with its cost, is durable before any
of its tools runs. Neither stays pending. If the provider cannot answer now, the run waits; see
``outage.py``.
Promises kept here: P67, P70.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from nottwice.agent.messages import Message, Role
from nottwice.agent.provider import ModelReply, ModelRequest, StopReason, Usage, cost_of
from nottwice.agent.requests import hearing, outage, rejected
from nottwice.agent.requests.raising import find_call, raises_on_record
from nottwice.agent.requests.reserving import (
    ModelAsking,
    give_back,
    identity_of,
    lose,
    reserve,
    settle,
)
from nottwice.engine.asks import Doing, Pause
from nottwice.engine.calls.dispatch import perform
from nottwice.engine.calls.requests import Request
from nottwice.engine.session import Scope
from nottwice.errors import (
    Ambiguous,
    ContextTooLong,
    FileChanged,
    ModelRefused,
    Retryable,
    ToolFailure,
)
from nottwice.guard.recorded import own_tool, request_for
from nottwice.model import values
from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.data.records import frozen_record
from nottwice.model.data.shapes import checked, not_believed
from nottwice.model.failure import FailureClass
from nottwice.model.retry import NO_RETRY
from nottwice.model.tool import Tool

MODEL = "nottwice.model"
MOST_SHRINKS = 4
_FILE_CHANGED = f"{FileChanged.__module__}.{FileChanged.__qualname__}"


@frozen_record(frozen=True, slots=True)
class AnsweredTurn:
    """A model's reply, what it cost, and by how much people have raised the budget meanwhile."""

    reply: ModelReply
    usd: float | None
    """None: the model's price is unknown."""
    raised: dict[str, float]
    replayed: bool


def turn_of(scope: Scope) -> CallIdentity:
    """Return the identity of the call that asks the model in this turn."""
    return identity_of(scope, MODEL)


def is_answered(scope: Scope) -> Doing[bool]:
    """Whether the reply of this turn is on record."""
    if not scope.steps[0].resumed:
        return False
    known = yield from find_call(scope.session, turn_of(scope))
    return known is not None and known.result is not None


def ask_model(asking: ModelAsking) -> Doing[AnsweredTurn | None]:
    """Return the reply of this turn, recorded or new; None: the user has said something since.

    Durable: the reply, when it returns. Raises BudgetSpent before the model is asked if the
    request may take more than the budget allows.
    """
    request = _model_request(asking)
    raised = dict(asking.state.plain["raised"])
    known = yield from find_call(asking.session, request.identity)
    replayed = known is not None and known.result is not None
    if replayed:
        raised = yield from raises_on_record(asking.scope, raised)
    else:
        now_raised = yield from _ask_until_answered(asking, request, raised)
        if now_raised is None:
            return None
        raised = now_raised
    receipt = yield from perform(request, None)
    plain = receipt.value
    with not_believed("The recorded reply of a model"):
        reply = ModelReply.from_plain(plain["reply"])
        answered = checked(AnsweredTurn(reply, plain["usd"], raised, replayed))
    if replayed:
        asking.session.note_reply(tokens=reply.usage.tokens, usd=answered.usd or 0.0)
    # Not with the next effect: if the process crashes now, the reply must not be paid for twice.
    yield from settle(asking, answered.usd, reply.usage.tokens)
    return answered


def _ask_until_answered(
    asking: ModelAsking, request: Request, raised: dict[str, float]
) -> Doing[dict[str, float] | None]:
    """Reserve and ask, repeatedly while that may help; the reply is pending when it returns.

    None: the user has said something that is not in the question. Then no request is in progress.
    """
    session, failed, shrinks, reserved = asking.session, 0, 0, False
    away = yield from outage.under_way(asking)
    needs_files = yield from _needs_files(asking, request)
    while True:
        question = dataclasses.replace(
            asking.render(shrinks), attempt=failed + 1, needs_files=needs_files
        )
        if not reserved:
            raised = yield from reserve(asking, question, raised)
        reserved = True
        if (yield from hearing.unheard(asking.scope)):
            yield from give_back(asking)
            return None
        try:
            yield from perform(dataclasses.replace(request, args=(question,)), None)
        except ToolFailure as error:
            if isinstance(error, ContextTooLong) and shrinks < MOST_SHRINKS:
                shrinks += 1
                continue
            if isinstance(error, FileChanged) and (yield from hearing.unheard(asking.scope)):
                # The user has said something since, so a missing file must not end the run.
                continue
            row = session.pending.find_call(request.identity)
            # A rejected request cost nothing, so its reservation can be used again.
            reserved = row is not None and _was_turned_away(row)
            failed += 1
            # In an outage each timer allows one request, so there are no other pauses.
            delay = None if away else _delay(asking, error, row, failed)
            if delay is None:
                yield from give_back(asking) if reserved else lose(asking)
                if isinstance(error, Retryable | Ambiguous):
                    yield from outage.wait(asking, error, row)
                told = yield from rejected.note(
                    asking.scope, asking.state, request.identity, row, error
                )
                raise told from error.__cause__
            yield Pause(delay)
            continue
        return raised


def _needs_files(asking: ModelAsking, request: Request) -> Doing[bool]:
    """Whether a missing file stops the turn: not if the user has spoken since it last did."""
    known = yield from find_call(asking.session, request.identity)
    failure = None if known is None else known.failure
    if known is None or failure is None or failure.error_type != _FILE_CHANGED:
        return True
    rows = yield from hearing.taken_in(asking.scope, asking.scope.checkpoint_id)
    return all(row.created_at <= (known.finished_at or 0.0) for row in rows)


def _delay(
    asking: ModelAsking, error: ToolFailure, row: CallRow | None, failed: int
) -> float | None:
    """Return how long to wait before asking again; None: that would not help."""
    if not isinstance(error, Retryable | Ambiguous):
        return None
    return asking.retry.delay_seconds(
        row.failure if row is not None else None,
        failed_attempts=failed,
        random_unit=asking.session.clock.random_unit(),
    )


def _was_turned_away(row: CallRow) -> bool:
    """Whether the provider says that it did not answer. Otherwise it may have answered."""
    failure = row.failure
    if failure is None or failure.failure_class is FailureClass.AMBIGUOUS:
        return False
    return failure.error_type.startswith(f"{Retryable.__module__}.")


def _model_request(asking: ModelAsking) -> Request:
    """Return the call of this turn. The question is not part of its identity."""
    provider = asking.provider
    asked = provider.acomplete if asking.is_async else provider.complete

    def kept(reply: ModelReply) -> dict[str, Any]:
        plain = keepable(reply.to_plain())
        return {"reply": plain, "usd": cost_of(provider, reply)}

    def complete(request: ModelRequest) -> dict[str, Any]:
        try:
            return kept(asked(request))  # type: ignore[arg-type]
        except ModelRefused as error:
            return _refusal(provider.model, error)

    async def acomplete(request: ModelRequest) -> dict[str, Any]:
        try:
            return kept(await asked(request))  # type: ignore[misc]
        except ModelRefused as error:
            return _refusal(provider.model, error)

    tool = dataclasses.replace(
        _MODEL,
        function=acomplete if asking.is_async else complete,
        is_async=asking.is_async,
        retry=NO_RETRY,
        time_limit_seconds=asking.time_limit_seconds,
    )
    told = {"model": provider.model, "turn": asking.state.turn}
    identity = identity_of(asking.scope, MODEL)
    request = request_for(asking.scope, tool, told)
    # A recorded failure is not an answer: a process that resumes this turn asks again.
    return dataclasses.replace(request, identity=identity, retry=True)


def _refusal(model: str, error: ModelRefused) -> dict[str, Any]:
    """Turn a provider's refusal into a reply that cost nothing."""
    reply = ModelReply(
        message=Message(Role.ASSISTANT, ()),
        stop=StopReason.REFUSED,
        usage=Usage(),
        model=model,
        extra={"why": error.message},
    )
    return {"reply": keepable(reply.to_plain()), "usd": 0.0}


# What can be kept


def keepable(plain: Any) -> Any:
    """Turn a provider's reply into plain data. It was paid for, so nothing in it may lose it.

    Half a surrogate pair or a NaN is replaced by something that can be recorded.
    """
    return plain if values.is_plain(plain) else _repaired(plain)


def _repaired(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(_repaired(str(key))): _repaired(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_repaired(each) for each in value]
    if isinstance(value, str):
        return str(value).encode("utf-8", "replace").decode()
    return value if values.is_plain(value) else _repaired(repr(value))


def _no_function(*args: Any) -> Any:
    raise AssertionError("the engine records it, and nothing calls it")


_MODEL: Tool = own_tool("model", _no_function, Any, what="the reply of a model")
