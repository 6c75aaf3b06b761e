"""Is a model asked once for each turn, within the budget, whichever process dies?"""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.messages import Reasoning, Text
from nottwice.agent.provider import ModelReply, ModelRequest
from nottwice.agent.requests.asking import MODEL, keepable
from nottwice.agent.requests.reserving import RESERVATION
from nottwice.guard.scopes import scope_of
from nottwice.model import values
from nottwice.model.review import Verb
from tests.agent.workshop import Workshop
from tests.fakes import Killed


def raise_budget(shop: Workshop, result: Any) -> None:
    (review,) = shop.host.open_reviews
    reviews = nt.Reviews(nt.Ledger(shop_store(shop), clock=shop.host.clock))
    reviews.decide(review.review_id, "raise", by="ann", why="it is worth it", result=result)


def shop_store(shop: Workshop) -> Any:
    from nottwice.store.memory import MemoryStore

    return MemoryStore(shop.host.data)


def reservations(shop: Workshop) -> list[int]:
    rows = shop.host.calls
    return [row.attempt for row in rows if row.identity.tool_name == RESERVATION]


def test_a_reservation_is_durable_before_the_model_is_asked() -> None:
    shop = Workshop(["done"])
    seen: list[list[str]] = []
    complete = shop.agent.provider.complete

    def look(request: ModelRequest) -> ModelReply:
        seen.append([row.identity.tool_name for row in shop.host.calls])
        return complete(request)

    shop.agent.provider.complete = look  # type: ignore[method-assign]
    shop.finish()
    assert seen == [[RESERVATION]]


def test_a_crash_loop_cannot_spend_past_the_budget() -> None:
    """The process dies whenever the model has answered, before that is on record."""
    shop = Workshop(["done"] * 50, most_output_tokens=1000, budget=nt.Budget(usd=0.05))
    # Each request may take about 0.006 dollars.
    for _ in range(40):
        for dies_at in range(1, 30):
            asked = len(shop.world.requests)
            outcome = shop.run(dies_at=dies_at)
            if outcome is not None or len(shop.world.requests) > asked:
                break
        if outcome is not None:
            break
    assert outcome is not None
    assert outcome.status == "waiting"
    assert [review.kind.value for review in outcome.reviews] == ["budget"]
    spent = sum(1000 * 5e-6 for _ in shop.world.requests)
    assert len(shop.world.requests) >= 3
    assert spent <= 0.05
    assert max(reservations(shop)) >= len(shop.world.requests)


def test_a_run_over_its_budget_waits_and_continues_when_a_person_raises_it() -> None:
    script = [{"get_order": {"order_id": n}} for n in range(5)] + ["done"]
    shop = Workshop(script, budget=nt.Budget(turns=2))
    outcome = shop.finish()
    assert outcome.status == "waiting"
    (review,) = outcome.reviews
    assert review.kind.value == "budget"
    assert "2 times" in review.summary
    assert len(shop.world.requests) == 2
    assert shop.finish().status == "waiting"
    assert len(shop.world.requests) == 2

    raise_budget(shop, {"turns": 1})
    assert shop.finish().status == "waiting"
    assert len(shop.world.requests) == 3
    raise_budget(shop, {"turns": 10})
    outcome = shop.finish()
    assert outcome.status == "completed"
    assert outcome.state.plain["raised"] == {"turns": 11}


def test_a_raise_is_used_once_wherever_the_run_is_killed() -> None:
    script = [{"get_order": {"order_id": n}} for n in range(3)] + ["done"]
    for dies_at in range(1, 30):
        shop = Workshop(script, budget=nt.Budget(turns=1))
        assert shop.finish().status == "waiting"
        raise_budget(shop, {"turns": 1})
        shop.run(dies_at=dies_at)
        outcome = shop.finish()
        assert outcome.status == "waiting"
        assert outcome.state.plain["raised"] == {"turns": 1}
        assert outcome.state.turn == 3
    assert shop.run(dies_at=dies_at) is not None, "the last point was not reached"


