"""What a policy says of a call that a model asks for (L9)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice import policy
from nottwice.agent.messages import ToolResult
from nottwice.guard.settings.policies import NoneAsked
from nottwice.model.review import Verb
from tests.agent.workshop import Workshop

MAIL = {"send_mail": {"to": "ann", "text": "hello"}}
REFUND = {"refund": {"order_id": 7, "cents": 40}}


def run(shop: Workshop, rules: object) -> nt.Outcome[nt.agent.RunState]:
    with shop.host.process() as ledger:
        policed = nt.Ledger(ledger.store, clock=ledger.clock, policy=rules)  # type: ignore[arg-type]
        return shop.agent.run("ticket-7", goal="help", store=policed)


def told(outcome: nt.Outcome[nt.agent.RunState]) -> list[ToolResult]:
    transcript = outcome.state.transcript
    return [result for message in transcript for result in message.tool_results]


def test_a_model_is_told_what_was_denied_and_continues() -> None:
    shop = Workshop([MAIL, REFUND, "done"])
    outcome = run(shop, policy.only("refund", "get_order"))
    denied, refunded = told(outcome)
    assert outcome.status == "completed"
    assert denied.is_error
    assert "send_mail is not on the list" in denied.content
    assert not refunded.is_error
    assert [effect[0] for effect in shop.world.effects] == ["refund"]


def test_a_call_of_a_model_that_a_person_must_allow_waits_for_him() -> None:
    shop = Workshop([MAIL, "done"])
    asks = policy.by_tag({"outside": "ask"})

    def rules(call: policy.ProposedCall) -> policy.Ruling:
        return policy.ask("a stranger") if call.tool == "send_mail" else asks(call)

    assert run(shop, rules).status == "waiting"
    assert shop.world.effects == []
    shop.host.decide(Verb.APPROVE)
    assert run(shop, rules).status == "completed"
    assert len(shop.world.effects) == 1


def test_a_run_that_a_policy_stops_fails_and_its_model_is_not_told() -> None:
    shop = Workshop([MAIL, "done"])

    def halt(call: policy.ProposedCall) -> policy.Ruling:
        return policy.stop("the office is closed") if call.effectful else policy.allow()

    with pytest.raises(nt.errors.RunStoppedByPolicy, match="the office is closed"):
        run(shop, halt)
    assert shop.world.effects == []
    assert run(shop, None).status == "completed"
    assert len(shop.world.effects) == 1


def test_a_broken_policy_is_nothing_that_a_model_is_told() -> None:
    shop = Workshop([MAIL, "done"])

    def broken(call: policy.ProposedCall) -> policy.Ruling:
        raise KeyError(call.tool)

    with pytest.raises(nt.errors.PolicyFailed):
        run(shop, broken)
    assert shop.world.effects == []


# An app's policy, and the agent's own


def big(call: policy.ProposedCall) -> policy.Ruling:
    if call.tool == "refund" and call.arguments["cents"] > 100:
        return policy.deny("more than 100 cents")
    return policy.allow()


HUGE = {"refund": {"order_id": 7, "cents": 999_999}}


@pytest.mark.parametrize("how", ["path", "ledger", "other policy"])
def test_an_agent_of_an_app_with_a_policy_does_not_run_past_it(tmp_path: Path, how: str) -> None:
    shop, path = Workshop([HUGE, "done"]), tmp_path / "agent.db"
    app = nt.App(graphs=[shop.agent], store=path, policy=[policy.only("refund"), big])
    store: Any = path
    if how != "path":
        store = nt.Ledger(path, policy=policy.only("refund") if how == "other policy" else None)
    with pytest.raises(
        nt.errors.UsageError, match=r"would not ask the policy of the app.*store=app"
    ):
        shop.agent.run("ticket-7", goal="help", store=store)
    with pytest.raises(nt.errors.UsageError, match="would not ask the policy"):
        asyncio.run(shop.agent.arun("ticket-7", message="help", store=store))
    assert shop.world.effects == []
    assert list(app.ledger.runs()) == []
    assert app.ledger.store.events("ticket-7") == []


def test_the_app_itself_is_a_store(tmp_path: Path) -> None:
    shop = Workshop([HUGE, REFUND, "done", "still done"])
    app = nt.App(graphs=[shop.agent], store=tmp_path / "agent.db", policy=big)
    outcome = shop.agent.run("ticket-7", goal="help", store=app)
    denied, _ = told(outcome)
    assert denied.is_error
    assert "more than 100 cents" in denied.content
    assert shop.world.effects == [("refund", 7, 40)]
    again = asyncio.run(shop.agent.arun("ticket-7", message="sure?", store=app))
    assert again.state.answer == "still done"
    assert shop.agent.outcome("ticket-7", store=app) == again
    assert [one.tool for one in shop.agent.effects("ticket-7", store=app)] == ["refund", "refund"]
    with nt.run("by-hand", store=app):
        with pytest.raises(nt.errors.DeniedByPolicy, match="more than 100 cents"):
            shop.kept[2](order_id=8, cents=500)


def test_a_mistyped_app_is_not_an_empty_ledger(tmp_path: Path) -> None:
    shop = Workshop(["done"])
    app = nt.App(graphs=[shop.agent], store=tmp_path / "agent.db", policy=big)
    with pytest.raises(nt.errors.NoLedger):
        shop.agent.outcome("ticket-7", store=app)


def test_the_policy_of_an_agent_is_asked_wherever_it_runs(tmp_path: Path) -> None:
    for number, how in enumerate(("path", "app", "worker")):
        shop, path = Workshop([HUGE, "done"], policy=big), tmp_path / f"{number}.db"
        app = nt.App(graphs=[shop.agent], store=path)
        if how == "worker":
            app.enqueue("triage", "ticket-7", {"goal": "help"})
            nt.Worker(app).run(until_idle=True)
        else:
            shop.agent.run("ticket-7", goal="help", store=path if how == "path" else app)
        (denied,) = told(app.outcome("ticket-7"))
        assert denied.is_error, how
        assert shop.world.effects == [], how


def test_who_works_for_an_agent_is_bound_by_its_policy_and_its_app(tmp_path: Path) -> None:
    shop, path = Workshop([HUGE, "done"], name="clerk"), tmp_path / "agent.db"
    provider = nt.providers.scripted([{"clerk": {"goal": "pay"}}, "all done"])
    boss = nt.Agent("boss", version="1.0.0", provider=provider, tools=[shop.agent], policy=big)
    assert boss.run("b", goal="have it paid", store=path).status == "completed"
    assert shop.world.effects == []
    app = nt.App(graphs=[boss], store=path, policy=policy.only("refund"))
    with pytest.raises(nt.errors.UsageError, match="would not ask the policy"):
        shop.agent.run("past-it", goal="pay", store=path)
    assert app.ledger.store.load_run("past-it") is None


def test_a_worker_that_is_advanced_by_itself_is_bound_by_the_policy_of_its_boss(
    tmp_path: Path,
) -> None:
    """It waited for a person, and another process runs it without the boss."""
    shop, path = Workshop([REFUND, HUGE, "done"], name="clerk"), tmp_path / "agent.db"

    def asks(call: policy.ProposedCall) -> policy.Ruling:
        small = call.tool == "refund" and call.arguments["cents"] < 100
        return policy.ask("look at it") if small else big(call)

    provider = nt.providers.scripted([{"clerk": {"goal": "pay"}}, "all done"])
    boss = nt.Agent("boss", version="1.0.0", provider=provider, tools=[shop.agent], policy=asks)
    waiting = boss.run("b", goal="have it paid", store=path)
    assert waiting.status == "waiting"
    (review,) = waiting.reviews
    with nt.Reviews(path) as reviews:
        reviews.decide(review.review_id, "approve", by="ann")
    child = review.identity.workflow_id
    outcome = shop.agent.run(child, store=path)
    assert outcome.status == "completed"
    assert shop.world.effects == [("refund", 7, 40)]
    assert told(outcome)[1].is_error


def test_where_a_ledger_stands_for_a_replay_no_policy_is_asked_or_missed() -> None:
    def broken(call: policy.ProposedCall) -> policy.Ruling:
        raise AssertionError(call.tool)

    shop = Workshop([REFUND, "paid"], name="clerk", policy=broken)
    boss = nt.Agent(
        "boss",
        version="1.0.0",
        provider=nt.providers.scripted([{"clerk": {"goal": "pay"}}, "done"]),
        tools=[shop.agent],
        policy=broken,
    )
    nt.App(graphs=[boss], policy=broken)
    with nt.Ledger(":memory:", policy=NoneAsked()) as ledger:
        boss.run("b", goal="have it paid", store=ledger)
    assert shop.world.effects == [("refund", 7, 40)]
