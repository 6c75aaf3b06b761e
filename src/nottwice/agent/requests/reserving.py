"""The cost of a request to a model is reserved before it is made, if the budget allows it (A4).

The reservation is durable before the model is asked. It counts every attempt, including one after a
crash. The same commit charges it to every run that this one works for, so two workers cannot both
take the last dollar of their boss. A reservation without an answer stays counted. Promises kept
here: P70, P190.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

from nottwice.agent.budget import Amount, Budget, Overrun, Taken, find_overrun, raised_by
from nottwice.agent.context import estimate_tokens
from nottwice.agent.delegating import workers
from nottwice.agent.delegating.workers import MONEY, Boss, lost_by, shown
from nottwice.agent.provider import ModelRequest, Provider, Usage, billed_at_most
from nottwice.agent.requests import hearing
from nottwice.agent.requests.raising import ask_raise, charge, find_call, lent_to, units
from nottwice.agent.state import RunState
from nottwice.engine.asks import Doing, Pause, Read
from nottwice.engine.session import Scope, Session
from nottwice.engine.waits import waiting
from nottwice.errors import UsageError
from nottwice.guard.recorded import own_tool, request_for
from nottwice.model import values
from nottwice.model.call import CallIdentity, CallRow, ResultKind, StoredResult, child_checkpoint
from nottwice.model.data.records import frozen_record
from nottwice.model.retry import RetryPolicy
from nottwice.model.tool import Tool
from nottwice.store.interface import CallWrite, ChargeWrite, Outdated, Store

RESERVATION = "nottwice.reservation"
LOOK_AGAIN_SECONDS = 0.5
MOST_LOOKS = 120
"""How often to check whether other workers' requests cost less than was reserved for them."""
MOST_LOOKS_FOR_RAISE = 20
"""How often to check for a raise that a person gave another worker, which has not used it yet."""
Render = Callable[[int], ModelRequest]
"""Builds the request from what is on record; the number says how often to halve the window."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class ModelAsking:
    """Everything needed to ask a model once."""

    scope: Scope
    state: RunState
    provider: Provider
    budget: Budget
    render: Render
    retry: RetryPolicy
    give_up_seconds: float
    time_limit_seconds: float | None
    is_async: bool

    @property
    def session(self) -> Session:
        return self.scope.session


def reserve(
    asking: ModelAsking, question: ModelRequest, raised: dict[str, float]
) -> Doing[dict[str, float]]:
    """Reserve what this request may cost, if the budget and those of the bosses allow it.

    Returns the raises. Durable: the reservation, when it returns.
    """
    session = asking.session
    identity = identity_of(asking.scope, RESERVATION)
    before = yield from find_call(session, identity)
    most = _most_it_may_take(asking.provider, question)
    lost_here = Amount() if before is None else _reserved(before).times(before.attempt)
    raised, own = yield from _within_budget(asking, lost_here, most, raised)
    calls = [CallWrite(_row(asking, before, most), before.state if before else None)]
    if (yield from workers.has_workers(session)):
        calls += yield from workers.allowance(session, asking.budget, raised, own + most)
    lost = tuple(_lost_charges(session, identity, lost_here))
    if lost and session.run.parent_id is not None:
        # That request is no longer in progress, and other workers may wait for it to end.
        yield from lose(asking)
    asked = Counter[str | None]()
    while True:
        bosses = yield from _within_bosses(asking, identity, lost_here + most, asked)
        above = workers.charges_above(
            session, bosses, identity, taken=lost_here + most, under_way=most, limited=True
        )
        try:
            yield from session.commit(calls=tuple(calls), charges=(*lost, *above))
        except Outdated:
            # Another worker of the same boss has reserved meanwhile: check again.
            continue
        return raised


def settle(asking: ModelAsking, usd: float | None, tokens: int) -> Doing[None]:
    """Charge what a reply cost instead of what was reserved for it.

    Durable: when it returns, together with the reply.
    """
    session, identity = asking.session, identity_of(asking.scope, RESERVATION)
    bosses = yield from workers.bosses_of(session, identity.call_id)
    charges: tuple[ChargeWrite, ...] = ()
    if bosses:
        row = yield from find_call(session, identity)
        lost = Amount() if row is None else _reserved(row).times(row.attempt - 1)
        taken = lost + Amount(tokens, usd or 0.0)
        charges = workers.charges_above(
            session, bosses, identity, taken=taken, under_way=Amount(), limited=False
        )
    yield from session.commit(charges=charges)


def give_back(asking: ModelAsking) -> Doing[None]:
    """Take back the reservation of a rejected request, which is not billed.

    Durable: when it returns. If the process dies before that, the reservation stays counted.
    """
    session, identity = asking.session, identity_of(asking.scope, RESERVATION)
    row = yield from find_call(session, identity)
    if row is not None:
        less = row._replace(
            attempt=row.attempt - 1, attempt_id=session.new_attempt_id(), past=row.past[:-1]
        )
        charges = yield from _charges_without_answer(asking, identity, less)
        yield from session.commit(calls=(CallWrite(less, row.state),), charges=charges)


def lose(asking: ModelAsking) -> Doing[None]:
    """Count a request as lost: it may have been answered, and no process waits for it now.

    Durable: when it returns.
    """
    session, identity = asking.session, identity_of(asking.scope, RESERVATION)
    row = yield from find_call(session, identity)
    if row is not None:
        charges = yield from _charges_without_answer(asking, identity, row)
        yield from session.commit(charges=charges)


def _charges_without_answer(
    asking: ModelAsking, identity: CallIdentity, row: CallRow
) -> Doing[tuple[ChargeWrite, ...]]:
    session, lost = asking.session, _reserved(row).times(row.attempt)
    bosses = yield from workers.bosses_of(session, identity.call_id)
    above = workers.charges_above(
        session, bosses, identity, taken=lost, under_way=Amount(), limited=False
    )
    return (*_lost_charges(session, identity, lost), *above)


def _lost_charges(session: Session, identity: CallIdentity, lost: Amount) -> list[ChargeWrite]:
    if lost == Amount():
        return []
    return [
        ChargeWrite(
            charge(
                session,
                identity,
                lost_by(session.run_id, name),
                units(name, getattr(lost, name)),
            )
        )
        for name in MONEY
    ]


def _row(asking: ModelAsking, before: CallRow | None, most: Amount) -> CallRow:
    session = asking.session
    request = request_for(asking.scope, _RESERVATION, {"turn": asking.state.turn})
    identity = identity_of(asking.scope, RESERVATION)
    blank = waiting.blank_row(dataclasses.replace(request, identity=identity))
    if before is not None:
        blank = before.next_attempt(
            attempt_id=session.new_attempt_id(),
            holder_id=session.holder.holder_id,
            now=session.clock.now(),
        )
    stored = StoredResult(ResultKind.PLAIN, values.encode(most.to_plain()))
    return blank.done(stored, now=session.clock.now())


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


# The limits of the run itself


def _within_budget(
    asking: ModelAsking, lost_here: Amount, most: Amount, raised: dict[str, float]
) -> Doing[tuple[dict[str, float], Amount]]:
    """Let the request through, or make the run wait until a person raises the exceeded limit.

    Returns the raises, and what the run itself has taken so far.
    """
    state, budget, session = asking.state, asking.budget, asking.session
    lost, of_workers, lent = yield from _on_meters(asking)
    own = Amount(state.spent.own.tokens, state.spent.own.usd) + lost + lost_here
    own += workers.inherited(state, of_workers)
    began = yield from _round_began(asking)
    repeats, first = state.plain["repeats"], state.plain["round"]["first_visit"]
    number = 0
    while True:
        now = session.clock.now()
        taken = Taken(
            spent=own + of_workers,
            unanswered=lost + lost_here,
            reserve=most,
            turns=state.turn - first,
            seconds=max(0.0, now - began) if began is not None else 0.0,
            repeats=repeats["count"],
            period=repeats["period"],
        )
        overrun = find_overrun(budget, raised_by(raised, lent), taken)
        if overrun is None:
            return raised, own
        raised = yield from ask_raise(asking.scope, overrun, number, raised)
        number += 1


def _on_meters(asking: ModelAsking) -> Doing[tuple[Amount, Amount, dict[str, float]]]:
    """Return what earlier turns lost, what the workers have taken, and what they were allowed.

    Lost requests are read from the ledger and not kept in the state, so that an interrupted run
    ends with the same state as an uninterrupted one.
    """
    session, budget = asking.session, asking.budget
    run_id, call_id = session.run_id, identity_of(asking.scope, RESERVATION).call_id

    def look(store: Store) -> tuple[Amount, Amount, dict[str, float]]:
        limited = budget.usd is not None or budget.tokens is not None
        if not limited and session.run.parent_id is None:
            return Amount(), Amount(), {}
        lost = shown(store, lost_by, run_id, besides=call_id)
        lent = shown(store, lent_to, run_id)
        taken = shown(store, workers.taken_for, run_id)
        return lost, taken, {name: getattr(lent, name) for name in MONEY if getattr(lent, name)}

    found: tuple[Amount, Amount, dict[str, float]] = yield Read(look)
    return found


def _round_began(asking: ModelAsking) -> Doing[float | None]:
    """Return when the first request after the user's last message was reserved; None: not yet.

    If a message arrives in a turn that had already reserved, the time counts from the message.
    """
    visit = asking.state.plain["round"]["first_visit"]
    graph_id = asking.session.run.graph_id or ""
    identity = identity_of(asking.scope, RESERVATION)
    identity = identity._replace(checkpoint_id=child_checkpoint(graph_id, visit))
    row = yield from find_call(asking.session, identity)
    if row is None or asking.budget.seconds is None:
        return None
    heard = yield from hearing.taken_in(asking.scope, identity.checkpoint_id)
    return max(row.created_at, *(each.created_at for each in heard), 0.0)


# The limits of the bosses


def _within_bosses(
    asking: ModelAsking, identity: CallIdentity, taken: Amount, asked: Counter[str | None]
) -> Doing[tuple[Boss, ...]]:
    """Return the bosses, as soon as the request fits under their limits.

    Other workers' requests may cost less than was reserved. That is worth a short wait; a person is
    asked only if it does not help.
    """
    looks, is_certain = 0, False
    while True:
        bosses = yield from workers.bosses_of(asking.session, identity.call_id)
        for boss in bosses:
            _check_price(asking, boss)
        overrun = _first_overrun(bosses, taken)
        if overrun is None:
            return bosses
        worth_while = MOST_LOOKS
        if _first_overrun(bosses, taken, patient=True) is not None:
            raised = yield workers.is_raised_below(overrun.of, besides=asking.session.run_id)
            worth_while = MOST_LOOKS_FOR_RAISE if raised else 0
            if not raised and not is_certain:
                # It may have been used between the two checks; then the limit has changed.
                is_certain = True
                continue
        if looks < worth_while:
            looks += 1
            yield Pause(LOOK_AGAIN_SECONDS)
            continue
        yield from ask_raise(asking.scope, overrun, asked[overrun.of], {})
        asked[overrun.of] += 1


def _first_overrun(
    bosses: tuple[Boss, ...], taken: Amount, *, patient: bool = False
) -> Overrun | None:
    for boss in bosses:
        for name in MONEY:
            overrun = boss.overrun(name, getattr(taken, name), patient=patient)
            if overrun is not None:
                return overrun
    return None


def _check_price(asking: ModelAsking, boss: Boss) -> None:
    if boss.limits.get("usd") is not None and asking.provider.price is None:
        raise UsageError(
            f"Run {asking.session.run_id!r} works for run {boss.run_id!r}, which has a budget in "
            f"dollars, and the price of {asking.provider.model!r} is not known. No model was "
            "asked. Tell the provider its price, or give the boss a budget in tokens."
        )


def identity_of(scope: Scope, name: str) -> CallIdentity:
    """Return the identity of a row that a turn has once, whatever is asked in it."""
    return CallIdentity(
        scope.session.run_id, scope.node_id, scope.checkpoint_id, name, values.hash_of({})
    )


def _reserved(row: CallRow) -> Amount:
    return Amount.from_plain(values.decode(row.kept_result().json))


def _no_function(*args: Any) -> Any:
    raise AssertionError("the engine records it, and nothing calls it")


_RESERVATION: Tool = own_tool("reservation", _no_function, Any, what="a reservation")