def test_what_raises_nothing_is_not_accepted() -> None:
    shop = Workshop(["done"], budget=nt.Budget(tokens=1))
    assert shop.finish().status == "waiting"
    with pytest.raises(nt.errors.InvalidArguments, match="raises no budget"):
        raise_budget(shop, {"euro": 3})
    assert [review.decision for review in shop.host.open_reviews] == [None]


def test_a_budget_can_be_answered_with_an_abort() -> None:
    shop = Workshop(["done"], budget=nt.Budget(tokens=1))
    shop.finish()
    shop.host.decide(Verb.ABORT)
    assert shop.finish().status == "aborted"
    assert shop.world.requests == []


def test_the_same_call_over_and_over_stops_the_run() -> None:
    shop = Workshop(lambda request: {"get_order": {"order_id": 7}}, budget=nt.Budget(repeats=4))
    outcome = shop.finish()
    assert outcome.status == "waiting"
    assert "exactly the same 4 times" in outcome.reviews[0].summary
    assert shop.world.reads == 4


def test_time_is_counted_from_the_users_last_message() -> None:
    script: list[Any] = [{"get_order": {"order_id": 1}}, "done", "done again"]
    shop = Workshop(script, budget=nt.Budget(seconds="1h"))
    shop.finish()
    shop.host.clock.advance(7200)
    assert shop.finish(goal=None, message="and now?").status == "completed"


def test_time_that_is_over_stops_the_run() -> None:
    script = [{"get_order": {"order_id": n}} for n in range(3)] + ["done"]
    shop = Workshop(script, budget=nt.Budget(seconds=100))
    complete = shop.agent.provider.complete

    def slowly(request: ModelRequest) -> ModelReply:
        shop.host.clock.advance(60)
        return complete(request)

    shop.agent.provider.complete = slowly  # type: ignore[method-assign]
    assert shop.finish().status == "waiting"
    assert len(shop.world.requests) == 2


def test_a_provider_that_turns_requests_away_is_asked_again_when_it_says() -> None:
    shop = Workshop(["done"])
    complete = shop.agent.provider.complete
    trouble: list[BaseException] = [nt.Retryable("429", retry_after=17.0), nt.Retryable("busy")]

    def turned_away(request: ModelRequest) -> ModelReply:
        if trouble:
            raise trouble.pop(0)
        return complete(request)

    shop.agent.provider.complete = turned_away  # type: ignore[method-assign]
    assert shop.finish().status == "completed"
    assert shop.host.clock.pauses[0] == 17.0
    assert reservations(shop) == [1], "nothing was answered, so nothing more is reserved"


def test_a_request_that_may_have_been_answered_stays_counted() -> None:
    shop = Workshop(["done"])
    complete = shop.agent.provider.complete
    trouble: list[BaseException] = [nt.Ambiguous("cut off"), TimeoutError("no answer")]

    def cut_off(request: ModelRequest) -> ModelReply:
        if trouble:
            raise trouble.pop(0)
        return complete(request)

    shop.agent.provider.complete = cut_off  # type: ignore[method-assign]
    assert shop.finish().status == "completed"
    assert reservations(shop) == [3]


def test_what_a_provider_turns_away_takes_nothing_of_the_budget() -> None:
    shop = Workshop(["done"], most_output_tokens=1000, budget=nt.Budget(tokens=3000))
    complete = shop.agent.provider.complete

    def turned_away(request: ModelRequest) -> ModelReply:
        raise nt.Permanent("no permission")

    shop.agent.provider.complete = turned_away  # type: ignore[method-assign]
    for _ in range(5):
        with pytest.raises(nt.Permanent):
            shop.finish()
    assert reservations(shop) == [0]
    shop.agent.provider.complete = complete  # type: ignore[method-assign]
    assert shop.finish().status == "completed"
    assert reservations(shop) == [1]


def test_a_window_that_is_too_large_for_the_model_is_made_smaller() -> None:
    script: list[Any] = [{"get_order": {"order_id": n}} for n in range(30)] + ["done"]
    shop = Workshop(script, context_tokens=3000)
    complete = shop.agent.provider.complete
    sizes: list[int] = []

    def narrow(request: ModelRequest) -> ModelReply:
        size = len(values.encode([message.to_plain() for message in request.messages]))
        if size > 4000:
            raise nt.errors.ContextTooLong("too long")
        sizes.append(size)
        return complete(request)

    shop.agent.provider.complete = narrow  # type: ignore[method-assign]
    assert shop.finish().status == "completed"
    assert len(sizes) == 31


