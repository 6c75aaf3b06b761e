"""A tool is removed before the model was told what became of its call: what is it told (P71)?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nottwice as nt
from nottwice.agent.messages import ToolResult
from nottwice.agent.state import RunState
from nottwice.model.review import Verb
from nottwice.testing import forget_tools
from tests.agent.gone import MAIL, Effects, told_after_a_deploy_without_it
from tests.agent.workshop import Workshop

AGENT = """
reply = [{"refund": {"order_id": 1}}, {"look": {"n": 1}}]
agent = nt.Agent("a", version="1.0.0", provider=scripted([reply, "done"]),
                 tools=[look] if removed else [refund, look])
"""


def test_a_refund_that_was_paid_before_a_kill_is_told_after_a_deploy_without_its_tool(
    tmp_path: Path,
) -> None:
    told = told_after_a_deploy_without_it(tmp_path, AGENT)
    assert told.startswith("refunded\n")
    assert "the receipt of refund(order_id=1): it was done" in told
    assert "[('refund', 'done')]" in told


class Bank(Effects):
    """A tool that comes and goes, and one that stays."""

    def __init__(self, reply: list[dict[str, Any]], **declared: Any) -> None:
        super().__init__(**declared)
        self.script = [reply, "done"]
        forget_tools()
        self.shop = Workshop(self.script, tools=[self.refund(), self.mail()])

    def deploy_without_refund(self) -> None:
        forget_tools()
        self.shop.agent = self.shop.make(self.script, tools=[self.mail()])

    def deploy_with_refund(self) -> None:
        forget_tools()
        tools = [self.refund(), self.mail()]
        self.shop.agent = self.shop.make(self.script, tools=tools)

    def results(self, outcome: nt.Outcome[RunState]) -> tuple[ToolResult, ...]:
        return outcome.state.transcript[1].tool_results


def refund(order_id: Any) -> dict[str, Any]:
    return {"refund": {"order_id": order_id}}


def killed_anywhere(reply: list[dict[str, Any]]) -> Iterator[Bank]:
    """One bank for each point at which a process can die; each is deployed without its tool."""
    whole = Bank(reply)
    whole.shop.finish()
    for dies_at in range(1, whole.shop.host.points + 1):
        bank = Bank(reply)
        assert bank.shop.run(dies_at=dies_at) is None
        bank.deploy_without_refund()
        yield bank


def test_killed_at_any_commit_what_was_paid_is_never_said_not_to_be_done() -> None:
    told, asked_people = 0, 0
    for bank in killed_anywhere([refund(1), MAIL]):
        outcome = bank.shop.finish()
        if outcome.status == "waiting":
            # It may have been paid: the model is told nothing before a person has decided.
            asked_people += 1
            bank.shop.host.decide(Verb.HAPPENED, result="refunded 1")
            outcome = bank.shop.finish()
            paid = True
        else:
            paid = bank.paid == [1]
        first, second = bank.results(outcome)
        assert first.content.startswith("refunded 1") is paid
        assert ("Nothing was done" in first.content) is not paid
        assert first.is_error is not paid
        assert [one.tool for one in outcome.state.asked] == ["refund", "mail"] * paid
        assert (second.content == "sent") is paid
        assert len(bank.mails) == paid
        told += paid
    assert told > asked_people > 0


def test_each_call_gets_its_own_receipt_and_what_was_not_begun_none() -> None:
    ends: set[tuple[str, ...]] = set()
    for bank in killed_anywhere([refund(1), refund("2"), refund(1), refund(3), MAIL]):
        outcome = bank.shop.finish()
        if outcome.status == "waiting":
            continue
        contents = [one.content for one in bank.results(outcome)]
        ends.add(tuple(text.split("\n")[0][:10] for text in contents))
        receipts = [one.receipt_id for one in bank.results(outcome) if one.receipt_id]
        paid = [one.receipt_id for one in outcome.state.asked if one.tool == "refund"]
        assert len(paid) == len(bank.paid) == len(set(paid))
        assert set(paid) <= set(receipts)
        for number, order_id in enumerate((1, 2, 1, 3)):
            done = contents[number].startswith(f"refunded {order_id}")
            assert done is (order_id in bank.paid)
    assert len(ends) > 2


def test_a_failure_without_effect_is_told_and_what_came_after_it_is_not_begun() -> None:
    told = 0
    for bank in killed_anywhere([refund(-1), refund(2)]):
        outcome = bank.shop.finish()
        if outcome.status == "waiting":
            continue
        first = bank.results(outcome)[0]
        assert first.is_error
        assert bank.paid == []
        if outcome.state.asked:
            told += "was removed afterwards" in first.content
            assert "there is no such order. Nothing was done." in first.content
            assert [one.outcome for one in outcome.state.asked] == ["failed"]
    assert told > 0


def test_a_doubt_that_waits_for_its_caller_is_told_to_a_person_if_the_agent_lacks_the_tool() -> (
    None
):
    """The tool is still declared, for another agent, and only an event loop could run it."""
    forget_tools()

    @nt.tool("unsafe_on_replay", name="refund")
    async def pay(order_id: int) -> str:
        """Refund an order."""
        raise asyncio.CancelledError

    @nt.tool("pure", name="look")
    def look() -> str:
        """Look."""
        return "seen"

    script = [[refund(1)], "done"]
    shop = Workshop(script, tools=[pay, look])

    async def first() -> None:
        with shop.host.process() as ledger:
            await shop.agent.arun("ticket-7", goal="g", store=ledger)

    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(first())
    shop.agent = shop.make(script, tools=[look])
    outcome = shop.finish(goal="g")
    assert outcome.status == "waiting"
    shop.host.decide(Verb.HAPPENED, result="refunded 1")
    outcome = shop.finish(goal="g")
    assert outcome.status == "completed"
    assert outcome.state.transcript[1].tool_results[0].content.startswith("refunded 1")


# What a person says about a call whose tool was removed


def test_that_it_did_not_happen_is_told_to_the_model_if_its_tool_is_gone() -> None:
    decided = 0
    for bank in killed_anywhere([refund(1), MAIL]):
        outcome = bank.shop.finish()
        if outcome.status != "waiting":
            continue
        decided += 1
        bank.shop.host.decide(Verb.DID_NOT_HAPPEN)
        paid = list(bank.paid)
        outcome = bank.shop.finish()
        assert outcome.status == "completed"
        first, second = bank.results(outcome)
        assert first.is_error
        assert "refund(order_id=1) did not happen" in first.content
        assert "a person" in first.content
        assert "'refund' was removed" in first.content
        assert second.content.startswith("Not begun")
        assert [(one.tool, one.outcome) for one in outcome.state.asked] == [("refund", "failed")]
        assert bank.paid == paid, "the tool was called again"
        assert bank.shop.host.open_reviews == []
        (row,) = [one for one in bank.shop.host.calls if one.identity.tool_name == "refund"]
        assert row.settled_by == "decision by ann"
    assert decided > 0


def test_a_decision_is_used_once_wherever_the_process_that_uses_it_is_killed() -> None:
    def waiting() -> Bank:
        for bank in killed_anywhere([refund(1), MAIL]):
            if bank.shop.finish().status == "waiting":
                bank.shop.host.decide(Verb.DID_NOT_HAPPEN)
                return bank
        raise AssertionError("no kill left a doubt")

    whole = waiting()
    whole.shop.finish()
    for dies_at in range(1, whole.shop.host.points + 1):
        bank = waiting()
        paid = list(bank.paid)
        assert bank.shop.run(dies_at=dies_at) is None
        outcome = bank.shop.finish()
        assert outcome.status == "completed"
        assert "did not happen" in bank.results(outcome)[0].content
        assert (bank.paid, bank.mails) == (paid, [])


def test_that_it_did_not_happen_licenses_an_attempt_if_the_tool_is_deployed_again() -> None:
    for bank in killed_anywhere([refund(1), MAIL]):
        if bank.shop.finish().status == "waiting":
            bank.shop.host.decide(Verb.DID_NOT_HAPPEN)
            bank.paid.clear()
            bank.deploy_with_refund()
            outcome = bank.shop.finish()
            assert outcome.status == "completed"
            assert bank.results(outcome)[0].content == "refunded 1"
            assert bank.paid == [1]
