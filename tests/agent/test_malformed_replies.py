"""Does a reply that says nothing usable end a run, or poison what comes after it? (P234)"""

from __future__ import annotations

import json
from typing import Any

import pytest

import nottwice as nt
from nottwice.testing import FakeModels, Turn

CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c",
    "name": "look",
    "arguments": '{"k": 1}',
    "status": "completed",
}
SAID = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}}
USE = {"type": "tool_use", "id": "t1", "name": "look", "input": {"k": 1}}
SERVER_USE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}

NOTHING: list[tuple[str, dict[str, Any]]] = [
    ("openai", {**SAID, "content": []}),
    ("openai", {**SAID, "content": None}),
    ("openai", {**SAID, "content": [{"type": "hologram", "rays": 7}]}),
    ("openai", {"type": "reasoning", "id": "rs_1", "summary": None}),
    ("openai", SEARCH),
    ("anthropic", {"type": "text", "text": None}),
    ("anthropic", {"type": "thinking", "thinking": "Hm."}),
    ("anthropic", SERVER_USE),
]
BAD_CALL: list[tuple[str, dict[str, Any]]] = [
    ("openai", {**CALL, "call_id": None, "arguments": "["}),
    ("openai", {**CALL, "arguments": None}),
    ("openai", {**CALL, "arguments": {"k": 1}}),
    ("openai", {**CALL, "name": None}),
    ("openai", {**CALL, "name": "no such tool!"}),
    ("openai", {**CALL, "name": "x" * 200}),
    ("anthropic", {**USE, "input": '{"k": 1}'}),
    ("anthropic", {**USE, "input": None}),
    ("anthropic", {**USE, "input": [1]}),
    ("anthropic", {**USE, "id": None, "name": ""}),
    ("anthropic", {**USE, "name": "no such tool!"}),
]


def agent(fake_models: FakeModels, api: str) -> nt.Agent:
    @nt.tool("pure")
    def look(k: int) -> str:
        """Look."""
        return "seen"

    provider = getattr(fake_models, api)()
    return nt.Agent("a", version="1.0.0", provider=provider, tools=[look])


@pytest.mark.parametrize(("api", "block"), NOTHING, ids=str)
def test_a_reply_without_anything_usable_is_asked_for_again_and_never_sent_back(
    fake_models: FakeModels, api: str, block: dict[str, Any]
) -> None:
    fake_models.will_say(Turn({"raw": block}), "REAL", "Later.", by="order")
    asked, store = agent(fake_models, api), nt.Ledger(":memory:")
    outcome = asked.run("r", goal="x", store=store)
    assert (outcome.status, outcome.state.answer) == ("completed", "REAL")
    later = asked.run("r", message="and now?", store=store)
    assert (later.status, later.state.answer) == ("completed", "Later.")
    assert fake_models.rejected == []


@pytest.mark.parametrize(("api", "block"), BAD_CALL, ids=str)
def test_a_malformed_call_is_told_to_the_model_and_poisons_no_later_request(
    fake_models: FakeModels, api: str, block: dict[str, Any]
) -> None:
    fake_models.will_say(Turn({"raw": block}), "REAL", "Later.", by="order")
    asked, store = agent(fake_models, api), nt.Ledger(":memory:")
    outcome = asked.run("r", goal="x", store=store)
    (result,) = (one for each in outcome.state.transcript for one in each.tool_results)
    assert result.is_error
    assert "Nothing was done" in result.content
    assert (outcome.status, outcome.state.answer) == ("completed", "REAL")
    later = asked.run("r", message="and now?", store=store)
    assert (later.status, later.state.answer) == ("completed", "Later.")
    assert fake_models.rejected == []


def test_words_beside_a_part_of_an_unknown_kind_are_the_answer(fake_models: FakeModels) -> None:
    words = {"type": "output_text", "text": "Hi.", "annotations": []}
    mixed = {**SAID, "content": [words, {"type": "hologram"}]}
    fake_models.will_say(Turn({"raw": mixed}), "Later.", by="order")
    asked, store = agent(fake_models, "openai"), nt.Ledger(":memory:")
    assert asked.run("r", goal="x", store=store).state.answer == "Hi."
    assert asked.run("r", message="and now?", store=store).state.answer == "Later."
    assert fake_models.rejected == []


def test_a_model_that_never_says_anything_usable_stops_the_run(fake_models: FakeModels) -> None:
    fake_models.will_say(*[Turn({"raw": SERVER_USE})] * 9, by="order")
    outcome = agent(fake_models, "anthropic").run("r", goal="x", store=nt.Ledger(":memory:"))
    assert outcome.status == "waiting"
    assert len(fake_models.requests) == 6


def test_a_provider_that_paused_in_its_own_work_gets_it_back(fake_models: FakeModels) -> None:
    paused = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": [SERVER_USE],
        "stop_reason": "pause_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    fake_models.will_say(Turn(body=paused), "Found.", by="order")
    outcome = agent(fake_models, "anthropic").run("r", goal="x", store=nt.Ledger(":memory:"))
    assert outcome.state.answer == "Found."
    assert json.dumps(SERVER_USE) in json.dumps(fake_models.requests[1].body)
