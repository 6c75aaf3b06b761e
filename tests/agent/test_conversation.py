"""Can a user come back tomorrow, in another process, and continue?"""

from __future__ import annotations

import asyncio
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.conversation import reopen
from nottwice.agent.messages import Role
from nottwice.agent.provider import Price
from nottwice.agent.providers.scripted import scripted
from nottwice.engine.drivers import drive
from nottwice.engine.opening import Opening
from nottwice.testing import forget_tools
from tests.agent.workshop import GOAL, CountingProvider, Workshop
from tests.fakes import another_program
from tests.graphs.cancelling import CancellingDriver, drive_until_cancelled

SCRIPT: list[Any] = [
    {"send_mail": {"to": "ann", "text": "hello"}},
    "I wrote to Ann.",
    {"send_mail": {"to": "ann", "text": "hello"}},
    "I had written to Ann already.",
    "You are welcome.",
]


def test_a_finished_conversation_continues_with_a_new_message() -> None:
    shop = Workshop(SCRIPT)
    assert shop.finish().state.answer == "I wrote to Ann."
    outcome = shop.finish(goal=None, message="And again?")
    assert outcome.status == "completed"
    assert outcome.state.answer == "I had written to Ann already."
    assert shop.world.effects == [("mail", "ann", "hello")]
    said = [message.text for message in outcome.state.transcript if message.role is Role.USER]
    assert "And again?" in said
    assert outcome.state.spent.requests == 4


def test_a_round_is_begun_or_not_wherever_its_caller_is_cancelled() -> None:
    """In no case does a process that goes on without the run keep it from others (P381)."""

    async def work(ledger: nt.Ledger) -> Any:
        return await shop.agent.arun("ticket-7", message="And again?", store=ledger)

    for number in itertools.count(1):
        shop = Workshop(SCRIPT)
        shop.finish()
        driver = CancellingDriver(after=(number,))
        with shop.host.process() as ledger:
            drive_until_cancelled(ledger, driver, work, run_id="ticket-7")
        is_begun = len(shop.world.requests) > 2
        outcome = shop.finish(goal=None, message="And again?")
        assert outcome.state.answer == "I had written to Ann already."
        assert shop.world.effects == [("mail", "ann", "hello")]
        if is_begun:
            assert number > 10
            return


def test_the_same_line_again_is_the_same_message() -> None:
    shop = Workshop(SCRIPT)
    shop.finish()
    first = shop.finish(goal=None, message="And again?")
    again = shop.finish(goal=None, message="And again?")
    assert again == first
    assert shop.finish(goal=None, message="Thanks.").state.answer == "You are welcome."


def test_words_that_are_said_again_after_other_words_are_heard_again() -> None:
    """In a run that waits, and in one that has ended."""
    shop = Workshop([{"pay": {"n": 1}}, *["Well."] * 4], tools=[paying()])
    waiting = shop.finish()
    said = ["go ahead", "go ahead", "stop", "go ahead", "go ahead"]
    for words in said:
        assert shop.finish(goal=None, message=words).status == "waiting"
    with shop.host.process() as ledger:
        nt.Reviews(ledger).decide(waiting.reviews[0].review_id, "approve", by="me", why="fine")
    heard = shop.finish(goal=None).state.heard
    assert [one.text for one in heard] == ["go ahead", "stop", "go ahead"]
    for words in said:
        outcome = shop.finish(goal=None, message=words)
    assert [one.text for one in outcome.state.heard[3:]] == ["stop", "go ahead"]


def paying() -> Any:
    @nt.tool("unsafe_on_replay", approve=True)
    def pay(n: int) -> str:
        """Pay."""
        return "paid"

    return pay


def test_the_same_words_are_said_twice_with_another_id() -> None:
    shop = Workshop(SCRIPT)
    shop.finish()
    shop.finish(goal=None, message="And again?")
    outcome = shop.finish(goal=None, message="And again?", message_id="once more")
    assert outcome.state.answer == "You are welcome."


def points() -> int:
    with another_program():
        shop = Workshop(SCRIPT)
        shop.finish()
        shop.finish(goal=None, message="And again?")
        return shop.host.points


@pytest.mark.parametrize("dies_at", range(1, points() + 1))
def test_a_new_round_that_is_killed_anywhere_ends_like_an_uninterrupted_one(
    dies_at: int,
) -> None:
    expected = Workshop(SCRIPT)
    expected.finish()
    outcome = expected.finish(goal=None, message="And again?")
    shop = Workshop(SCRIPT)
    shop.finish()
    assert shop.run(dies_at=dies_at, goal=None, message="And again?") is None
    assert shop.finish(goal=None, message="And again?").state == outcome.state
    assert shop.world.effects == expected.world.effects


def test_a_message_can_be_the_first_thing_that_is_said() -> None:
    shop = Workshop(["Hello.", "Good bye."])
    assert shop.finish(goal=None, message="Hi!").state.answer == "Hello."
    assert shop.finish(goal=None, message="Bye!").state.answer == "Good bye."


