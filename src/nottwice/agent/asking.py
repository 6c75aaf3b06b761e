"""How a model is asked: once for each turn, within the budget, its reply durable (L7, A4).

A turn has one reply, whatever the prompt says by the time it is resumed: asking again would bring
other words, other arguments and a second effect. Two rows are made for it. The reservation says
what the request may cost at most and is durable before the model is asked; another attempt, after a
crash say, is counted in it. The reply, with what it took, is durable before any of its tools runs.
Neither rides. Promises kept here: P67, P70.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable
from typing import Any

from nottwice.agent.budget import Amount, Budget, Taken, find_overrun, raised_by
from nottwice.agent.context import estimate_tokens
from nottwice.agent.provider import (
    ModelReply,
    ModelRequest,
    Provider,
    Usage,
    billed_at_most,
    cost_of,
)
from nottwice.agent.state import RunState
from nottwice.engine import waiting
from nottwice.engine.asks import Doing, Pause, Read
from nottwice.engine.dispatch import Request, perform
from nottwice.engine.session import Scope, Session
from nottwice.errors import Ambiguous, ContextTooLong, FileChanged, Retryable, ToolFailure
from nottwice.guard.recorded import own_tool, request_for
from nottwice.model import values
from nottwice.model.asked import Question
from nottwice.model.call import CallIdentity, CallRow, ResultKind, StoredResult, child_checkpoint
from nottwice.model.failure import NO_RETRY, FailureClass, RetryPolicy
from nottwice.model.raises import check_raise
from nottwice.model.records import frozen_record
from nottwice.model.review import ReviewKind
from nottwice.model.run import EventRecord
from nottwice.model.shapes import checked, not_believed
from nottwice.model.tool import Tool
from nottwice.store.interface import CallWrite

MESSAGE = "message"
"""The event by which a user speaks to a run."""
MODEL = "nottwice.model"
RESERVATION = "nottwice.reservation"
MOST_SHRINKS = 4
Render = Callable[[int], ModelRequest]
"""The request, made from what is on record; the number says how often to halve the window."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class Asking:
    """Everything that asking a model once needs."""

    scope: Scope
    state: RunState
    provider: Provider
    budget: Budget
    render: Render
    retry: RetryPolicy
    time_limit_seconds: float | None
    is_async: bool

    @property
    def session(self) -> Session:
        return self.scope.session


@frozen_record(frozen=True, slots=True)
class Answered:
    """The reply of a model, what it took, and what people raised the budget by meanwhile."""

    reply: ModelReply
    usd: float | None
    """None: the price of the model is not known."""
    raised: dict[str, float]
    replayed: bool


def ask_model(asking: Asking) -> Doing[Answered]:
    """The reply of this turn: the one on record, or a new one.

    Durable: the reply, when it returns. Raises BudgetSpent before anything is asked if that may
    take more than the budget allows.
    """
    session = asking.session
    request = _model_request(asking)
    raised = dict(asking.state.plain["raised"])
    known = yield from _find(session, request.identity)
    replayed = known is not None and known.result is not None
    if replayed:
        raised = yield from _raises_on_record(asking, raised)
    else:
        raised = yield from _ask_until_answered(asking, request, raised)
    receipt = yield from perform(request, None)
    # Not with the next effect: whoever crashes now must not pay for this reply again.
    yield from session.commit()
    yield from _remember_lost(asking)
    plain = receipt.value
    with not_believed("The recorded reply of a model"):
        reply = ModelReply.from_plain(plain["reply"])
        return checked(Answered(reply, plain["usd"], raised, replayed))


def _ask_until_answered(
    asking: Asking, request: Request, raised: dict[str, float]
) -> Doing[dict[str, float]]:
    """Reserve and ask, and again as long as that may help; the reply rides when it returns."""
    session, failed, shrinks, reserved = asking.session, 0, 0, False
    needs_files = True
    while True:
        question = dataclasses.replace(
            asking.render(shrinks), attempt=failed + 1, needs_files=needs_files
        )
        if not reserved:
            raised = yield from _reserve(asking, question, raised)
        reserved = True
        try:
            yield from perform(dataclasses.replace(request, args=(question,)), None)
        except ToolFailure as error:
            if isinstance(error, ContextTooLong) and shrinks < MOST_SHRINKS:
                shrinks += 1
                continue
            if isinstance(error, FileChanged) and needs_files:
                # The user has said something since: a file that is gone must not be the end.
                needs_files = not (yield from _has_unheard(asking))
                if not needs_files:
                    continue
            row = session.riding.find_call(request.identity)
            # What was turned away took nothing, so its reservation is still there to use.
            reserved = row is not None and _was_turned_away(row)
            failed += 1
            delay = _delay(asking, error, row, failed)
            if delay is None:
                if reserved:
                    yield from _give_back(asking)
                raise
            yield Pause(delay)
            continue
        return raised