def test_what_no_window_is_small_enough_for_fails_the_run() -> None:
    shop = Workshop(["done"])

    def never(request: ModelRequest) -> ModelReply:
        raise nt.errors.ContextTooLong("too long")

    shop.agent.provider.complete = never  # type: ignore[method-assign]
    with pytest.raises(nt.errors.ContextTooLong, match="too long"):
        shop.finish()


def test_a_reply_that_cannot_be_written_down_is_kept_all_the_same() -> None:
    blocks = [Text("half \ud83d of it"), Reasoning("", {"score": math.nan, "tuple": (1, 2)})]
    shop = Workshop([blocks])
    outcome = shop.finish()
    assert outcome.state.answer == "half ? of it"
    assert [row.identity.tool_name for row in shop.host.calls].count(MODEL) == 1
    assert values.is_plain(keepable({"a": {1: b"x"}, "b": {3}}))


def test_a_model_without_a_price_is_counted_as_such() -> None:
    shop = Workshop(["done"], price=None)
    spent = shop.finish().state.spent
    assert (spent.usd, spent.requests, spent.unpriced) == (0.0, 1, 1)


def die() -> None:
    """Kill the process, as far as the ledger is concerned."""
    store: Any = scope_of("a test").session.store
    store.dead = True
    raise Killed


@pytest.mark.parametrize("new_process", [True, False])
def test_what_earlier_turns_lost_stays_counted(new_process: bool) -> None:
    """Two requests of the first turn were made and never answered; the second turn is too much."""
    long = ["x" * 24_000, {"get_order": {"order_id": 7}}]
    shop = Workshop([long, "done"], most_output_tokens=10_000, budget=nt.Budget(tokens=38_000))
    lost = 0
    complete = shop.agent.provider.complete

    def dies(request: ModelRequest) -> ModelReply:
        nonlocal lost
        if lost < 2:
            lost += 1
            die()
        return complete(request)

    shop.agent.provider.complete = dies  # type: ignore[method-assign]
    for _ in range(2):
        assert shop.run() is None
    if new_process:
        shop.world.stumble = lambda tool: die()  # type: ignore[method-assign]
        assert shop.run() is None
        del shop.world.stumble
    outcome = shop.finish()
    assert len(shop.world.requests) == 1
    assert outcome.status == "waiting"
    assert "38,000 tokens" in outcome.reviews[0].summary


def test_a_request_that_is_not_answered_is_left_after_the_time_limit() -> None:
    """In real time: the process does not hang on a provider that does."""
    answered = threading.Event()
    shop = Workshop(["done"], time_limit="50ms", retry=nt.RetryPolicy(attempts=1))

    def hangs(request: ModelRequest) -> ModelReply:
        answered.wait(10)
        raise AssertionError("there is no listener any more")

    shop.agent.provider.complete = hangs  # type: ignore[method-assign]
    outcome = shop.finish()
    answered.set()
    assert outcome.status == "waiting"
    assert "time limit" in outcome.waits[0].subject


def test_what_was_turned_away_once_pays_for_no_request_that_is_lost_later() -> None:
    shop = Workshop(["done"], most_output_tokens=1000, budget=nt.Budget(tokens=5000))
    complete = shop.agent.provider.complete

    def turned_away(request: ModelRequest) -> ModelReply:
        raise nt.Permanent("no permission")

    shop.agent.provider.complete = turned_away  # type: ignore[method-assign]
    with pytest.raises(nt.Permanent):
        shop.finish()

    def dies(request: ModelRequest) -> ModelReply:
        complete(request)
        die()
        raise AssertionError

    shop.agent.provider.complete = dies  # type: ignore[method-assign]
    for _ in range(10):
        outcome = shop.run()
        if outcome is not None:
            break
    assert outcome is not None
    assert outcome.status == "waiting"
    assert len(shop.world.requests) <= 3