def test_a_message_to_a_run_that_waits_is_heard_when_it_continues() -> None:
    script: list[Any] = [{"get_order": {"order_id": 1}}, {"get_order": {"order_id": 2}}, "done"]
    shop = Workshop(script, budget=nt.Budget(turns=1))
    assert shop.finish().status == "waiting"
    assert shop.finish(goal=None, message="Hurry up!").status == "waiting"
    shop.agent = shop.make(script, tools=shop.kept)
    outcome = shop.finish()
    assert outcome.status == "completed"
    assert [one.text for one in outcome.state.transcript].count("Hurry up!") == 1


def test_any_process_can_speak_to_a_run_by_sending_it_an_event() -> None:
    shop = Workshop(SCRIPT)
    shop.finish()
    with shop.host.process() as ledger:
        ledger.send("ticket-7", "message", "And again?", by="ann")
    assert shop.finish().state.answer == "I had written to Ann already."


def test_a_message_to_a_run_that_was_aborted_is_refused_and_not_kept() -> None:
    shop = Workshop([{"get_order": {"order_id": 1}}, "done"], budget=nt.Budget(turns=1))
    (review,) = shop.finish().reviews
    with shop.host.process() as ledger, nt.Reviews(ledger) as inbox:
        inbox.decide(review.review_id, "abort", by="ann", why="enough")
    assert shop.finish().status == "aborted"
    for _ in range(2):
        with pytest.raises(nt.errors.RunAborted, match="Your message was not sent"):
            shop.finish(goal=None, message="Are you there?")
        with (
            shop.host.process() as ledger,
            pytest.raises(nt.errors.RunAborted, match="Nothing was sent"),
        ):
            ledger.send("ticket-7", "message", "Are you there?")
    with shop.host.process() as ledger:
        assert list(ledger.store.events("ticket-7")) == []
    assert shop.finish().status == "aborted", "how it ended is told all the same"


def test_a_message_that_says_nothing_is_refused_before_anything_happens() -> None:
    shop = Workshop(SCRIPT)
    with pytest.raises(nt.errors.UsageError, match="says nothing"):
        shop.finish(goal=None, message="  ")


def test_a_run_that_is_not_there_needs_something_to_do() -> None:
    shop = Workshop(SCRIPT)
    with pytest.raises(nt.errors.UsageError, match="no goal was given"):
        shop.finish(goal=None)
    assert shop.host.data.runs == {}


def test_a_message_is_not_sent_if_the_rest_is_wrong() -> None:
    shop = Workshop(SCRIPT)
    shop.finish()
    with pytest.raises(nt.errors.UsageError, match="started with another input"):
        shop.finish(goal="something else", message="And again?")
    assert shop.finish().state.answer == "I wrote to Ann."


def test_a_new_process_continues_where_the_last_one_ended(tmp_path: Any) -> None:
    """With a file, and an agent that was declared again."""

    def declare() -> nt.Agent:
        provider = scripted(["First.", "Second."], log=tmp_path / "log")
        return nt.Agent("chat", version="1.0.0", provider=provider)

    store = tmp_path / "agent.db"
    assert declare().run("c", goal="talk", store=store).state.answer == "First."
    assert declare().run("c", message="Go on.", store=store).state.answer == "Second."


def test_the_second_process_finds_a_message_already_heard() -> None:
    shop = Workshop(SCRIPT)
    shop.finish()
    outcome = shop.finish(goal=None, message="And again?")
    with shop.host.process() as ledger:
        opening = Opening(host=ledger.host, run_id="ticket-7")
        drive(reopen(shop.agent, opening), ledger.host)
        assert shop.agent.outcome("ticket-7", store=ledger) == outcome
    assert shop.finish() == outcome


def test_the_same_message_sent_concurrently_counts_once(tmp_path: Any) -> None:
    shop, store = Workshop(SCRIPT), tmp_path / "agent.db"
    shop.agent.run("ticket-7", goal=GOAL, store=store)

    def say(_: int) -> nt.Outcome[nt.agent.RunState]:
        return shop.agent.run("ticket-7", message="And again?", store=store, acquire_timeout="60s")

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(say, range(4)))
    assert {one.state.answer for one in outcomes} == {"I had written to Ann already."}
    assert len(shop.world.requests) == 4


# After a deploy

REFUND = {"refund": {"order_id": 7, "cents": 40}}


def tool_results(outcome: nt.Outcome[nt.agent.RunState]) -> list[str]:
    transcript = outcome.state.transcript
    return [one.content for message in transcript for one in message.tool_results]


