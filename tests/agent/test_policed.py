"""What a policy says of a call that a model asks for (L9)."""

from __future__ import annotations

import pytest

import nottwice as nt
from nottwice import policy
from nottwice.agent.messages import ToolResult
from nottwice.model.review import Verb
from tests.agent.workshop import Workshop

MAIL = {"send_mail": {"to": "ann", "text": "hello"}}
REFUND = {"refund": {"order_id": 7, "cents": 40}}


def run(shop: Workshop, rules: object) -> nt.Outcome[nt.RunState]:
    with shop.host.process() as ledger:
        policed = nt.open(ledger.store, clock=ledger.clock, policy=rules)  # type: ignore[arg-type]
        return shop.agent.run("ticket-7", goal="help", store=policed)


def told(outcome: nt.Outcome[nt.RunState]) -> list[ToolResult]:
    transcript = outcome.state.transcript
    return [result for message in transcript for result in message.tool_results]


def test_a_model_is_told_what_was_denied_and_goes_on() -> None:
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

    with pytest.raises(nt.RunDenied, match="the office is closed"):
        run(shop, halt)
    assert shop.world.effects == []
    assert run(shop, None).status == "completed"
    assert len(shop.world.effects) == 1


def test_a_broken_policy_is_nothing_that_a_model_is_told() -> None:
    shop = Workshop([MAIL, "done"])

    def broken(call: policy.ProposedCall) -> policy.Ruling:
        raise KeyError(call.tool)

    with pytest.raises(nt.PolicyFailed):
        run(shop, broken)
    assert shop.world.effects == []
