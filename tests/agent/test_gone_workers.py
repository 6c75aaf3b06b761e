"""A worker is removed before its boss was told what it did: what is the boss told (P230)?"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import nottwice as nt
from nottwice.model.review import ReviewKind, Verb
from nottwice.testing import forget_tools
from tests.agent.workshop import Workshop

MAIL = {"mail": {"text": "You are refunded."}}
HIRING = """
import os, sys
import nottwice as nt
removed = sys.argv[1] == "removed"

@nt.tool("unsafe_on_replay")
def refund(order_id: int) -> str:
    "Refund an order."
    with open("bank", "a") as bank:
        bank.write("paid\\n")
    return "refunded"

@nt.tool("pure")
def look(n: int) -> str:
    "Look."
    if not removed:
        os.kill(os.getpid(), 9)
    return "seen"

scripted = nt.providers.scripted
helper = nt.Agent("helper", version="1.0.0", tools=[refund],
                  provider=scripted([{"refund": {"order_id": 1}}, "Ann has her money."]))
reply = [{"helper": {"goal": "pay Ann"}}, {"look": {"n": 1}}]
boss = nt.Agent("boss", version="1.0.0", provider=scripted([reply, "done"]),
                tools=[look] if removed else [helper, look])
outcome = boss.run("r", goal="g", store="ledger.db")
print(outcome.state.transcript[1].tool_results[0].content)
print([(one.tool, one.outcome) for one in outcome.state.asked])
"""


def test_what_a_worker_paid_before_a_kill_is_told_after_a_deploy_without_the_worker(
    tmp_path: Path,
) -> None:
    def start(how: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", HIRING, how]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert start("whole").returncode == -signal.SIGKILL
    resumed = start("removed")
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.startswith("Ann has her money.\n")
    assert "refund(order_id=1)" in resumed.stdout
    assert "Nothing was done" not in resumed.stdout
    assert "[('helper', 'done')]" in resumed.stdout
    assert (tmp_path / "bank").read_text() == "paid\n"


class Office:
    """A boss whose worker comes and goes, and a tool that stays."""

    def __init__(self, goal: str = "pay Ann", **declared: Any) -> None:
        self.paid: list[int] = []
        self.mails: list[str] = []
        self.script = [[{"helper": {"goal": goal}}, MAIL], "done"]
        self._declared = declared
        self.deploy(whole=True)

    def deploy(self, *, whole: bool) -> None:
        forget_tools()
        mail = self._mail()
        if not hasattr(self, "shop"):
            self.shop = Workshop(self.script, tools=[self._helper(), mail])
        else:
            helper = [self._helper()] if whole else []
            self.shop.agent = self.shop.make(self.script, tools=[*helper, mail])

    def _helper(self) -> nt.Agent:
        @nt.tool("unsafe_on_replay", name="refund", **self._declared)
        def refund(order_id: int) -> str:
            """Refund an order."""
            self.paid.append(order_id)
            return f"refunded {order_id}"

        script = [{"refund": {"order_id": 1}}, {"refund": {"order_id": 2}}, "Both are paid."]
        provider = nt.providers.scripted(script)
        return nt.Agent("helper", version="1.0.0", provider=provider, tools=[refund])

    def _mail(self) -> Any:
        def look(call: nt.Call) -> nt.Verification:
            return nt.happened("sent") if call.args["text"] in self.mails else nt.did_not_happen()

        @nt.tool("unsafe_on_replay", name="mail", verify=look, settles="1ms")
        def mail(text: str) -> str:
            """Send a mail."""
            self.mails.append(text)
            return "sent"

        return mail

    def cancel_helper(self) -> None:
        """What the review of a run without its code asks a person to do."""
        reviews = self.shop.host.open_reviews
        (review,) = [one for one in reviews if one.kind is ReviewKind.UNDEPLOYABLE]
        with self.shop.host.process() as ledger, nt.Reviews(ledger) as inbox:
            inbox.decide(review.review_id, "abort", by="ann", why="it is gone")


def test_killed_at_any_commit_a_boss_is_never_told_that_a_removed_worker_did_nothing() -> None:
    whole = Office()
    whole.shop.finish()
    told, waited, answered, unknown = 0, 0, 0, 0
    for dies_at in range(1, whole.shop.host.points + 1):
        office = Office()
        assert office.shop.run(dies_at=dies_at) is None
        office.deploy(whole=False)
        outcome = office.shop.finish()
        begun = len(office.shop.host.data.runs) > 1
        if outcome.status == "waiting":
            # The worker is not over: a later deploy may have it again, so nothing is told yet.
            waited += 1
            assert begun
            assert len(office.shop.world.requests) == 1
            office.cancel_helper()
            outcome = office.shop.finish()
        first, second = outcome.state.transcript[1].tool_results
        assert ("Nothing was done" in first.content) is not begun
        if first.content != "Both are paid.":
            # The boss was not told before the deploy, so the ledger answers.
            answered += begun
            for order_id in office.paid:
                assert f"refund(order_id={order_id})" in first.content
        done = first.content.startswith("Both are paid.")
        assert first.is_error is not done
        assert (second.content == "sent") is done
        assert [one.outcome for one in outcome.state.asked if one.tool == "helper"] == (
            [("done" if done else "failed")] if begun else []
        )
        told += done
        unknown += "It is not known whether this happened: refund(" in first.content
    assert told > 2
    assert unknown > 0, "no kill left a call of the worker in doubt"
    assert answered > waited > 2


def test_a_run_waits_for_a_removed_worker_and_continues_when_it_is_deployed_again() -> None:
    office = Office()
    assert office.shop.run(dies_at=15) is None
    office.deploy(whole=False)
    assert office.shop.finish().status == "waiting"
    paid = len(office.paid)
    office.deploy(whole=True)
    outcome = office.shop.finish()
    if outcome.status == "waiting":
        office.shop.host.decide(Verb.HAPPENED, result="refunded 1")
        outcome = office.shop.finish()
    assert paid < 2
    assert outcome.status == "completed"
    assert outcome.state.transcript[1].tool_results[0].content == "Both are paid."
    assert office.paid == [1, 2]
    assert office.shop.host.open_reviews == []
