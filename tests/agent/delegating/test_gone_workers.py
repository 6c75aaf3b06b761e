"""A worker is removed before its boss was told what it did: what is the boss told (P230)?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nottwice as nt
from nottwice.model.review import ReviewKind, Verb
from nottwice.testing import forget_tools
from tests.agent.gone import MAIL, Effects, told_after_a_deploy_without_it
from tests.agent.workshop import Workshop

AGENT = """
helper = nt.Agent("helper", version="1.0.0", tools=[refund],
                  provider=scripted([{"refund": {"order_id": 1}}, "Ann has her money."]))
reply = [{"helper": {"goal": "pay Ann"}}, {"look": {"n": 1}}]
agent = nt.Agent("boss", version="1.0.0", provider=scripted([reply, "done"]),
                 tools=[look] if removed else [helper, look])
"""


def test_what_a_worker_paid_before_a_kill_is_told_after_a_deploy_without_the_worker(
    tmp_path: Path,
) -> None:
    told = told_after_a_deploy_without_it(tmp_path, AGENT)
    assert told.startswith("Ann has her money.\n")
    assert "refund(order_id=1)" in told
    assert "[('helper', 'done')]" in told


class Office(Effects):
    """A boss whose worker comes and goes, and a tool that stays."""

    def __init__(self, goal: str = "pay Ann", **declared: Any) -> None:
        super().__init__(**declared)
        self.script = [[{"helper": {"goal": goal}}, MAIL], "done"]
        self.deploy(whole=True)

    def deploy(self, *, whole: bool) -> None:
        forget_tools()
        mail = self.mail()
        if not hasattr(self, "shop"):
            self.shop = Workshop(self.script, tools=[self._helper(), mail])
        else:
            helper = [self._helper()] if whole else []
            self.shop.agent = self.shop.make(self.script, tools=[*helper, mail])

    def _helper(self) -> nt.Agent:
        script = [{"refund": {"order_id": 1}}, {"refund": {"order_id": 2}}, "Both are paid."]
        provider = nt.providers.scripted(script)
        return nt.Agent("helper", version="1.0.0", provider=provider, tools=[self.refund()])

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
