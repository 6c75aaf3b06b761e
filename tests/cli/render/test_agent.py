"""Does `nottwice show` tell what an agent was to do, said, did and cost, without its code?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import nottwice as nt
from nottwice.agent.state import RunState, first_state
from nottwice.cli.main import main
from nottwice.cli.render.agent import agent_facts
from tests.agent.workshop import Workshop
from tests.cli.workplace import HOSTILE

SCRIPT: list[Any] = [
    ["Let me plan.", {"make_plan": {"steps": ["look", "pay"]}}, {"get_order": {"order_id": 7}}],
    [{"finish_step": {"evidence": "seen"}}, {"refund": {"order_id": 7, "cents": 40}}],
    "It is paid.",
    {"show_evidence": {"condition": 1, "evidence": "the receipt"}},
    "It is paid, I am sure.",
    "You are welcome.",
]


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = str(tmp_path / "agent.db")
    agent = Workshop(SCRIPT).agent
    agent.run("ticket-7", goal="close it", done_when=["paid [receipt: refund]"], store=path)
    agent.run("ticket-7", message="Thanks.", store=path)
    return path


def shown(*words: str) -> list[str]:
    result = CliRunner().invoke(main, ["show", "ticket-7", *words])
    assert result.exit_code == 0, result.output
    return [line.rstrip() for line in result.stdout.splitlines()]


def test_show_tells_goal_plan_conversation_answer_evidence_and_cost(store: str) -> None:
    lines = shown("--store", store)
    facts = {line[:13].strip(): line[13:].strip() for line in lines if line.startswith("  ")}
    assert facts["goal"] == "close it"
    assert facts["plan"] == "[x] look [ ] pay"
    assert facts["answer"] == "You are welcome."
    assert facts["done when"].startswith("paid [receipt: refund]: the receipt (receipt ")
    assert facts["spent"].startswith("$0.00")
    assert "6 requests" in facts["spent"]
    begin = lines.index("Conversation")
    said = lines[begin + 1 : begin + 20]
    assert said[:3] == [
        "turn 1",
        "  reason  Let me plan.",
        "  call    make_plan(steps=['look', 'pay'])",
    ]
    assert "  call    refund(order_id=7, cents=40)" in said
    assert '  result  {"refunded":40}' in said
    assert any(line.startswith("  remark  You are not done yet.") for line in said)
    assert "  hear    Thanks." in lines
    assert lines.index("  hear    Thanks.") < lines.index("  reason  You are welcome.")


def test_the_last_part_of_a_conversation_is_shown_unless_all_is_asked_for(store: str) -> None:
    lines = shown("--store", store, "--limit", "2")
    begin = lines.index("Conversation")
    assert "lines before: nottwice show --all ticket-7" in lines[begin + 1]
    assert lines[begin + 2 : begin + 4] == ["turn 6", "  reason  You are welcome."]
    assert "turn 1" in shown("--store", store, "--all")


def test_what_an_agent_said_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.db")
    Workshop([HOSTILE]).agent.run("ticket-7", goal=HOSTILE, store=path)
    text = "\n".join(shown("--store", path))
    assert "\x1b" not in text
    assert "\nError: forged" not in text


def test_an_agent_that_has_said_nothing_yet_is_shown(tmp_path: Path) -> None:
    path = str(tmp_path / "agent.db")
    agent = Workshop(SCRIPT).agent
    nt.App(graphs=[agent], store=path).enqueue("triage", "ticket-7", {"goal": "close it"})
    lines = shown("--store", path)
    assert "  Nothing was said yet." in lines


def test_what_was_said_to_a_run_in_an_outage_is_shown(tmp_path: Path) -> None:
    def away(request: Any) -> Any:
        raise nt.Retryable("overloaded", retry_after=600)

    path = str(tmp_path / "agent.db")
    provider = nt.providers.scripted(away)
    agent = nt.Agent("triage", version="1.0.0", provider=provider, retry=nt.RetryPolicy(attempts=1))
    assert agent.run("ticket-7", goal="close it", store=path).status == "waiting"
    for words in ("are you there?", "hello?"):
        assert agent.run("ticket-7", message=words, store=path).status == "waiting"
    lines = shown("--store", path)
    assert "  Nothing was said yet." not in lines
    heard = [line.strip() for line in lines if line.strip().startswith("hear")]
    assert heard == [
        "hear    are you there? (no model was asked about it yet)",
        "hear    hello? (no model was asked about it yet)",
    ]


@nt.tool("unsafe_on_replay", name="view_pay_out", approve=True)
def view_pay_out(cents: int) -> str:
    """Pay."""
    return "paid"


def family(*, loses: int) -> nt.Agent:
    """A boss whose worker waits for a person; this many requests of the boss get no answer."""
    price = nt.agent.Price(10, 50)
    answers = iter([{"clerk": {"goal": "pay"}}, "The boss is done."])
    left = [loses]

    def boss_says(request: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise nt.Ambiguous("the connection broke")
        return next(answers)

    clerk_says = ["words " * 4000, {"view_pay_out": {"cents": 4000}}]
    clerk = nt.Agent(
        "clerk",
        version="1.0.0",
        provider=nt.providers.scripted([clerk_says, "It is paid."], price=price),
        tools=[view_pay_out],
    )
    return nt.Agent(
        "boss",
        version="1.0.0",
        provider=nt.providers.scripted(boss_says, price=price),
        tools=[clerk],
    )


@pytest.mark.parametrize("loses", [0, 1])
def test_what_workers_and_lost_requests_cost_is_shown_while_a_boss_waits_and_when_it_is_done(
    tmp_path: Path, loses: int
) -> None:
    store = str(tmp_path / "agent.db")
    boss = family(loses=loses)
    outcome = boss.run("ticket-7", goal="see to it", store=store)
    assert outcome.status == "waiting"
    assert_shown(outcome, store, lost=loses > 0)
    with nt.Reviews(store) as reviews:
        reviews.decide(outcome.reviews[0].review_id, "approve", by="ann")
    outcome = boss.run("ticket-7", store=store)
    assert outcome.status == "completed"
    assert_shown(outcome, store, lost=loses > 0)


def assert_shown(outcome: nt.Outcome[Any], store: str, *, lost: bool) -> None:
    spent = outcome.state.spent
    assert spent.with_workers.usd > spent.own.usd > 0
    lines = shown("--store", store)
    facts = {line[:14].strip(): line[14:].strip() for line in lines if line.startswith("  ")}
    assert facts["spent"].startswith(f"${spent.with_workers.usd:.4f}, ")
    assert facts["of it own"].startswith(f"${spent.own.usd:.4f}, ")
    assert ("unanswered" in facts) == lost
    if lost:
        assert f"${spent.unanswered_usd:.4f}" in facts["unanswered"]
    document = json.loads("\n".join(shown("--store", store, "--json")))["agent"]["spent"]
    assert document["own"]["usd"] == spent.own.usd
    assert document["with_workers"]["usd"] == spent.with_workers.usd
    assert document["with_workers"]["unanswered_usd"] == spent.unanswered_usd
    assert (spent.unanswered_usd > 0) == lost


def test_what_a_model_costs_beyond_what_is_known_is_said() -> None:
    plain = first_state({"goal": "g"})
    assert dict(agent_facts(RunState(plain)))["spent"] == "$0.0000, 0 tokens in 0 requests"
    plain["spent"] |= {"unpriced": 1, "requests": 1}
    spent = str(dict(agent_facts(RunState(plain)))["spent"])
    assert spent == "$0.0000 and more, 0 tokens in 1 request"
