"""Do the effects of one reply happen in the order in which the model asked for them?"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.calls.order import Lane, stages_of
from nottwice.agent.messages import ToolCall, ToolResult
from nottwice.agent.state import RunState
from nottwice.model.review import Verb
from tests.agent.workshop import GOAL, Workshop

READ, WORKER, EFFECT, ANY_TIME = Lane.READ, Lane.WORKER, Lane.EFFECT, Lane.ANY_TIME


@pytest.mark.parametrize(
    ("lanes", "stages"),
    [
        ([], []),
        ([READ, READ], [[0, 1]]),
        ([EFFECT, EFFECT], [[0], [1]]),
        ([READ, EFFECT, READ, READ, EFFECT], [[0], [1], [2, 3], [4]]),
        ([WORKER, WORKER, EFFECT, WORKER], [[0, 1], [2], [3]]),
        ([READ, WORKER, READ], [[0], [1], [2]]),
        ([EFFECT, ANY_TIME, EFFECT, ANY_TIME], [[0, 1, 3], [2]]),
        ([ANY_TIME], [[0]]),
    ],
)
def test_only_neighbours_that_need_no_order_run_together(
    lanes: list[Lane], stages: list[list[int]]
) -> None:
    assert stages_of(lanes) == stages


class Repository:
    """Effects that take long when they come first, so that an order that is not kept shows."""

    def __init__(self, *, is_async: bool = False, **declared: Any) -> None:
        self.done: list[str] = []
        self.trouble: dict[str, BaseException] = {}
        self.began = threading.Event()
        make = self._async_tool if is_async else self._tool
        self.tools = [make(name, **declared) for name in ("write", "commit", "push")]

        @nt.tool("pure", name="look")
        def look(what: str) -> str:
            return f"{what}: {', '.join(self.done) or 'nothing'}"

        self.tools.append(look)

    def do(self, name: str, what: str) -> str:
        if name in self.trouble:
            raise self.trouble.pop(name)
        self.done.append(f"{name} {what}")
        return f"{name} done"

    def wait(self, name: str) -> None:
        # The first one gives the others time to overtake it; in order, no other is there.
        if name == "write":
            self.began.wait(0.2)
        else:
            self.began.set()

    def _tool(self, name: str, **declared: Any) -> Any:
        @nt.tool("unsafe_on_replay", name=name, **declared)
        def effect(what: str) -> str:
            self.wait(name)
            return self.do(name, what)

        return effect

    def _async_tool(self, name: str, **declared: Any) -> Any:
        @nt.tool("unsafe_on_replay", name=name, **declared)
        async def effect(what: str) -> str:
            await asyncio.to_thread(self.wait, name)
            return self.do(name, what)

        return effect


IN_ORDER = [{"write": {"what": "a"}}, {"commit": {"what": "a"}}, {"push": {"what": "a"}}]
DONE = ["write a", "commit a", "push a"]


def run(shop: Workshop, *, is_async: bool) -> nt.Outcome[RunState]:
    if not is_async:
        return shop.finish()

    async def main() -> nt.Outcome[RunState]:
        with shop.host.process() as ledger:
            return await shop.agent.arun("ticket-7", goal=GOAL, store=ledger)

    return asyncio.run(main())


def results(outcome: nt.Outcome[RunState]) -> list[ToolResult]:
    return [one for message in outcome.state.transcript for one in message.tool_results]


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_effects_of_one_reply_happen_in_the_order_of_the_reply(is_async: bool) -> None:
    repository = Repository(is_async=is_async)
    shop = Workshop([IN_ORDER, "done"], tools=repository.tools)
    assert run(shop, is_async=is_async).status == "completed"
    assert repository.done == DONE


def test_a_read_sees_what_was_asked_for_before_it_and_nothing_after_it(is_async: bool) -> None:
    repository = Repository(is_async=is_async)
    look = {"look": {"what": "log"}}
    shop = Workshop([[look, IN_ORDER[0], look, IN_ORDER[1]], "done"], tools=repository.tools)
    told = [one.content for one in results(run(shop, is_async=is_async))]
    assert told == ["log: nothing", "write done", "log: write a", "commit done"]


def test_reads_of_one_reply_run_at_the_same_time(is_async: bool) -> None:
    meeting = threading.Barrier(3, timeout=60)

    @nt.tool("pure", name="meet")
    def meet(who: str) -> str:
        meeting.wait()
        return who

    calls = [{"meet": {"who": who}} for who in ("ann", "bob", "cem")]
    shop = Workshop([calls, "all were there"], tools=[meet])
    assert [one.content for one in results(run(shop, is_async=is_async))] == ["ann", "bob", "cem"]


def test_effects_that_say_parallel_run_at_the_same_time(is_async: bool) -> None:
    meeting = threading.Barrier(3, timeout=60)

    @nt.tool("unsafe_on_replay", name="meet", parallel=True)
    def meet(who: str) -> str:
        meeting.wait()
        return who

    calls = [{"meet": {"who": who}} for who in ("ann", "bob", "cem")]
    shop = Workshop([calls, "all were there"], tools=[meet])
    assert [one.content for one in results(run(shop, is_async=is_async))] == ["ann", "bob", "cem"]


def test_after_an_effect_in_doubt_the_later_ones_are_not_begun_until_it_is_decided(
    is_async: bool,
) -> None:
    repository = Repository(is_async=is_async)
    repository.trouble["commit"] = TimeoutError("no answer")
    shop = Workshop([IN_ORDER, "done"], tools=repository.tools)
    outcome = run(shop, is_async=is_async)
    assert outcome.status == "waiting"
    assert repository.done == ["write a"]
    assert [row.identity.tool_name for row in shop.host.calls if row.replay_class.effectful] == [
        "write",
        "commit",
    ]
    (review,) = outcome.reviews
    with shop.host.process() as ledger:
        evidence = ledger.store.evidence("ticket-7", review.call_id)
    assert any("not begun: push(what='a')" in item.text for item in evidence)
    shop.host.decide(Verb.DID_NOT_HAPPEN)
    assert run(shop, is_async=is_async).status == "completed"
    assert repository.done == DONE


def test_after_an_effect_that_waits_for_approval_the_later_ones_are_not_begun() -> None:
    repository = Repository()
    done = repository.done

    @nt.tool("unsafe_on_replay", name="pay", approve=True)
    def pay(cents: int) -> str:
        done.append(f"pay {cents}")
        return "paid"

    @nt.tool("unsafe_on_replay", name="ring", parallel=True)
    def ring(times: int) -> str:
        done.append(f"ring {times}")
        return "rang"

    reply = [{"pay": {"cents": 5}}, {"write": {"what": "a"}}, {"ring": {"times": 1}}]
    shop = Workshop([reply, "done"], tools=[*repository.tools, pay, ring])
    outcome = shop.finish()
    assert (outcome.status, done) == ("waiting", ["ring 1"])
    shop.host.decide(Verb.APPROVE)
    assert shop.finish().status == "completed"
    assert done == ["ring 1", "pay 5", "write a"]


def test_the_mail_about_a_refund_that_was_rejected_is_not_sent() -> None:
    sent: list[str] = []

    @nt.tool("unsafe_on_replay", name="refund", approve=True)
    def refund(cents: int) -> str:
        sent.append("refund")
        return "refunded"

    @nt.tool("unsafe_on_replay", name="mail")
    def mail(text: str) -> str:
        sent.append(text)
        return "sent"

    mailed = {"mail": {"text": "You are refunded."}}
    shop = Workshop([[{"refund": {"cents": 5}}, mailed], mailed, "done"], tools=[refund, mail])
    assert shop.finish().status == "waiting"
    shop.host.decide(Verb.REJECT, why="not this one")
    outcome = shop.finish()
    first, second, asked_again = results(outcome)
    assert "not this one" in first.content
    assert second.is_error
    assert second.receipt_id is None
    assert second.content.startswith("Not begun: you asked for this after call 1")
    assert asked_again.content == "sent"
    assert sent == ["You are refunded."]
    assert [one.outcome for one in outcome.state.asked] == ["refused", "done"]


@pytest.mark.parametrize(
    "before",
    [
        ToolCall("a", "wrte", {"what": "a"}),
        ToolCall("a", "write", {}, unreadable='{"what": '),
        ToolCall("a", "write", {"where": "a"}),
    ],
    ids=["no such tool", "no JSON", "no such argument"],
)
def test_what_follows_a_call_that_was_not_understood_is_not_begun(before: ToolCall) -> None:
    repository = Repository()
    reply = [before, {"commit": {"what": "a"}}, {"look": {"what": "log"}}]
    shop = Workshop([reply, "done"], tools=repository.tools)
    first, second, read = results(shop.finish())
    assert (first.is_error, second.is_error, read.is_error) == (True, True, False)
    assert second.content.startswith("Not begun")
    assert read.content == "log: nothing"
    assert repository.done == []


def test_what_was_done_before_is_answered_by_its_receipt_and_not_called_not_begun() -> None:
    repository = Repository()
    repository.trouble["push"] = nt.Permanent("no such remote")
    commit, push = IN_ORDER[1:]
    reply = [{"write": {"what": "b"}}, push, commit, {"write": {"what": "b"}}]
    shop = Workshop([commit, reply, "done"], tools=repository.tools)
    _, written, failed, receipt, twin = results(shop.finish())
    assert (written.content, failed.is_error) == ("write done", True)
    assert receipt.content.startswith("commit done")
    assert "turn 1 already" in receipt.content
    assert twin.content.startswith("write done")
    assert repository.done == ["commit a", "write b"]


def test_a_failed_read_or_own_tool_holds_nothing_back() -> None:
    repository = Repository()
    reply = [{"look": {}}, {"finish_step": {"evidence": "?"}}, {"commit": {"what": "a"}}]
    shop = Workshop([reply, "done"], tools=repository.tools)
    assert [one.is_error for one in results(shop.finish())] == [True, True, False]
    assert repository.done == ["commit a"]


def test_killed_at_any_commit_the_effects_of_one_reply_keep_their_order() -> None:
    def shop_of(repository: Repository) -> Workshop:
        return Workshop([IN_ORDER, "done"], tools=repository.tools)

    def verified() -> Repository:
        def look(call: nt.Call) -> nt.Verification:
            happened = f"{call.tool} {call.args['what']}" in repository.done
            return nt.happened(f"{call.tool} done") if happened else nt.did_not_happen()

        repository = Repository(verify=look, settles="1ms")
        # Nothing overtakes what is done one by one; here only the places of the kills matter.
        repository.began.set()
        return repository

    expected = shop_of(verified())
    outcome = expected.finish()
    for dies_at in range(1, expected.host.points + 1):
        nt.testing.forget_tools()
        repository = verified()
        shop = shop_of(repository)
        assert shop.run(dies_at=dies_at) is None
        assert repository.done == DONE[: len(repository.done)]
        assert shop.finish().state == outcome.state
        assert repository.done == DONE


def test_workers_run_together_and_other_effects_before_or_after_them() -> None:
    meeting = threading.Barrier(2, timeout=60)
    done: list[str] = []

    @nt.tool("unsafe_on_replay", name="note")
    def note(text: str) -> str:
        done.append(text)
        return "noted"

    def script(request: Any) -> Any:
        goal = request.messages[0].text.splitlines()[0].split()[-1]
        if request.turn == 1:
            meeting.wait()
            return {"note": {"text": goal}}
        return f"{goal} is done"

    shop = Workshop(["never"], tools=[note])
    helper = shop.make(script, name="helper", tools=[note])
    tasks = [{"helper": {"goal": goal}} for goal in ("b1", "b2")]
    reply = [{"note": {"text": "a"}}, *tasks, {"note": {"text": "c"}}]
    shop.agent = shop.make([reply, "done"], tools=[helper, note])
    assert shop.finish().status == "completed"
    assert (done[0], sorted(done[1:3]), done[3]) == ("a", ["b1", "b2"], "c")


def test_after_a_worker_that_waits_the_later_effects_are_not_begun() -> None:
    shop = Workshop(["never"])
    helper = shop.make([{"send_mail": {"to": "bob", "text": "?"}}, "yes"], name="helper")
    tools = shop.kept
    reply = [{"helper": {"goal": "ask Bob"}}, {"refund": {"order_id": 7, "cents": 1}}]
    shop.agent = shop.make([reply, "done"], tools=[helper, *tools])
    shop.world.trouble["send_mail"] = [TimeoutError("no answer")]
    outcome = shop.finish()
    assert (outcome.status, shop.world.effects) == ("waiting", [])
    shop.host.decide(Verb.HAPPENED, result="mail 1")
    assert shop.finish().status == "completed"
    assert shop.world.effects == [("refund", 7, 1)]


@pytest.mark.parametrize(
    ("replay_class", "given", "why"),
    [
        ("pure", True, "reads of one reply run in parallel anyway"),
        ("unsafe_on_replay", "yes", "must be True or False"),
        ("unsafe_on_replay", 1, "must be True or False"),
    ],
)
def test_a_tool_that_says_parallel_wrongly_is_refused(
    replay_class: Any, given: Any, why: str
) -> None:
    with pytest.raises(nt.errors.InvalidTool, match=why):
        nt.tool(replay_class, name="order_wrong", parallel=given)(lambda: None)