def test_a_conversation_outlives_tools_that_come_and_go_without_a_new_version() -> None:
    """A tool is added, one takes more, one is taken away; then all of it the other way round."""
    script = [REFUND, "I paid.", {"call_ann": {}}, REFUND, "I called Ann.", "Good bye."]
    shop = Workshop(script)
    before = shop.kept
    shop.finish()
    forget_tools()

    @nt.tool("unsafe_on_replay", name="call_ann")
    def call_ann(loud: bool = False) -> str:
        return "called"

    def deployed(*tools: Any) -> None:
        provider = CountingProvider(shop.world, script, Price(1.0, 5.0))
        shop.agent = nt.Agent("triage", version="1.0.0", provider=provider, tools=tools)

    deployed(before[0], call_ann)
    outcome = shop.finish(goal=None, message="Call her.")
    assert outcome.state.answer == "I called Ann."
    assert "The tool 'refund' is gone" in tool_results(outcome)[2]
    assert shop.world.effects == [("refund", 7, 40)]
    deployed(*before)
    assert shop.finish(goal=None, message="Bye.").state.answer == "Good bye."


@pytest.mark.parametrize("version", ["1.0.1", "1.1.0", "2.0.0", "0.9.0"])
@pytest.mark.parametrize("by", ["agent", "app", "async", "event"])
def test_a_conversation_that_had_ended_moves_to_the_version_that_is_spoken_to(
    version: str, by: str
) -> None:
    shop = Workshop(SCRIPT)
    shop.finish()
    provider = CountingProvider(shop.world, SCRIPT, Price(1.0, 5.0))
    newest = nt.Agent("triage", version=version, provider=provider, tools=shop.kept)
    with shop.host.process() as ledger:
        app = nt.App(graphs=[newest], store=ledger)
        if by == "agent":
            outcome = newest.run("ticket-7", message="And again?", store=ledger)
        elif by == "app":
            outcome = app.run("triage", "ticket-7", message="And again?")
        elif by == "async":
            outcome = asyncio.run(newest.arun("ticket-7", message="And again?", store=ledger))
        else:
            ledger.send("ticket-7", "message", "And again?")
            outcome = app.run("triage", "ticket-7")
        assert outcome.state.answer == "I had written to Ann already."
        moves = [one.subject for one in ledger.store.audit("ticket-7") if one.action == "migrate"]
        patch = version == "1.0.1"
        assert moves == ([] if patch else [f"triage@1.0.0 to triage@{version}"])
        assert outcome.graph == ("triage@1.0.0" if patch else f"triage@{version}")
        assert app.run("triage", "ticket-7") == outcome
    assert shop.world.effects == [("mail", "ann", "hello")]


def test_of_two_versions_side_by_side_a_message_goes_to_the_newest() -> None:
    shop = Workshop(SCRIPT)
    shop.finish()
    provider = CountingProvider(shop.world, SCRIPT, Price(1.0, 5.0))
    newest = nt.Agent("triage", version="2.0.0", provider=provider, tools=shop.kept)
    with shop.host.process() as ledger:
        app = nt.App(graphs=[shop.agent, newest], store=ledger)
        assert app.run("triage", "ticket-7").graph == "triage@1.0.0"
        assert app.run("triage", "ticket-7", message="And again?").graph == "triage@2.0.0"


def deploy_points() -> int:
    with another_program():
        shop = Workshop(SCRIPT)
        shop.finish()
        before = shop.host.points
        deploy(shop)
        shop.finish(goal=None, message="And again?")
        return shop.host.points - before


def deploy(shop: Workshop) -> None:
    provider = CountingProvider(shop.world, SCRIPT, Price(1.0, 5.0))
    shop.agent = nt.Agent("triage", version="2.0.0", provider=provider, tools=shop.kept)


@pytest.mark.parametrize("dies_at", range(1, deploy_points() + 1))
def test_a_move_that_is_killed_anywhere_ends_like_an_uninterrupted_one(dies_at: int) -> None:
    shop = Workshop(SCRIPT)
    shop.finish()
    deploy(shop)
    assert shop.run(dies_at=dies_at, goal=None, message="And again?") is None
    outcome = shop.finish(goal=None, message="And again?")
    assert outcome.state.answer == "I had written to Ann already."
    assert outcome.graph == "triage@2.0.0"
    assert shop.world.effects == [("mail", "ann", "hello")]
    with shop.host.process() as ledger:
        moves = [one for one in ledger.store.audit("ticket-7") if one.action == "migrate"]
    assert len(moves) == 1


def test_a_message_to_a_run_that_is_busy_is_on_record_and_the_error_says_so(tmp_path: Any) -> None:
    store, errors = tmp_path / "agent.db", list[BaseException]()

    def speak() -> None:
        try:
            agent.run("c", message="And tell Ann.", store=store)
        except nt.RunBusy as error:
            errors.append(error)

    def script(request: Any) -> Any:
        if request.turn == 1:
            thread = threading.Thread(target=speak)
            thread.start()
            thread.join()
            return {"remember": {"name": "a", "where": "b"}}
        return "Ann knows."

    agent = nt.Agent("chat", version="1.0.0", provider=nt.providers.scripted(script))
    outcome = agent.run("c", goal="talk", store=store)
    (busy,) = errors
    assert "Your message is on record" in str(busy)
    assert "Nothing was done" not in str(busy)
    assert busy.run_id == "c"  # type: ignore[attr-defined]
    assert [one.text for one in outcome.state.transcript].count("And tell Ann.") == 1