def _has_unheard(asking: Asking) -> Doing[bool]:
    """Whether the user has said something that this run has not heard yet."""
    run_id = asking.session.run_id
    events: list[EventRecord] = yield Read(lambda store: store.events(run_id, MESSAGE))
    return any(event.received_by is None for event in events)


def _delay(asking: Asking, error: ToolFailure, row: CallRow | None, failed: int) -> float | None:
    """How long to wait before the model is asked once more; None: that would not help."""
    if not isinstance(error, Retryable | Ambiguous):
        return None
    failure = row.failure if row is not None else None
    return asking.retry.delay_seconds(
        failed_attempts=failed,
        random_unit=asking.session.clock.random_unit(),
        retry_after_seconds=failure.retry_after_seconds if failure is not None else None,
    )


def _was_turned_away(row: CallRow) -> bool:
    """Whether the provider itself says that nothing was answered. Otherwise nobody knows."""
    failure = row.failure
    if failure is None or failure.failure_class is FailureClass.AMBIGUOUS:
        return False
    return failure.error_type.startswith(f"{Retryable.__module__}.")


def _model_request(asking: Asking) -> Request:
    """The call of this turn. Its identity has no part in what is asked."""
    provider = asking.provider
    asked = provider.acomplete if asking.is_async else provider.complete

    def kept(reply: ModelReply) -> dict[str, Any]:
        plain = keepable(reply.to_plain())
        return {"reply": plain, "usd": cost_of(provider, reply)}

    def complete(request: ModelRequest) -> dict[str, Any]:
        return kept(asked(request))  # type: ignore[arg-type]

    async def acomplete(request: ModelRequest) -> dict[str, Any]:
        return kept(await asked(request))  # type: ignore[misc]

    tool = dataclasses.replace(
        _MODEL,
        function=acomplete if asking.is_async else complete,
        is_async=asking.is_async,
        retry=NO_RETRY,
        time_limit_seconds=asking.time_limit_seconds,
    )
    told = {"model": provider.model, "turn": asking.state.turn}
    identity = _identity(asking.scope, MODEL)
    request = request_for(asking.scope, tool, told)
    # A failure on record is no answer: whoever comes back to this turn asks once more.
    return dataclasses.replace(request, identity=identity, retry=True)


def _identity(scope: Scope, name: str) -> CallIdentity:
    return CallIdentity(
        scope.session.run_id, scope.node_id, scope.checkpoint_id, name, values.hash_of({})
    )


def _find(session: Session, identity: CallIdentity) -> Doing[CallRow | None]:
    row = session.riding.find_call(identity)
    if row is None:
        row = yield Read(lambda store: store.load_call(identity))
    return row


# Reservations


def _reserve(
    asking: Asking, question: ModelRequest, raised: dict[str, float]
) -> Doing[dict[str, float]]:
    """Make what this request may cost durable, if the budget allows it.

    Durable: the reservation, when it returns.
    """
    session = asking.session
    identity = _identity(asking.scope, RESERVATION)
    before = yield from _find(session, identity)
    reserve = _most_it_may_take(asking.provider, question)
    raised = yield from _within_budget(asking, before, reserve, raised)
    told = {"turn": asking.state.turn}
    request = dataclasses.replace(request_for(asking.scope, _RESERVATION, told), identity=identity)
    blank = waiting.blank_row(request)
    if before is not None:
        blank = before.next_attempt(
            attempt_id=session.new_attempt_id(),
            holder_id=session.holder.holder_id,
            now=session.clock.now(),
        )
    stored = StoredResult(ResultKind.PLAIN, values.encode(reserve.to_plain()))
    row = blank.done(stored, now=session.clock.now())
    yield from session.commit(calls=(CallWrite(row, before.state if before else None),))
    return raised


def _give_back(asking: Asking) -> Doing[None]:
    """Take a reservation back whose request was turned away: nobody will be billed for it.

    Durable: when it returns. Whoever dies before that leaves it counted.
    """
    session = asking.session
    row = yield from _find(session, _identity(asking.scope, RESERVATION))
    if row is not None:
        less = row._replace(
            attempt=row.attempt - 1, attempt_id=session.new_attempt_id(), past=row.past[:-1]
        )
        yield from session.commit(calls=(CallWrite(less, row.state),))


def _most_it_may_take(provider: Provider, question: ModelRequest) -> Amount:
    prompt = estimate_tokens(
        [
            question.system,
            [message.to_plain() for message in question.messages],
            [[tool.name, tool.description, dict(tool.parameters)] for tool in question.tools],
        ]
    )
    usage = Usage(prompt, question.most_output_tokens)
    price = provider.price
    most = Amount(usage.tokens, 0.0 if price is None else price.most_usd(usage))
    return most.times(billed_at_most(provider))


