"""Does `nottwice show` tell what an agent was to do, said, did and cost, without its code?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import nottwice as nt
from nottwice.agent.state import RunState, first_state
from nottwice.cli.agent_view import agent_document, agent_facts
from nottwice.cli.main import main
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


def test_what_a_model_costs_beyond_what_is_known_is_said() -> None:
    plain = first_state({"goal": "g"})
    assert dict(agent_facts(RunState(plain)))["spent"] == "$0.0000, 0 tokens in 0 requests"
    plain["spent"]["unpriced"] = 1
    assert "and more" in str(dict(agent_facts(RunState(plain)))["spent"])


def test_the_document_holds_what_is_documented() -> None:
    document = agent_document(RunState(first_state({"goal": "g", "done_when": ["paid"]})))
    assert document is not None
    assert document["done_when"] == [{"condition": "paid", "evidence": None}]
    assert agent_document(None) is None
