"""Is the prompt of a long run paid for once, and not again in every turn? (P205)

The fake APIs count which beginning of each prompt they have seen before, as the real ones do. Only
what is added at the end is new, so what a run costs grows with its length and not with its square.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.context import Context
from nottwice.agent.messages import Message, Text, said
from nottwice.agent.provider import Price, Usage
from nottwice.testing import FakeModels, Turn

TURNS = 21
STEPS = [f"look at order {number}" for number in range(1, TURNS)]
PRICES = {"anthropic": Price(2.0, 10.0, 0.2, 2.5), "openai": Price(0.75, 4.5, 0.075)}
both = pytest.mark.parametrize("api", PRICES)


def looking_agent(provider: Any, **options: Any) -> nt.Agent:
    @nt.tool("pure", name="look_up")
    def look_up(order_id: int) -> str:
        """Look an order up."""
        return f"order {order_id}: " + "a line of the order\n" * 60

    return nt.Agent("looking", version="1.0.0", provider=provider, tools=[look_up], **options)


def script() -> Iterable[Turn]:
    """Each turn looks at one order, and says that its step of the plan is done."""
    for number in range(1, TURNS):
        done = {"finish_step": {"evidence": f"order {number} is fine"}}
        thought = f"Order {number} comes next."
        yield Turn({"look_up": {"order_id": number}}, done, thinking=thought)
    yield Turn("All are fine.", thinking="That was the last one.")


def run(fake: FakeModels, api: str, **options: Any) -> nt.Outcome[nt.agent.RunState]:
    fake.reset(least_cached_tokens=1024)
    fake.will_say(*script(), by="order")
    agent = looking_agent(getattr(fake, api)(), **options)
    outcome = agent.run("t", goal="check the orders", plan=STEPS, store=nt.Ledger(":memory:"))
    assert outcome.state.answer == "All are fine."
    assert fake.rejected == []
    return outcome


def uncached(usage: Usage) -> Usage:
    """The same without a cache."""
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return Usage(prompt, usage.output_tokens)


@both
def test_over_21_turns_a_run_costs_a_third_of_what_it_costs_without_a_cache(
    fake_models: FakeModels, api: str
) -> None:
    outcome = run(fake_models, api)
    cost = PRICES[api].cost_usd(fake_models.usage)
    without = PRICES[api].cost_usd(uncached(fake_models.usage))
    print(f"{api}: ${cost:.4f} with the cache, ${without:.4f} without: {cost / without:.2f}")
    assert outcome.state.spent.usd == pytest.approx(cost)
    assert cost < without / 3


@both
def test_each_prompt_begins_with_the_whole_prompt_before_it(
    fake_models: FakeModels, api: str
) -> None:
    run(fake_models, api)
    asked = [request.body for request in fake_models.requests]
    word = "messages" if api == "anthropic" else "input"
    for before, after in itertools.pairwise(asked):
        told = [without_marks(one) for one in before[word]]
        assert [without_marks(one) for one in after[word]][: len(told)] == told
        assert before["tools"] == after["tools"]


@both
def test_messages_of_the_user_leave_the_beginning_of_the_prompt_as_it_was(
    fake_models: FakeModels, api: str
) -> None:
    fake_models.will_say({"look_up": {"order_id": 1}}, "One.", "Two.", "Three.")
    agent, store = looking_agent(getattr(fake_models, api)()), nt.Ledger(":memory:")
    agent.run("t", goal="check the orders", store=store)
    for words in ("one more thing", "and another"):
        agent.run("t", message=words, store=store)
    word = "messages" if api == "anthropic" else "input"
    asked = [[without_marks(one) for one in seen.body[word]] for seen in fake_models.requests]
    for before, after in itertools.pairwise(asked):
        assert after[: len(before)] == before


def without_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [without_marks(each) for each in value]
    if isinstance(value, dict):
        return {
            name: without_marks(each) for name, each in value.items() if name != "cache_control"
        }
    return value


@both
def test_no_thought_is_left_out_while_the_plan_moves_on(fake_models: FakeModels, api: str) -> None:
    run(fake_models, api)
    last = str(fake_models.requests[-1].body)
    assert last.count("comes next.") == TURNS - 1


def test_a_turn_with_many_parallel_calls_is_found_again(fake_models: FakeModels) -> None:
    calls = [{"look_up": {"order_id": number}} for number in range(25)]
    fake_models.will_say(Turn(*calls), Turn({"look_up": {"order_id": 99}}), "Done.")
    agent = looking_agent(fake_models.anthropic())
    agent.run("t", goal="check " * 2000, store=nt.Ledger(":memory:"))
    _, second, third = (request.usage for request in fake_models.requests)
    assert second.cache_read_tokens > 2000
    assert third.cache_read_tokens > second.cache_read_tokens + second.cache_write_tokens - 200


def test_what_is_compacted_stays_the_same_until_the_window_moves_again(
    fake_models: FakeModels,
) -> None:
    fake_models.will_say(
        *({"remember": {"name": f"n{n}", "where": "x" * 150}} for n in range(80)),
        "Done.",
        by="order",
    )
    agent = looking_agent(fake_models.anthropic(), context_tokens=3_000)
    agent.run("t", goal="note everything", plan=STEPS, store=nt.Ledger(":memory:"))
    openings = [
        request.body["messages"][0]["content"][0]["text"] for request in fake_models.requests
    ]
    assert "not shown any more" in openings[-1]
    assert "n50: " in openings[-1]
    assert len(set(openings)) < len(openings) / 8


def test_the_plan_is_shown_at_the_beginning_and_as_it_stood_when_older_turns_went(
    fake_models: FakeModels,
) -> None:
    run(fake_models, "anthropic", context_tokens=3_000)
    openings = [
        request.body["messages"][0]["content"][0]["text"] for request in fake_models.requests
    ]
    assert "step 1 of 20" in openings[0]
    assert "[>] look at order 1\n" in openings[0]
    assert "not shown any more" in openings[-1]
    assert "[x] look at order 1\n" in openings[-1]


def test_a_plan_that_the_model_makes_is_told_in_its_own_call_and_result(
    fake_models: FakeModels,
) -> None:
    fake_models.will_say(
        {"make_plan": {"steps": ["one", "two"]}}, {"finish_step": {"evidence": "e"}}, "Done."
    )
    agent = looking_agent(fake_models.anthropic())
    agent.run("t", goal="plan", store=nt.Ledger(":memory:"))
    _, second, third = (request.body["messages"] for request in fake_models.requests)
    assert third[:3] != second[:2]
    assert without_marks(third[:3]) == without_marks(second[:3])
    assert "Next: two" in str(third[4])


def test_it_can_be_switched_off(fake_models: FakeModels) -> None:
    fake_models.will_say("Hi")
    hello = nt.providers.ModelRequest(messages=(said("Hello"),), system="Be brief.")
    for api in PRICES:
        getattr(fake_models, api)(cache=False).complete(hello)
    assert "cache" not in str([request.body for request in fake_models.requests])


def test_marks_of_the_user_count_first(fake_models: FakeModels) -> None:
    mark = {"anthropic": {"cache_control": {"type": "ephemeral"}}}
    marked = (Message(said("x").role, tuple(Text(f"part {n}", mark) for n in range(4))),)
    fake_models.will_say("Hi")
    claude = fake_models.anthropic()
    claude.complete(nt.providers.ModelRequest(messages=marked, system="Be brief."))
    top = {"cache_control": {"type": "ephemeral"}}
    claude.complete(nt.providers.ModelRequest(messages=(said("Hello"),), options=top))
    first, second = (request.body for request in fake_models.requests)
    assert str(first).count("cache_control") == 4
    assert str(second).count("cache_control") == 1
    assert fake_models.rejected == []


def test_a_budget_holds_when_the_whole_prompt_is_written_to_the_cache(
    fake_models: FakeModels,
) -> None:
    def long(state: nt.agent.RunState) -> Context:
        return Context("", (said("word " * 4000),))

    fake_models.will_say("Hi")
    dear = fake_models.anthropic(prices={"claude-sonnet-5-5": (1.0, 1.0, 0.1, 10.0)})
    agent = looking_agent(dear, context=long, most_output_tokens=16, budget=nt.Budget(usd=0.02))
    outcome = agent.run("t", goal="x", store=nt.Ledger(":memory:"))
    # As plain input it would fit and cost $0.005; written to the cache it costs $0.05.
    assert outcome.status == "waiting"
    assert fake_models.requests == []