def _within_budget(
    asking: Asking, before: CallRow | None, reserve: Amount, raised: dict[str, float]
) -> Doing[dict[str, float]]:
    """Let the request through, or make the run wait until somebody raises what is too low."""
    state, budget = asking.state, asking.budget
    lost = yield from _lost(asking, before)
    began = yield from _round_began(asking)
    spent = Amount(state.spent.tokens, state.spent.usd) + lost
    number = 0
    while True:
        now = asking.session.clock.now()
        taken = Taken(
            spent=spent,
            unanswered=lost,
            reserve=reserve,
            beats=state.turn - 1,
            seconds=max(0.0, now - began) if began is not None else 0.0,
            repeats=state.plain["repeats"]["count"],
        )
        overrun = find_overrun(budget, raised, taken)
        if overrun is None:
            return raised
        question = Question(
            text=f"the budget does not allow what comes next: {overrun.text}",
            about=overrun.to_plain(),
            answer_type='an object such as {"usd": 2}',
            kind=ReviewKind.BUDGET,
        )
        more = yield from waiting.ask(_raise_request(asking, number), question, None)
        raised = raised_by(raised, more)
        number += 1


def _raises_on_record(asking: Asking, raised: dict[str, float]) -> Doing[dict[str, float]]:
    """What people raised in this turn before the reply that is on record."""
    number = 0
    while True:
        request = _raise_request(asking, number)
        row = yield from _find(asking.session, request.identity)
        if row is None or row.result is None:
            return raised
        raised = raised_by(raised, request.tool.decode_result(row.result))
        number += 1


def _raise_request(asking: Asking, number: int) -> Request:
    return request_for(asking.scope, _RAISE, {"number": number})


def _round_began(asking: Asking) -> Doing[float | None]:
    """When the first request after the user's last message was reserved; None: not yet."""
    visit = asking.state.plain["round"]["first_visit"]
    graph_id = asking.session.run.graph_id or ""
    identity = _identity(asking.scope, RESERVATION)
    identity = identity._replace(checkpoint_id=child_checkpoint(graph_id, visit))
    row = yield from _find(asking.session, identity)
    return None if row is None else row.created_at


_lost_before: weakref.WeakKeyDictionary[Session, Amount] = weakref.WeakKeyDictionary()
"""What earlier processes lost in earlier turns, read once by each process."""


def _lost(asking: Asking, before: CallRow | None) -> Doing[Amount]:
    """Reservations whose answer never came, in this turn and in earlier ones.

    They are read from the ledger and not kept in the state: a run that was interrupted ends with
    the state of one that was not.
    """
    session, node_id = asking.session, asking.scope.node_id
    here = Amount() if before is None else _reserved(before).times(before.attempt)
    if asking.budget.usd is None and asking.budget.tokens is None:
        return here
    known = _lost_before.get(session)
    if known is None:
        rows: list[CallRow] = yield Read(lambda store: store.calls_under(session.run_id, node_id))
        known = Amount()
        for row in rows:
            mine = before is not None and row.identity == before.identity
            if row.identity.tool_name == RESERVATION and row.attempt > 1 and not mine:
                known += _reserved(row).times(row.attempt - 1)
        _lost_before[session] = known
    return known + here


def _remember_lost(asking: Asking) -> Doing[None]:
    """Count what this turn lost before its answer came, for the turns to come in this process."""
    known = _lost_before.get(asking.session)
    if known is None:
        return
    row = yield from _find(asking.session, _identity(asking.scope, RESERVATION))
    if row is not None and row.attempt > 1:
        _lost_before[asking.session] = known + _reserved(row).times(row.attempt - 1)


def _reserved(row: CallRow) -> Amount:
    return Amount.from_plain(values.decode(row.kept_result().json))


# What can be kept


def keepable(plain: Any) -> Any:
    """What a provider said, as plain data. It was paid for, so nothing in it may make us lose it.

    Half of a surrogate pair, a number that is none: each becomes what can be written down.
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
    raise AssertionError("the engine records it, and nobody calls it")


_MODEL: Tool = own_tool("model", _no_function, Any, what="the reply of a model")
_RESERVATION: Tool = own_tool("reservation", _no_function, Any, what="a reservation")
_RAISE: Tool = own_tool("raise", check_raise, Any, what="a raised budget")
_RAISE = dataclasses.replace(
    _RAISE,
    adopt_result=lambda plain: StoredResult(ResultKind.PLAIN, values.encode(check_raise(plain))),
)
