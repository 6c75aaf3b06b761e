"""Does an agent work on PostgreSQL as it does elsewhere: killed, raised, spoken to?"""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.provider import ModelRequest
from nottwice.agent.requests.reserving import RESERVATION
from nottwice.store.postgres.store import PostgresStore


class Crash(BaseException):
    """Plays the end of a process."""


def test_an_agent_is_interrupted_raised_and_spoken_to(ledger: PostgresStore) -> None:
    sent: list[str] = []
    crash = [True]

    @nt.tool("unsafe_on_replay", name="postgres_mail")
    def mail(to: str) -> str:
        sent.append(to)
        return f"mail {len(sent)}"

    def reply(request: ModelRequest) -> object:
        if request.turn == 2 and crash.pop():
            crash.append(False)
            raise Crash
        if request.turn <= 2:
            return {"postgres_mail": {"to": "ann"}}
        return f"reply {request.turn}"

    agent = nt.Agent(
        "postgres-agent",
        version="1.0.0",
        provider=nt.providers.scripted(reply),  # type: ignore[arg-type]
        tools=[mail],
        budget=nt.Budget(turns=2),
    )
    with pytest.raises(Crash):
        agent.run("ticket-7", goal="write", store=ledger)
    outcome = agent.run("ticket-7", store=ledger)
    assert outcome.status == "waiting"
    assert sent == ["ann"]
    (review,) = outcome.reviews
    nt.Reviews(nt.Ledger(ledger)).decide(
        review.review_id, "raise", by="ann", why="worth it", result={"turns": 5}
    )
    assert agent.run("ticket-7", store=ledger).state.answer == "reply 3"
    assert agent.run("ticket-7", message="And?", store=ledger).state.answer == "reply 4"
    attempts = [
        row.attempt for row in ledger.calls("ticket-7") if row.identity.tool_name == RESERVATION
    ]
    assert attempts == [1, 2, 1, 1]
    assert sent == ["ann"]


def test_workers_at_once_stay_within_the_budget_of_their_boss(ledger: PostgresStore) -> None:
    price = nt.agent.Price(0.0, 100.0)

    def work(request: ModelRequest) -> object:
        if request.turn < 3:
            return {"remember": {"name": f"n{request.turn}", "where": "x" * 900}}
        return "y" * 900

    def agent(name: str, script: object, **given: Any) -> nt.Agent:
        provider = nt.providers.scripted(script, price=price)  # type: ignore[arg-type]
        return nt.Agent(name, version="1.0.0", provider=provider, most_output_tokens=400, **given)

    helper = agent("postgres-helper", work)
    goals = [{"postgres-helper": {"goal": f"task {number}"}} for number in range(8)]
    boss = agent("postgres-boss", [goals, "done"], tools=[helper], budget=nt.Budget(usd=0.40))
    outcome = boss.run("tree", goal="all of it", store=ledger)
    assert outcome.status == "waiting"
    assert 0.2 < outcome.state.spent.usd <= 0.40
    reviews = nt.Reviews(nt.Ledger(ledger))
    reviews.decide(outcome.reviews[0].review_id, "raise", by="ann", why="go on", result={"usd": 2})
    outcome = boss.run("tree", store=ledger)
    assert (outcome.status, outcome.state.spent.own.requests) == ("completed", 2)
    assert outcome.state.spent.requests == 26
