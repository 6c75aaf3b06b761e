"""Does another model answer where the first one does not, once a turn, at its own price? (P206)"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.messages import said
from nottwice.agent.provider import ModelReply, Provider
from nottwice.testing import FakeModels, Fault, Turn
from tests.nursery import starting

FIRST, SECOND = "claude-opus-5-5", "gpt-5.4-mini"
HELLO = nt.providers.ModelRequest(messages=(said("Hello"),))
QUICK = nt.RetryPolicy(attempts=4, first_seconds=0.001, most_seconds=0.001)
is_async = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def two(fake: FakeModels, **options: Any) -> Provider:
    return nt.providers.fallback(fake.anthropic(FIRST), fake.openai(SECOND), **options)


def ask(provider: Provider, *, is_async: bool = False) -> ModelReply:
    return asyncio.run(provider.acomplete(HELLO)) if is_async else provider.complete(HELLO)


def agent(provider: Provider, **options: Any) -> nt.Agent:
    @nt.tool("pure", name="fallback_look")
    def look(order_id: int) -> str:
        """Look an order up."""
        return "found"

    tools = [look]
    return nt.Agent("two", version="1.0.0", provider=provider, tools=tools, retry=QUICK, **options)


@is_async
def test_the_first_answers_while_it_can(fake_models: FakeModels, is_async: bool) -> None:
    fake_models.will_say("I am the first.", model=FIRST)
    provider = two(fake_models)
    assert isinstance(provider, Provider)
    reply = ask(provider, is_async=is_async)
    assert (reply.message.text, reply.model) == ("I am the first.", FIRST)
    assert len(fake_models.requests) == 1


@is_async
@pytest.mark.parametrize(
    "fault",
    [
        Fault.overloaded(),
        Fault.rate_limited(600),
        Fault(status=401, message="no key"),
        Fault(status=404, message="no such model"),
        Fault(status=402, message="no money", kind="billing_error"),
    ],
    ids=["529", "429", "401", "404", "402"],
)
def test_the_second_is_asked_when_the_first_turns_the_request_away(
    fake_models: FakeModels, fault: Fault, is_async: bool
) -> None:
    fake_models.will_say("I am the second.", model=SECOND)
    fake_models.will_fail(fault, model=FIRST)
    reply = ask(two(fake_models), is_async=is_async)
    assert (reply.message.text, reply.model) == ("I am the second.", SECOND)
    noted = reply.extra["fallback"]
    assert noted["answered"] == SECOND
    assert [one["model"] for one in noted["turned_away"]] == [FIRST]
    assert str(fault.status) in noted["turned_away"][0]["error"]
    assert len(fake_models.requests) == 2


def test_a_prompt_that_is_too_long_is_made_shorter_and_not_passed_on(
    fake_models: FakeModels,
) -> None:
    fake_models.will_fail(Fault.prompt_too_long(), model=FIRST)
    with pytest.raises(nt.errors.ContextTooLong):
        ask(two(fake_models))
    assert len(fake_models.requests) == 1


@is_async
def test_when_all_turn_it_away_one_that_may_be_tried_again_is_told(
    fake_models: FakeModels, is_async: bool
) -> None:
    fake_models.will_fail(Fault.rate_limited(7), model=FIRST)
    fake_models.will_fail(Fault(status=403, message="no"), model=SECOND)
    with pytest.raises(nt.Retryable) as caught:
        ask(two(fake_models), is_async=is_async)
    assert str(caught.value.retry_after) == "7"
    assert SECOND in str(caught.value)


def test_a_conversation_changes_its_model_in_the_middle_and_each_reply_has_its_own_price(
    fake_models: FakeModels,
) -> None:
    fake_models.will_say(
        Turn({"fallback_look": {"order_id": 1}}, thinking="Look."), "unused", "Done.", model=FIRST
    )
    fake_models.will_say(
        "unused", Turn({"fallback_look": {"order_id": 2}}, thinking="So."), model=SECOND
    )
    fake_models.will_fail(Fault(), Fault.overloaded(), model=FIRST)
    outcome = agent(two(fake_models)).run("t", goal="look", store=nt.Ledger(":memory:"))
    assert outcome.state.answer == "Done."
    assert fake_models.rejected == []
    assert [one.model for one in fake_models.requests] == [FIRST, FIRST, SECOND, FIRST]
    claude, _, gpt, again = (one.usage for one in fake_models.requests)
    dear, cheap = nt.agent.Price(4.0, 20.0, 0.2, 5.0), nt.agent.Price(0.75, 4.5, 0.075)
    expected = dear.cost_usd(claude) + cheap.cost_usd(gpt) + dear.cost_usd(again)
    assert outcome.state.spent.usd == pytest.approx(expected)


def test_after_an_answer_that_may_be_billed_the_next_attempt_begins_with_the_second(
    fake_models: FakeModels,
) -> None:
    fake_models.will_say("unused", model=FIRST)
    fake_models.will_say("I am the second.", model=SECOND)
    fake_models.will_fail(*[Fault.server_error()] * 5, model=FIRST)
    # Not in one attempt: each that may be billed has a reservation of its own.
    with pytest.raises(nt.Ambiguous):
        ask(two(fake_models))
    assert [one.model for one in fake_models.requests] == [FIRST]
    outcome = agent(two(fake_models)).run("t", goal="x", store=nt.Ledger(":memory:"))
    assert outcome.state.answer == "I am the second."
    assert [one.model for one in fake_models.requests] == [FIRST, FIRST, SECOND]


@is_async
def test_a_refusal_is_asked_of_the_second_and_both_are_paid(
    fake_models: FakeModels, is_async: bool
) -> None:
    fake_models.will_say(Turn("I will not.", stop="refusal"), model=FIRST)
    fake_models.will_say("I will.", model=SECOND)
    asked = agent(two(fake_models))
    store = nt.Ledger(":memory:")
    if is_async:
        outcome = asyncio.run(asked.arun("t", goal="x", store=store))
    else:
        outcome = asked.run("t", goal="x", store=store)
    assert outcome.state.answer == "I will."
    refused, answered = (one.usage for one in fake_models.requests)
    dear, cheap = nt.agent.Price(4.0, 20.0, 0.2, 5.0), nt.agent.Price(0.75, 4.5, 0.075)
    assert outcome.state.spent.usd == pytest.approx(
        dear.cost_usd(refused) + cheap.cost_usd(answered)
    )
    assert outcome.state.spent.tokens == refused.tokens + answered.tokens


def test_a_refusal_of_the_last_is_a_refusal(fake_models: FakeModels) -> None:
    fake_models.will_say(Turn("I will not.", stop="refusal"))
    reply = ask(two(fake_models))
    assert (reply.stop.value, reply.model) == ("refused", SECOND)


def test_a_refusal_can_be_left_as_it_is(fake_models: FakeModels) -> None:
    fake_models.will_say(Turn("I will not.", stop="refusal"), model=FIRST)
    assert ask(two(fake_models, refusals=False)).stop.value == "refused"
    assert len(fake_models.requests) == 1


@pytest.mark.parametrize(("refusals", "share"), [(True, 2.0), (False, 1.0)])
def test_what_is_reserved_covers_the_dearest_and_all_that_may_be_billed(
    fake_models: FakeModels, refusals: bool, share: float
) -> None:
    fake_models.will_say("Hi")
    dearest = fake_models.anthropic(FIRST)
    alone = reserve_of(agent(dearest, budget=nt.Budget(usd=1e-6)))
    both = reserve_of(agent(two(fake_models, refusals=refusals), budget=nt.Budget(usd=1e-6)))
    assert both == pytest.approx(share * alone, rel=0.05)
    assert fake_models.requests == []


def reserve_of(asked: nt.Agent) -> float:
    (review,) = asked.run("t", goal="x", store=nt.Ledger(":memory:")).reviews
    return float(review.summary.rpartition("a reserve of ")[2].rstrip(". "))


def test_a_budget_in_dollars_needs_the_price_of_each(fake_models: FakeModels) -> None:
    unknown = nt.providers.fallback(fake_models.anthropic(FIRST), fake_models.openai("some-model"))
    with pytest.raises(nt.errors.UsageError, match="some-model"):
        agent(unknown, budget=nt.Budget(usd=1))


@pytest.mark.parametrize("given", [(), (7,)])
def test_what_is_no_provider_is_refused(given: tuple[Any, ...]) -> None:
    with pytest.raises(nt.errors.UsageError, match=r"nt\.providers\.fallback"):
        nt.providers.fallback(*given)


PROGRAM = """
import sys
import nottwice as nt
url = sys.argv[1]
first = nt.providers.anthropic("claude-opus-5-5", api_key="key", base_url=url)
second = nt.providers.openai("gpt-5.4-mini", api_key="key", base_url=url + "/v1")
agent = nt.Agent("two", version="1.0.0", provider=nt.providers.fallback(first, second))
print(agent.run("t", goal="x", store=sys.argv[2]).state.answer)
"""


def test_killed_while_the_second_answers_the_turn_still_has_one_reply(
    fake_models: FakeModels, tmp_path: Path
) -> None:
    fake_models.will_say("I am the first.", model=FIRST)
    fake_models.will_say("I am the second.", model=SECOND)
    fake_models.will_fail(Fault.overloaded(), model=FIRST)
    fake_models.will_fail(Fault.slow(60.0), model=SECOND)
    command = [sys.executable, "-c", PROGRAM, fake_models.url, str(tmp_path / "a.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        give_up_at = time.monotonic() + 60
        while len(fake_models.requests) < 2:
            assert process.poll() is None
            assert time.monotonic() < give_up_at
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    # By now the first one is back: whichever answers, its reply is the one of the turn.
    for _ in range(2):
        done = starting.run(command, check=True)
        assert done.stdout == "I am the first.\n"
    assert [one.model for one in fake_models.requests] == [FIRST, SECOND, FIRST]
