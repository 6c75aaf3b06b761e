"""Is a policy asked before an agent hands a task to a worker? (P237)"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import nottwice as nt
from nottwice import policy
from nottwice.agent.messages import ToolResult


def told(outcome: nt.Outcome[nt.agent.RunState]) -> list[ToolResult]:
    transcript = outcome.state.transcript
    return [result for message in transcript for result in message.tool_results]


def with_worker(rules: Any) -> nt.Agent:
    """A boss who hands the same task over twice."""
    clerk = nt.Agent("clerk", version="1.0.0", provider=nt.providers.scripted(["worked"]))
    task = {"clerk": {"goal": "count"}}
    script = nt.providers.scripted([task, task, "done"])
    return nt.Agent("boss", version="1.0.0", provider=script, tools=[clerk], policy=rules)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_policy_is_asked_about_a_worker_by_its_name(is_async: bool) -> None:
    ledger = nt.Ledger(":memory:")
    boss = with_worker(policy.only("search"))
    if is_async:
        outcome = asyncio.run(boss.arun("b", goal="g", store=ledger))
    else:
        outcome = boss.run("b", goal="g", store=ledger)
    assert outcome.status == "completed"
    for result in told(outcome):
        assert result.is_error
        assert "clerk was not allowed" in result.content
        assert "clerk is not on the list" in result.content
    assert ledger.store.children("b") == []


def test_a_policy_is_asked_about_a_task_once_and_before_the_worker_begins() -> None:
    asked: list[tuple[str, Any]] = []

    def rules(call: policy.ProposedCall) -> policy.Ruling:
        asked.append((call.tool, dict(call.arguments)))
        return policy.allow()

    outcome = with_worker(rules).run("b", goal="g", store=nt.Ledger(":memory:"))
    assert [result.content.splitlines()[0] for result in told(outcome)] == ["worked", "worked"]
    assert asked == [("clerk", {"goal": "count"})]


def test_a_worker_that_a_person_must_allow_is_not_begun_before() -> None:
    ledger = nt.Ledger(":memory:")
    boss = with_worker(lambda call: policy.ask("a stranger"))
    waiting = boss.run("b", goal="g", store=ledger)
    assert waiting.status == "waiting"
    assert ledger.store.children("b") == []
    nt.Reviews(ledger).decide(waiting.reviews[0].review_id, "approve", by="me", why="fine")
    outcome = boss.run("b", goal="g", store=ledger)
    assert outcome.status == "completed"
    assert len(ledger.store.children("b")) == 1


def test_a_task_is_charged_before_its_worker_begins() -> None:
    ledger, charged = nt.Ledger(":memory:"), list[list[str]]()

    def work(request: nt.providers.ModelRequest) -> str:
        charged.append([row.identity.tool_name for row in ledger.store.calls("b")])
        return "worked"

    clerk = nt.Agent("clerk", version="1.0.0", provider=nt.providers.scripted(work))
    script = nt.providers.scripted([{"clerk": {"goal": "count"}}, "done"])
    limit = policy.rate(1, per="24h", tool="clerk")
    boss = nt.Agent("boss", version="1.0.0", provider=script, tools=[clerk], policy=limit)
    assert boss.run("b", goal="g", store=ledger).status == "completed"
    assert "clerk" in charged[0]
