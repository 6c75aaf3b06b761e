"""Does a model that gives every call the same id poison its own conversation? (P204)"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.messages import Message, Role, Text, ToolCall, ToolResult, said
from nottwice.agent.requests.wire_ids import with_own_ids
from nottwice.testing import forget_tools
from tests.agent.providers.bodies import claude_says, gpt_says
from tests.agent.wire_server import Wire, started
from tests.agent.workshop import Workshop

SAME = "functions.note:0"
PRICE = nt.agent.Price(2.0, 10.0)


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with started() as server:
        yield server


def ids_of(message: Message) -> list[str]:
    calls = [call.id for call in message.tool_calls]
    return calls + [result.call_id for result in message.tool_results]


def test_calls_that_share_an_id_get_different_ones_and_so_do_their_results() -> None:
    calls = Message(Role.ASSISTANT, (ToolCall("x", "a", {}), ToolCall("x", "b", {})))
    results = Message(Role.USER, (ToolResult("x", "of a"), ToolResult("x", "of b"), Text("and?")))
    again = Message(Role.ASSISTANT, (Text("so"), ToolCall("x", "c", {}), ToolCall("", "d", {})))
    last = Message(Role.USER, (ToolResult("x", "of c"), ToolResult("", "of d")))
    sent = with_own_ids([said("go"), calls, results, again, last])
    assert [ids_of(message) for message in sent] == [
        [],
        ["call_1", "call_2"],
        ["call_1", "call_2"],
        ["call_3", "call_4"],
        ["call_3", "call_4"],
    ]
    assert [block for block in sent[2].blocks if isinstance(block, Text)] == [Text("and?")]
    assert [result.content for result in sent[4].tool_results] == ["of c", "of d"]


def test_a_longer_conversation_begins_as_the_shorter_one_did() -> None:
    turns: list[Message] = [said("go")]
    before: tuple[Message, ...] = ()
    for number in range(4):
        turns.append(Message(Role.ASSISTANT, (ToolCall("x", "a", {"n": number}),)))
        turns.append(Message(Role.USER, (ToolResult("x", "done"),)))
        sent = with_own_ids(turns)
        assert sent[: len(before)] == before
        before = sent


def test_a_result_whose_call_is_not_there_is_left_as_it_is() -> None:
    orphan = Message(Role.USER, (ToolResult("y", "?"),))
    made_up = Message(Role.ASSISTANT, (ToolResult("x", "I did it"), ToolCall("x", "a", {})))
    sent = with_own_ids([orphan, made_up])
    assert sent[0] == orphan
    assert sent[1].tool_results == made_up.tool_results


def test_what_is_on_record_is_what_the_model_said() -> None:
    reply = [ToolCall(SAME, "get_order", {"order_id": n}) for n in (7, 8)]
    shop = Workshop([reply, reply, "done"])
    transcript = shop.finish().state.transcript
    assert [ids_of(message) for message in transcript] == [[SAME, SAME]] * 4 + [[]]
    last = shop.world.requests[-1].messages
    assert len({call.id for message in last for call in message.tool_calls}) == 4


def called(api: str, number: int) -> dict[str, Any]:
    arguments = {"text": f"note {number}"}
    if api == "anthropic":
        return {"type": "tool_use", "id": SAME, "name": "note", "input": arguments}
    return {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": SAME,
        "name": "note",
        "arguments": json.dumps(arguments),
        "status": "completed",
    }


def conversation(api: str) -> list[dict[str, Any]]:
    if api == "anthropic":
        turn = [claude_says(called(api, n), called(api, n + 1), stop="tool_use") for n in (1, 3)]
        return [*turn, claude_says("Noted."), claude_says("Still noted.")]
    turn = [gpt_says(called(api, n), called(api, n + 1)) for n in (1, 3)]
    return [*turn, gpt_says("Noted."), gpt_says("Still noted.")]


def check_like_the_api(body: dict[str, Any]) -> list[str]:
    """What both APIs check: ids are unique and well formed, and every call is answered, once."""
    if "messages" in body:
        blocks = [block for message in body["messages"] for block in message["content"]]
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        answers = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    else:
        items = body["input"]
        calls = [item["call_id"] for item in items if item["type"] == "function_call"]
        answers = [item["call_id"] for item in items if item["type"] == "function_call_output"]
    assert len(set(calls)) == len(calls)
    assert sorted(calls) == sorted(answers)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each) for each in calls)
    return calls


@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_duplicate_ids_of_a_model_reach_no_later_request_also_after_a_restart(
    api: str, wire: Wire, tmp_path: Path
) -> None:
    notes: list[str] = []

    def open_agent() -> nt.Agent:
        forget_tools()

        @nt.tool("unsafe_on_replay", name="note", once_per=("text",))
        def note(text: str) -> str:
            notes.append(text)
            return f"noted {text}"

        make = getattr(nt.providers, api)
        url = wire.url if api == "anthropic" else f"{wire.url}/v1"
        provider = make("m", api_key="sk-test", base_url=url, prices={"m": PRICE})
        return nt.Agent("noter", version="1.0.0", provider=provider, tools=[note])

    wire.will_answer(*({"body": body} for body in conversation(api)))
    first = open_agent().run("r", goal="note", store=tmp_path / "agent.db")
    assert first.state.answer == "Noted."
    again = open_agent().run("r", message="Are they noted?", store=tmp_path / "agent.db")
    assert again.state.answer == "Still noted."
    assert notes == ["note 1", "note 2", "note 3", "note 4"]
    lengths = [len(check_like_the_api(request["body"])) for request in wire.requests]
    assert lengths == [0, 2, 4, 4]
    told = json.dumps(wire.requests[-1]["body"])
    assert [told.index(f"noted note {n}") for n in range(1, 5)] == sorted(
        told.index(f"noted note {n}") for n in range(1, 5)
    )
    assert SAME not in told
