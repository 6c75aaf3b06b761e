"""Does a run wait for a model that cannot answer, durably, and not forever?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.provider import ModelReply, ModelRequest
from nottwice.agent.requests.reserving import RESERVATION
from tests.agent.workshop import Workshop
from tests.fakes import another_program

OVERLOADED = "529 overloaded"


def fail(
    shop: Workshop, trouble: Callable[[], BaseException | None], agent: nt.Agent | None = None
) -> list[float]:
    """Let the model of an agent fail as long as there is trouble; returns when it was asked."""
    provider = (agent or shop.agent).provider
    complete, asked = provider.complete, list[float]()

    def failing(request: ModelRequest) -> ModelReply:
        asked.append(shop.host.clock.now())
        error = trouble()
        if error is not None:
            raise error
        return complete(request)

    provider.complete = failing  # type: ignore[method-assign]
    return asked


def until(shop: Workshop, time: float, error: Callable[[], BaseException]) -> Any:
    return lambda: error() if shop.host.clock.now() < time else None


def test_an_outage_is_a_timer_and_the_run_continues_when_it_is_over() -> None:
    shop = Workshop(["done"])
    began = shop.host.clock.now()
    asked = fail(shop, until(shop, began + 3600, lambda: nt.Retryable(OVERLOADED)))
    outcome = shop.finish()
    assert outcome.status == "waiting"
    (wait,) = outcome.waits
    assert (wait.kind.value, OVERLOADED in wait.subject) == ("timer", True)
    assert len(asked) == 6, "at first it is asked a few times in a row"

    assert shop.finish().status == "waiting"
    assert len(asked) == 6, "before the time has come the model is not asked"
    for _ in range(30):
        (wait,) = outcome.waits
        assert wait.until is not None
        shop.host.clock.advance(wait.until - shop.host.clock.now())
        outcome = shop.finish()
        if outcome.status == "completed":
            break
    assert outcome.status == "completed"
    assert shop.host.clock.now() < began + 3600 + 700
    assert len(asked) < 25, "each timer is one request"


@pytest.mark.parametrize("seconds", [61, 600, 7200])
def test_a_provider_that_says_when_to_come_back_is_not_asked_before(seconds: int) -> None:
    shop = Workshop(["done"])
    trouble: list[BaseException] = [nt.Retryable("429", retry_after=seconds)]
    began = shop.host.clock.now()
    asked = fail(shop, lambda: trouble.pop() if trouble else None)
    outcome = shop.finish()
    assert [wait.until for wait in outcome.waits] == [began + seconds]
    assert shop.host.clock.pauses == [], "no process has to stay for it"
    shop.host.clock.advance(seconds - 1)
    assert shop.finish().status == "waiting"
    shop.host.clock.advance(1)
    assert shop.finish().status == "completed"
    assert asked == [began, began + seconds]


def test_a_worker_takes_a_run_up_when_the_outage_may_be_over() -> None:
    shop = Workshop(["done"])
    began = shop.host.clock.now()
    fail(shop, until(shop, began + 600, lambda: nt.Retryable(OVERLOADED, retry_after=600)))
    assert shop.finish().status == "waiting"
    with shop.host.process() as ledger:
        app = nt.App(graphs=[shop.agent], store=ledger)
        assert nt.Worker(app).run(until_idle=True).taken == 0
        shop.host.clock.advance(600)
        assert nt.Worker(app).run(until_idle=True).completed == 1
    assert shop.finish().state.answer == "done"


@pytest.mark.parametrize("error", [nt.Retryable(OVERLOADED), ConnectionError("no route")])
def test_a_model_that_stays_away_fails_the_run_which_can_be_run_again(error: Exception) -> None:
    shop = Workshop(["done"], give_up_after="1h")
    began, over = shop.host.clock.now(), False
    fail(shop, lambda: None if over else error)
    with pytest.raises(nt.ToolFailure):
        for _ in range(30):
            (wait,) = shop.finish().waits
            assert wait.until is not None
            shop.host.clock.advance(wait.until - shop.host.clock.now())
    assert began + 3600 <= shop.host.clock.now() <= began + 3700
    with shop.host.process() as ledger:
        assert shop.agent.outcome("ticket-7", store=ledger).status == "failed"
    assert shop.finish().status == "waiting", "another outage has a whole hour again"
    over = True
    shop.host.clock.advance(600)
    assert shop.finish().status == "completed"


def test_another_model_does_not_wait_for_the_outage_of_the_first() -> None:
    shop = Workshop(["done"])
    fail(shop, lambda: nt.Retryable(OVERLOADED, retry_after=7200))
    assert shop.finish().status == "waiting"
    shop.agent = shop.make(["done by another"], tools=shop.kept)
    shop.agent.provider.model = "scripted-2"  # type: ignore[misc]
    assert shop.finish().state.answer == "done by another"


def test_an_outage_takes_nothing_of_the_budget() -> None:
    shop = Workshop(["done"], most_output_tokens=1000, budget=nt.Budget(tokens=3000))
    began = shop.host.clock.now()
    fail(shop, until(shop, began + 7200, lambda: nt.Retryable(OVERLOADED)))
    outcome = shop.finish()
    while outcome.status == "waiting":
        (wait,) = outcome.waits
        assert wait.until is not None, outcome
        shop.host.clock.advance(wait.until - shop.host.clock.now())
        outcome = shop.finish()
    rows = [row for row in shop.host.calls if row.identity.tool_name == RESERVATION]
    assert [row.attempt for row in rows] == [1]


def points() -> int:
    with another_program():
        return outage(Workshop(["done"]), dies_at=None).host.points


def outage(shop: Workshop, *, dies_at: int | None) -> Workshop:
    trouble: list[BaseException] = [nt.Retryable("429", retry_after=600)]
    fail(shop, lambda: trouble.pop() if trouble else None)
    shop.run(dies_at=dies_at)
    return shop


@pytest.mark.parametrize("dies_at", range(1, points() + 1))
def test_killed_anywhere_in_an_outage_it_ends_like_an_uninterrupted_one(
    dies_at: int,
) -> None:
    expected = Workshop(["done"]).finish().state
    shop = outage(Workshop(["done"]), dies_at=dies_at)
    outcome = shop.finish()
    if outcome.status == "waiting":
        shop.host.clock.advance(600)
        outcome = shop.finish()
    assert outcome.state == expected


def test_a_worker_in_an_outage_makes_its_boss_wait_and_both_continue() -> None:
    shop = Workshop(["done"])
    helper = shop.make(["Bob says yes."], name="researcher")
    began = shop.host.clock.now()
    fail(shop, until(shop, began + 600, lambda: nt.Retryable("429", retry_after=600)), helper)
    shop.agent = shop.make([{"researcher": {"goal": "ask Bob"}}, "He does."], tools=[helper])
    assert shop.finish().status == "waiting"
    with shop.host.process() as ledger:
        app = nt.App(graphs=[shop.agent, helper], store=ledger)
        shop.host.clock.advance(600)
        assert nt.Worker(app).run(until_idle=True).completed >= 1
    assert shop.finish().state.answer == "He does."


@pytest.mark.parametrize("asks", [1, 2])
def test_a_boss_is_told_that_a_worker_gave_up_while_it_waited(asks: int) -> None:
    """A daemon advances both. The worker tries once for every turn that asks for it."""
    shop = Workshop(["done"])
    clerk = shop.make(["never said"], name="clerk", give_up_after="1h")
    fail(shop, lambda: nt.Retryable(OVERLOADED), clerk)
    task = {"clerk": {"goal": "do it"}}
    shop.agent = shop.make([*[task] * asks, "The clerk cannot be reached."], tools=[clerk])
    began = shop.host.clock.now()
    with shop.host.process() as ledger:
        app = nt.App(graphs=[shop.agent, clerk], store=ledger)
        app.enqueue("triage", "ticket-7", {"goal": "g"})
        for _ in range(60):
            nt.Worker(app).run(until_idle=True)
            outcome = app.outcome("ticket-7")
            if outcome.status != "waiting":
                break
            shop.host.clock.advance(300)
    assert outcome.state.answer == "The clerk cannot be reached."
    told = [one.tool_results[0] for one in outcome.state.transcript if one.tool_results]
    assert len(told) == asks
    assert all(one.is_error and OVERLOADED in one.content for one in told)
    # The clock advances five minutes at a time, and the worker stops at the end of each hour.
    assert asks * 3600 <= shop.host.clock.now() - began <= asks * 3600 + 900


def test_a_child_that_failed_on_an_outage_is_resumed_when_it_is_asked_for_again() -> None:
    shop = Workshop(["done"])
    mail = {"send_mail": {"to": "bob", "text": "?"}}
    helper = shop.make([mail, "Bob says yes."], name="researcher", give_up_after="1h")
    tools, began = shop.kept, shop.host.clock.now()
    trouble = until(shop, began + 7000, lambda: nt.Retryable(OVERLOADED))
    asked = fail(shop, lambda: trouble() if len(asked) > 1 else None, helper)
    again = {"researcher": {"goal": "ask Bob"}}
    shop.agent = shop.make([again, again, "He does."], tools=[helper])
    shop.kept += tools
    outcome = shop.finish()
    for _ in range(40):
        if outcome.status != "waiting":
            break
        with shop.host.process() as ledger:
            (child,) = ledger.store.children("ticket-7")
        times = [wait.until for wait in child.waits if wait.until is not None]
        shop.host.clock.advance(max(times) - shop.host.clock.now())
        outcome = shop.finish()
    first, second = (outcome.state.transcript[number].tool_results[0] for number in (1, 3))
    assert first.is_error
    assert OVERLOADED in first.content
    assert second.content == "Bob says yes."
    assert shop.world.effects == [("mail", "bob", "?")], "it continued, and did nothing twice"
