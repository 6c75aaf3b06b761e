"""Is what the user said in the very next request, wherever the run stood when it was said?"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.provider import ModelReply, ModelRequest, StopReason
from nottwice.agent.providers.scripted import ScriptedProvider
from nottwice.agent.state import RunState
from nottwice.store.memory import MemoryStore
from tests.agent.workshop import Workshop
from tests.fakes import another_program

STOP = "STOP. NEVER refund anybody."
WAITS = ("turns", "repeats", "seconds", "usd", "outage")


def obedient(request: ModelRequest) -> Any:
    """A model that refunds one order after the other until it is told to stop."""
    if any(STOP in message.text for message in request.messages):
        return "Stopped."
    return {"refund": {"order_id": 1 if request.turn < 3 else 2, "cents": request.turn}}


def same(request: ModelRequest) -> Any:
    told = obedient(request)
    return told if isinstance(told, str) else {"get_order": {"order_id": 7}}


def waiting_in_reason(why: str) -> Workshop:
    """A run that waits before its model is asked."""
    match why:
        case "turns":
            shop = Workshop(obedient, budget=nt.Budget(turns=2))
        case "repeats":
            shop = Workshop(same, budget=nt.Budget(repeats=2))
        case "seconds":
            shop = Workshop(obedient, budget=nt.Budget(seconds=60))
            asked(shop, lambda: shop.host.clock.advance(40))
        case "usd":
            shop = Workshop(obedient, most_output_tokens=1000, budget=nt.Budget(usd=0.006))
        case _:
            shop = Workshop(obedient)
            trouble: list[BaseException] = [nt.Retryable("529", retry_after=600)]
            asked(shop, lambda: fail(trouble))
    outcome = shop.finish()
    assert outcome.status == "waiting"
    assert not shop.world.requests or why != "outage"
    return shop


def asked(shop: Workshop, first: Callable[[], Any]) -> None:
    """Have something happen whenever the model is asked."""
    complete = shop.agent.provider.complete

    def completing(request: ModelRequest) -> ModelReply:
        first()
        return complete(request)

    shop.agent.provider.complete = completing  # type: ignore[method-assign]


def fail(trouble: list[BaseException]) -> None:
    if trouble:
        raise trouble.pop()


def goes_on(shop: Workshop) -> None:
    """What ends the wait: a person raises the budget, or the time of the outage has come."""
    shop.host.clock.advance(601)
    reviews = nt.Reviews(nt.Ledger(MemoryStore(shop.host.data), clock=shop.host.clock))
    for review in shop.host.open_reviews:
        more = {"usd": 1} if "dollars" in review.summary else {"turns": 5}
        reviews.decide(review.review_id, "raise", by="ann", why="go on", result=more)


def send(shop: Workshop, text: str = STOP) -> None:
    with shop.host.process() as ledger:
        ledger.send("ticket-7", "message", text, by="ann")


@pytest.mark.parametrize("why", WAITS)
def test_a_run_that_waits_before_it_asks_asks_with_what_was_said_meanwhile(why: str) -> None:
    shop = waiting_in_reason(why)
    before, effects = len(shop.world.requests), list(shop.world.effects)
    send(shop)
    goes_on(shop)
    outcome = shop.finish()
    assert (outcome.status, outcome.state.answer) == ("completed", "Stopped.")
    assert len(shop.world.requests) == before + 1
    assert shop.world.effects == effects, "what the user forbade was done"
    assert [message.text for message in outcome.state.heard] == [STOP]
    assert shop.host.open_reviews == []


@pytest.mark.parametrize("why", ["turns", "repeats", "seconds"])
def test_a_message_begins_a_new_count_of_turns_repeats_and_time(why: str) -> None:
    shop = waiting_in_reason(why)
    assert shop.finish(goal=None, message=STOP).status == "completed"
    assert shop.host.open_reviews == [], "a question that nothing waits for is closed"


def test_time_counts_from_a_message_that_came_in_an_outage() -> None:
    trouble: list[BaseException] = [nt.Retryable("529", retry_after=600)]
    script: list[Any] = [{"get_order": {"order_id": 7}}, "done"]
    shop = Workshop(script, budget=nt.Budget(seconds=300))
    asked(shop, lambda: fail(trouble))
    assert shop.finish().status == "waiting"
    shop.host.clock.advance(601)
    assert shop.finish(goal=None, message="Hurry up!").status == "completed"


def test_what_is_said_while_a_request_is_tried_again_is_in_the_next_try() -> None:
    shop = Workshop(obedient, most_output_tokens=1000, budget=nt.Budget(tokens=4000))
    trouble: list[BaseException] = [nt.Retryable("529")]

    def fails_and_hears() -> None:
        if trouble:
            send(shop)
        fail(trouble)

    asked(shop, fails_and_hears)
    outcome = shop.finish()
    assert (outcome.state.answer, shop.world.effects) == ("Stopped.", [])
    assert outcome.state.spent.unanswered_usd == 0


def test_a_reply_on_record_answers_what_had_been_said_before_it() -> None:
    """A message that comes after the reply waits for the next turn."""
    shop = waiting_in_reason("turns")
    send(shop, "Go on.")
    for dies_at in range(1, 60):
        count = len(shop.world.requests)
        shop.run(dies_at=dies_at)
        if len(shop.world.requests) > count:
            break
    send(shop)
    outcome = shop.finish()
    said = [one.text for one in outcome.state.transcript if one.text in ("Go on.", STOP)]
    assert said == ["Go on.", STOP]
    assert outcome.state.answer == "Stopped."


def test_it_is_heard_in_an_event_loop() -> None:
    shop = waiting_in_reason("turns")

    async def speak() -> nt.Outcome[RunState]:
        with shop.host.process() as ledger:
            return await shop.agent.arun("ticket-7", message=STOP, store=ledger)
        raise AssertionError

    assert asyncio.run(speak()).state.answer == "Stopped."


def ended(why: str, *dies_at: int) -> tuple[Workshop, nt.Outcome[RunState]]:
    """A run that is spoken to while it waits, and whose processes die there."""
    shop = waiting_in_reason(why)
    send(shop)
    goes_on(shop)
    for one in dies_at:
        shop.run(dies_at=one)
    return shop, shop.finish()


def points(why: str) -> int:
    with another_program():
        return ended(why)[0].host.points


@pytest.mark.parametrize(
    ("why", "dies_at"),
    [(why, n) for why in WAITS for n in range(1, points(why) + 1)],
)
def test_killed_anywhere_after_a_message_it_ends_like_an_uninterrupted_one(
    why: str, dies_at: int
) -> None:
    expected, outcome = ended(why)
    for again in (0, 3, 6):
        shop, resumed = ended(why, *(one for one in (dies_at, again) if one))
        assert resumed.state == outcome.state
        assert shop.world.effects == expected.world.effects


def test_a_file_that_is_gone_stops_the_turn_that_it_was_sent_into(
    fake_models: Any, tmp_path: Path
) -> None:
    """Until the user says something after that."""
    path = tmp_path / "notes.md"
    path.write_text("bent")
    shown: Any = ["Look.", nt.agent.File(str(path))]
    path.unlink()
    fake_models.will_say("Without it, then.")
    store = nt.Ledger(":memory:")

    def agent(tokens: int) -> nt.Agent:
        budget = nt.Budget(tokens=tokens)
        return nt.Agent("a", version="1.0.0", provider=fake_models.anthropic(), budget=budget)

    assert agent(1).run("t", goal="x", store=store).status == "waiting"
    assert agent(1).run("t", message=shown, store=store).status == "waiting"
    for _ in range(2):
        with pytest.raises(nt.errors.FileChanged):
            agent(100_000).run("t", store=store)
    outcome = agent(100_000).run("t", message="Go on without it.", store=store)
    assert outcome.state.answer == "Without it, then."


class Cut(ScriptedProvider):
    """A model whose first reply is cut off."""

    def complete(self, request: ModelRequest) -> ModelReply:
        reply = super().complete(request)
        return dataclasses.replace(reply, stop=StopReason.TRUNCATED) if request.turn == 1 else reply


def test_a_new_message_begins_a_new_answer() -> None:
    provider = Cut(["PART ONE of the poem", "4"], model="cut", price=None, log=None)
    asked = nt.Agent("p", version="1.0.0", provider=provider, budget=nt.Budget(turns=1))
    store = nt.Ledger(":memory:")
    assert asked.run("p", goal="write a poem", store=store).status == "waiting"
    outcome = asked.run("p", message="Forget the poem. What is 2+2?", store=store)
    assert (outcome.status, outcome.state.answer) == ("completed", "4")
