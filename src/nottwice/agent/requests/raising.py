"""How a person lets a run spend more than its budget allows (A4).

The question is a review of its run, and its answer a row like any other, so a raise counts once,
wherever the run is killed. A worker may reach the limit of a boss. Then the raise that a person
allows is lent to that boss, on a meter that all its workers read, in the commit that uses the
raise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from nottwice.agent.budget import Overrun, raised_by
from nottwice.engine.asks import Doing, Read
from nottwice.engine.calls.requests import Request
from nottwice.engine.session import Scope, Session
from nottwice.engine.waits import waiting
from nottwice.guard.recorded import own_tool, request_for
from nottwice.model import values
from nottwice.model.asking.asked import Question
from nottwice.model.asking.raises import check_raise
from nottwice.model.call import CallIdentity, CallRow, ResultKind, StoredResult
from nottwice.model.policy import ChargeRecord
from nottwice.model.review import ReviewKind
from nottwice.model.tool import Tool
from nottwice.store.interface import ChargeWrite

COVERED = ("usd", "tokens", "workers")
"""What a boss's budget also limits for all of its workers."""
_NANO = 1_000_000_000


def units(name: str, amount: float) -> int:
    """Convert an amount to units of meters: whole tokens and workers, billionths of a dollar."""
    return round(amount * _NANO) if name == "usd" else int(amount)


def from_units(name: str, count: int) -> float:
    """Convert the count of a meter to an amount."""
    return round(count / _NANO, 9) if name == "usd" else count


def lent_to(run_id: str, name: str) -> str:
    """Return the meter of what people allowed workers to take beyond the limit of this boss."""
    return f"nottwice.lent/{name}/{run_id}"


def charge(session: Session, identity: CallIdentity, meter: str, amount: int) -> ChargeRecord:
    """Return a charge that counts whatever becomes of the call."""
    return ChargeRecord(
        meter, identity, identity.call_id, session.clock.now(), amount, if_failed=True
    )


def ask_raise(
    scope: Scope, overrun: Overrun, number: int, raised: Mapping[str, float]
) -> Doing[dict[str, float]]:
    """Return how much more the run may take, once a person has decided; BudgetSpent until then.

    ``number``: which raise of this limit in this beat it is, from 0. A raise of a boss's limit is
    lent to the boss. Durable: the raise, when it returns.
    """
    request = _request(scope, overrun.of, number)
    question = Question(
        text=f"the budget does not allow what comes next: {overrun.text}",
        about=overrun.to_plain(),
        answer_type='an object such as {"usd": 2}',
        kind=ReviewKind.BUDGET,
    )

    def lend(more: Mapping[str, float]) -> tuple[ChargeWrite, ...]:
        return tuple(
            ChargeWrite(
                charge(
                    scope.session,
                    request.identity,
                    lent_to(overrun.of or "", name),
                    units(name, more[name]),
                )
            )
            for name in COVERED
            if overrun.of is not None and name in more
        )

    more: dict[str, float] = yield from waiting.ask(request, question, None, lend)
    return raised_by(raised, more) if overrun.of is None else dict(raised)


def raises_on_record(scope: Scope, raised: dict[str, float]) -> Doing[dict[str, float]]:
    """Add what people have already raised in this beat."""
    number = 0
    while True:
        request = _request(scope, None, number)
        row = yield from find_call(scope.session, request.identity)
        if row is None or row.result is None:
            return raised
        raised = raised_by(raised, request.tool.decode_result(row.result))
        number += 1


def find_call(session: Session, identity: CallIdentity) -> Doing[CallRow | None]:
    """Return the row of a call, even if it is not durable yet."""
    row = session.pending.find_call(identity)
    if row is None:
        row = yield Read(lambda store: store.load_call(identity))
    return row


def _request(scope: Scope, of: str | None, number: int) -> Request:
    told: dict[str, Any] = {"number": number}
    return request_for(scope, _RAISE, told if of is None else {**told, "of": of})


_RAISE: Tool = own_tool("raise", check_raise, Any, what="a raised budget")
_RAISE = dataclasses.replace(
    _RAISE,
    adopt_result=lambda plain: StoredResult(ResultKind.PLAIN, values.encode(check_raise(plain))),
)
