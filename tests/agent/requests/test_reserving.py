"""Is what may be billed counted, and can it be seen?"""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.provider import ModelReply, ModelRequest
from nottwice.guard.scopes import scope_of
from tests.agent.delegating.test_workers import MOST, Office
from tests.agent.workshop import Workshop
from tests.fakes import Killed


def lose(shop: Workshop, *turns: int, times: int = 1, kill: bool) -> None:
    """Lose the answers of these turns: the connection breaks, or the process dies."""
    complete, lost = shop.agent.provider.complete, dict.fromkeys(turns, 0)

    def losing(request: ModelRequest) -> ModelReply:
        if lost.get(request.turn, times) < times:
            lost[request.turn] += 1
            if kill:
                store: Any = scope_of("a test").session.store
                store.dead = True
                raise Killed
            raise nt.Ambiguous("the connection broke")
        return complete(request)

    shop.agent.provider.complete = losing  # type: ignore[method-assign]


@pytest.mark.parametrize("kill", [True, False])
def test_requests_whose_answer_was_lost_can_be_seen(kill: bool) -> None:
    script = [{"get_order": {"order_id": 7}}, "done"]
    shop = Workshop(script, most_output_tokens=1000)
    lose(shop, 1, 2, times=2, kill=kill)
    outcome = None
    for _ in range(5):
        outcome = outcome or shop.run()
    assert outcome is not None
    spent = outcome.state.spent
    # Four requests of at least a thousand tokens for five dollars a million.
    assert 0.02 < spent.unanswered_usd < 0.04
    assert spent.own.unanswered_tokens > 4000
    assert spent.requests == 2
    with shop.host.process() as ledger:
        assert shop.agent.outcome("ticket-7", store=ledger).state.spent == spent


def test_nothing_is_lost_where_every_request_was_answered() -> None:
    shop = Workshop([{"get_order": {"order_id": 7}}, "done"])
    assert shop.finish().state.spent.unanswered_usd == 0.0


def test_a_request_that_was_lost_permanently_can_be_seen_while_the_run_waits() -> None:
    shop = Workshop(["done"], most_output_tokens=1000, retry=nt.RetryPolicy(attempts=1))
    lose(shop, 1, kill=False)
    outcome = shop.finish()
    assert outcome.status == "waiting"
    assert outcome.state.spent.unanswered_usd > 0.005


def test_a_reply_that_took_less_than_was_reserved_makes_room_for_other_workers() -> None:
    """Three workers in parallel, and room for one reservation at a time."""
    office = Office(3, turns=1, budget=nt.Budget(usd=0.165), most_output_tokens=MOST)
    outcome = office.run()
    assert outcome.state.spent.usd <= 0.165
    assert outcome.state.spent.with_workers.requests >= 3
