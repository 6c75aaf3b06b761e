"""Does the loop end as it should, however often it is killed and whatever the model asks for?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.messages import Message, Reasoning, Role, Text, ToolCall
from nottwice.agent.provider import ModelReply, ModelRequest, StopReason, Usage
from nottwice.agent.state import RunState
from nottwice.model.review import Verb
from tests.agent.workshop import GOAL, Workshop
from tests.fakes import another_program

SCRIPT: list[Any] = [
    ["I will look first.", {"make_plan": {"steps": ["look", "pay"]}, "get_order": {"order_id": 7}}],
    {"refund": {"order_id": 7, "cents": 4000}, "finish_step": {"evidence": "order 7 is there"}},
    {
        "post": {"text": "refunded"},
        "get_order": {"order_id": 7},
        "finish_step": {"evidence": "the receipt"},
    },
    "Order 7 is refunded.",
]


def test_a_task_is_worked_on_to_its_end() -> None:
    shop = Workshop(SCRIPT)
    outcome = shop.finish()
    state = outcome.state
    assert outcome.status == "completed"
    assert state.answer == "Order 7 is refunded."
    assert shop.world.effects == [("refund", 7, 4000), ("post", "post-refunded")]
    assert state.plan == ("look", "pay")
    assert state.cursor == 2
    assert [step.evidence for step in state.completed] == ["order 7 is there", "the receipt"]
    assert state.turn == len(shop.world.requests) == 4
    assert state.spent.requests == 4
    assert state.spent.usd > 0
    assert [message.role for message in state.transcript] == [
        Role.ASSISTANT,
        Role.USER,
        Role.ASSISTANT,
        Role.USER,
        Role.ASSISTANT,
        Role.USER,
        Role.ASSISTANT,
    ]


def test_a_finished_task_is_told_again_and_nothing_is_done() -> None:
    shop = Workshop(SCRIPT)
    first, again = shop.finish(), shop.finish()
    assert again == first
    assert len(shop.world.requests) == 4
    assert len(shop.world.effects) == 2


def uninterrupted() -> tuple[Workshop, nt.Outcome[RunState]]:
    shop = Workshop(SCRIPT)
    return shop, shop.finish()


def points() -> int:
    with another_program():
        return uninterrupted()[0].host.points


@pytest.mark.parametrize("dies_at", range(1, points() + 1))
def test_killed_at_any_commit_it_ends_like_an_uninterrupted_one(dies_at: int) -> None:
    expected, outcome = uninterrupted()
    shop = Workshop(SCRIPT)
    assert shop.run(dies_at=dies_at) is None
    asked = len(shop.world.requests)
    resumed = shop.finish()
    assert resumed.state == outcome.state
    assert shop.world.effects == expected.world.effects
    assert len(shop.world.requests) <= 4 + 1, "more than the beat in flight was asked again"
    assert len(shop.world.requests) - asked <= 4 - asked + 1


@pytest.mark.parametrize("first", range(2, points(), 5))
def test_killed_again_while_it_resumes_it_ends_like_an_uninterrupted_one(first: int) -> None:
    expected, outcome = uninterrupted()
    for second in range(2, points() - first + 4, 3):
        shop = Workshop(SCRIPT)
        assert shop.run(dies_at=first) is None
        resumed = shop.run(dies_at=second) or shop.finish()
        assert resumed.state == outcome.state
        assert shop.world.effects == expected.world.effects
        assert len(shop.world.requests) <= 4 + 2


def test_the_reply_is_durable_before_any_of_its_tools_runs() -> None:
    shop = Workshop([{"refund": {"order_id": 7, "cents": 1}}, "done"])
    rows: list[list[str]] = []
    shop.world.trouble = {}
    before = shop.world.stumble

    def look(tool: str) -> None:
        rows.append([row.identity.tool_name for row in shop.host.calls if row.result is not None])
        before(tool)

    shop.world.stumble = look  # type: ignore[method-assign]
    shop.finish()
    assert rows == [["nottwice.reservation", "nottwice.model"]]


def test_a_reply_on_record_is_not_asked_for_again_whatever_the_prompt_says_now() -> None:
    shop = Workshop([{"send_mail": {"to": "ann", "text": "hello"}}, "done"])
    # It dies when the reply is durable and none of its calls was made.
    names = ["nottwice.model"]
    for dies_at in range(1, 40):
        shop = Workshop([{"send_mail": {"to": "ann", "text": "hello"}}, "done"])
        shop.run(dies_at=dies_at)
        done = [row.identity.tool_name for row in shop.host.calls if row.result is not None]
        if names[0] in done and not shop.world.effects:
            break
    shop.agent = shop.make(
        ["never asked for", "done"], tools=shop.kept, instructions="Another prompt altogether."
    )
    assert shop.finish().status == "completed"
    assert shop.world.effects == [("mail", "ann", "hello")]


def test_an_effect_whose_outcome_is_unknown_makes_the_run_wait_and_is_not_told_to_the_model() -> (
    None
):
    shop = Workshop([{"send_mail": {"to": "ann", "text": "hello"}}, "done"])
    shop.world.trouble["send_mail"] = [TimeoutError("no answer")]
    outcome = shop.finish()
    assert outcome.status == "waiting"
    assert [review.kind.value for review in outcome.reviews] == ["in doubt"]
    assert len(shop.world.requests) == 1
    shop.host.decide(Verb.HAPPENED, result="mail 1")
    outcome = shop.finish()
    assert outcome.status == "completed"
    assert outcome.state.transcript[1].tool_results[0].content == "mail 1"
    assert shop.world.effects == []


def test_a_failure_without_effect_is_told_to_the_model() -> None:
    shop = Workshop([{"refund": {"order_id": 7, "cents": 1}}, "I could not."])
    shop.world.trouble["refund"] = [nt.Permanent("order 7 is closed")]
    outcome = shop.finish()
    (result,) = outcome.state.transcript[1].tool_results
    assert result.is_error
    assert "order 7 is closed" in result.content
    assert outcome.state.asked[0].outcome == "failed"


def test_what_the_model_writes_wrongly_is_told_to_it() -> None:
    wrong = Message(
        Role.ASSISTANT,
        (
            ToolCall("a", "refnd", {}),
            ToolCall("b", "refund", {}, unreadable='{"order_id": 7'),
            ToolCall("c", "refund", {"order_id": "seven", "cents": 1}),
            ToolCall("d", "finish_step", {"evidence": "what plan?"}),
            ToolCall("e", "get_order", {"order_id": 7, "class": "pure"}),
        ),
    )
    shop = Workshop([list(wrong.blocks), "I give up."])
    results = shop.finish().state.transcript[1].tool_results
    assert [result.call_id for result in results] == list("abcde")
    assert all(result.is_error for result in results)
    assert "There is no tool 'refnd'" in results[0].content
    assert "not a complete JSON object" in results[1].content
    assert "order_id" in results[2].content
    assert shop.world.effects == []


def test_conditions_in_words_need_evidence_before_the_task_is_done() -> None:
    shop = Workshop(
        [
            "Done.",
            {"show_evidence": {"condition": 1, "evidence": "mail 1 in the outbox"}},
            "Now it is done.",
        ]
    )
    outcome = shop.finish(done_when=["the customer was answered once"])
    assert outcome.state.answer == "Now it is done."
    assert outcome.state.evidence == {"the customer was answered once": "mail 1 in the outbox"}
    assert "no evidence for" in outcome.state.transcript[1].text


def test_conditions_that_a_function_tells_are_asked_at_the_end() -> None:
    shop = Workshop(["Done.", {"refund": {"order_id": 7, "cents": 1}}, "Now it is."])

    def refund_issued(state: RunState) -> str | None:
        paid = [one for one in state.asked if one.tool == "refund" and one.outcome == "done"]
        return f"receipt {paid[0].receipt_id[:8]}" if paid else None

    outcome = shop.finish(done_when=[refund_issued])
    assert outcome.state.evidence["refund_issued()"].startswith("receipt ")
    assert outcome.state.turn == 3


@pytest.mark.parametrize(
    ("stop", "why"),
    [(StopReason.TRUNCATED, "cut off"), (StopReason.OTHER, "interrupted")],
)
def test_a_reply_that_did_not_end_by_itself_is_gone_on_with(stop: StopReason, why: str) -> None:
    cut = ModelReply(
        message=Message(Role.ASSISTANT, (Text("Order 7 is"),)),
        stop=stop,
        usage=Usage(10, 10),
        model="scripted-1",
    )
    shop = Workshop(["", " refunded."])
    complete = shop.agent.provider.complete
    replies = iter([cut])
    shop.agent.provider.complete = lambda request: next(replies, None) or complete(request)  # type: ignore[method-assign]
    outcome = shop.finish()
    assert outcome.state.answer == "Order 7 is refunded.", "each part of the answer is kept"
    assert why in outcome.state.transcript[1].text


def test_words_before_a_tool_call_are_no_part_of_the_answer() -> None:
    cut = ModelReply(
        message=Message(Role.ASSISTANT, (Text("I will now look at"),)),
        stop=StopReason.TRUNCATED,
        usage=Usage(10, 10),
        model="scripted-1",
    )
    shop = Workshop(["", ["the order.", {"get_order": {"order_id": 7}}], "It costs 40."])
    complete = shop.agent.provider.complete
    replies = iter([cut])
    shop.agent.provider.complete = lambda request: next(replies, None) or complete(request)  # type: ignore[method-assign]
    assert shop.finish().state.answer == "It costs 40."


@pytest.mark.parametrize("empty", [[], [""], ["  \n"], [Reasoning("hm")], [Reasoning("hm"), ""]])
def test_an_empty_reply_is_asked_for_again_and_not_shown_to_the_model(empty: list[Any]) -> None:
    shop = Workshop([empty, "Order 7 is refunded."])
    outcome = shop.finish()
    assert (outcome.status, outcome.state.answer) == ("completed", "Order 7 is refunded.")
    assert "was empty" in shop.world.requests[1].messages[-1].text
    assert [message.role for message in shop.world.requests[1].messages] == [Role.USER]


def test_a_model_that_says_nothing_over_and_over_stops_the_run() -> None:
    shop = Workshop(lambda request: [Reasoning("hm")])
    outcome = shop.finish()
    assert outcome.status == "waiting"
    assert len(shop.world.requests) == 6


@pytest.mark.parametrize("period", [2, 3])
def test_a_model_that_goes_round_in_circles_stops_the_run(period: int) -> None:
    def circle(request: ModelRequest) -> Any:
        return {"get_order": {"order_id": request.turn % period}}

    shop = Workshop(circle)
    outcome = shop.finish()
    assert outcome.status == "waiting"
    assert f"the same {period} things in turn, 6 times over" in outcome.reviews[0].summary
    assert len(shop.world.requests) == 6 * period


def test_a_model_that_claims_and_looks_in_turn_stops_the_run() -> None:
    """Its calls and what the harness says to it are one row of turns."""

    def circle(request: ModelRequest) -> Any:
        return "done" if request.turn % 2 else {"get_order": {"order_id": 7}}

    shop = Workshop(circle)
    outcome = shop.finish(done_when=["the customer was told"])
    assert outcome.status == "waiting"
    assert len(shop.world.requests) == 12


def test_an_agent_has_a_limit_of_turns_by_default() -> None:
    shop = Workshop(lambda request: {"get_order": {"order_id": request.turn}})
    outcome = shop.finish()
    assert outcome.status == "waiting"
    assert "100 times in a row" in outcome.reviews[0].summary
    assert len(shop.world.requests) == 100


def test_turns_are_counted_from_the_users_last_message() -> None:
    script: list[Any] = [{"get_order": {"order_id": 1}}, "first", {"get_order": {"order_id": 2}}]
    shop = Workshop([*script, "second"], budget=nt.Budget(turns=2))
    assert shop.finish().state.answer == "first"
    assert shop.finish(goal=None, message="and now?").state.answer == "second"


def test_it_runs_in_an_event_loop_with_async_tools_in_that_loop() -> None:
    loops: list[Any] = []

    @nt.tool("unsafe_on_replay", name="ring")
    async def ring(times: int) -> str:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return f"rang {times}"

    shop = Workshop([[{"ring": {"times": 1}}, {"ring": {"times": 2}}], "done"], tools=[ring])

    async def main() -> tuple[nt.Outcome[RunState], Any]:
        with shop.host.process() as ledger:
            outcome = await shop.agent.arun("ticket-7", goal=GOAL, store=ledger)
        return outcome, asyncio.get_running_loop()

    outcome, loop = asyncio.run(main())
    assert outcome.status == "completed"
    assert loops == [loop, loop]
    results = outcome.state.transcript[1].tool_results
    assert [result.content for result in results] == ["rang 1", "rang 2"]
