"""Which outcomes of a call is the model told, which stop the run, and who makes the call?"""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.calls.acting import MOST_RESULT_CHARACTERS
from tests.agent.workshop import Workshop


def test_siblings_of_a_call_in_doubt_keep_their_results_where_no_order_is_meant() -> None:
    others = threading.Barrier(3, timeout=60)
    done: list[int] = []

    @nt.tool("unsafe_on_replay", name="ring", parallel=True)
    def ring(number: int) -> str:
        others.wait()
        if number == 0:
            deadline = time.monotonic() + 60
            while len(done) < 2 and time.monotonic() < deadline:
                time.sleep(0.001)
            raise TimeoutError("no answer")
        done.append(number)
        return "rang"

    shop = Workshop([[{"ring": {"number": number}} for number in range(3)], "done"], tools=[ring])
    assert shop.finish().status == "waiting"
    assert sorted(done) == [1, 2]
    kept = [row.identity.tool_name for row in shop.host.calls if row.result is not None]
    assert kept.count("ring") == 2


def test_a_result_that_is_too_long_is_cut_for_the_model_and_whole_in_the_ledger() -> None:
    @nt.tool("unsafe_on_replay", name="dump")
    def dump() -> str:
        return "x" * (MOST_RESULT_CHARACTERS + 1)

    shop = Workshop([{"dump": {}}, "done"], tools=[dump])
    state = shop.finish().state
    (result,) = state.transcript[1].tool_results
    assert len(result.content) < MOST_RESULT_CHARACTERS + 100
    assert "cut: it has 50,001 characters" in result.content
    with shop.host.process() as ledger:
        (effect,) = shop.agent.effects("ticket-7", store=ledger)
    assert len(effect.result) == MOST_RESULT_CHARACTERS + 1


def test_an_error_of_the_program_stops_the_run_and_is_not_told_to_the_model() -> None:
    @nt.tool("pure", name="broken")
    def broken() -> str:
        raise nt.errors.UsageError("the program is wrong")

    shop = Workshop([{"broken": {}}, "done"], tools=[broken])
    with pytest.raises(nt.errors.UsageError, match="the program is wrong"):
        shop.finish()
    assert len(shop.world.requests) == 1


def test_a_tool_that_calls_another_one_does_so_in_its_own_branch() -> None:
    sent: list[str] = []

    @nt.tool("unsafe_on_replay", name="ring")
    def ring(whom: str) -> str:
        sent.append(whom)
        return "rang"

    @nt.tool("pure", name="tell")
    def tell(who: str) -> str:
        return ring("everybody") + who

    reply = [{"tell": {"who": "ann"}}, {"tell": {"who": "bob"}}]
    shop = Workshop([reply, "done"], tools=[tell])
    shop.kept.append(ring)
    shop.finish()
    assert sent == ["everybody", "everybody"]


def worker(shop: Workshop, script: Any, name: str = "researcher") -> nt.Agent:
    return shop.make(script, name=name)


def test_an_agent_hands_a_task_to_another_and_gets_what_came_of_it() -> None:
    shop = Workshop(["done"])
    helper = worker(shop, [{"send_mail": {"to": "bob", "text": "?"}}, "Bob says yes."])
    hand_over = {"researcher": {"goal": "ask Bob"}}
    shop.agent = shop.make([hand_over, hand_over, "He does."], tools=[helper])
    outcome = shop.finish()
    first, again = (message.tool_results[0] for message in list(outcome.state.transcript)[1:4:2])
    assert first.content == "Bob says yes."
    assert "turn 1 already" in again.content
    assert shop.world.effects == [("mail", "bob", "?")]
    with shop.host.process() as ledger:
        children = ledger.store.children("ticket-7")
    assert [child.status.value for child in children] == ["completed"]


def test_workers_are_neither_started_twice_nor_lost_wherever_they_are_killed() -> None:
    tasks = [{"researcher": {"goal": f"refund {number}"}} for number in (1, 2)]

    def script(request: Any) -> Any:
        number = int(request.messages[0].text.split()[3])
        done = {"refund": {"order_id": number, "cents": number}}
        return done if request.turn == 1 else f"refunded {number}"

    def shop_with_workers() -> Workshop:
        shop = Workshop(["done"])
        helper = shop.make(script, name="researcher")
        tools = shop.kept
        shop.agent = shop.make([tasks, "All are refunded."], tools=[helper])
        shop.kept += tools
        return shop

    expected = shop_with_workers()
    outcome = expected.finish()
    assert outcome.status == "completed"
    assert sorted(expected.world.effects) == [("refund", 1, 1), ("refund", 2, 2)]
    for dies_at in range(2, expected.host.points + 1, 3):
        shop = shop_with_workers()
        shop.run(dies_at=dies_at)
        assert shop.finish().state == outcome.state
        assert sorted(shop.world.effects) == sorted(expected.world.effects)
        with shop.host.process() as ledger:
            assert len(ledger.store.children("ticket-7")) == 2


def test_a_worker_that_waits_makes_its_coordinator_wait() -> None:
    shop = Workshop(["done"])
    helper = worker(shop, [{"send_mail": {"to": "bob", "text": "?"}}, "Bob says yes."])
    tools = shop.kept
    shop.agent = shop.make([{"researcher": {"goal": "ask Bob"}}, "He does."], tools=[helper])
    shop.kept += tools
    shop.world.trouble["send_mail"] = [TimeoutError("no answer")]
    outcome = shop.finish()
    assert outcome.status == "waiting"
    assert [review.kind.value for review in outcome.reviews] == ["in doubt"]
    assert len(shop.world.requests) == 2


def test_a_worker_without_a_goal_is_not_started() -> None:
    shop = Workshop(["done"])
    helper = worker(shop, ["never"])
    shop.agent = shop.make([{"researcher": {"task": "?"}}, "all right"], tools=[helper])
    (result,) = shop.finish().state.transcript[1].tool_results
    assert result.is_error
    assert "needs a goal" in result.content
