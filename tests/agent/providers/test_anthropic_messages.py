"""Does a conversation reach Claude and come back without loss? (P80)"""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from nottwice.agent import providers
from nottwice.agent.messages import (
    Message,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Unknown,
    said,
)
from nottwice.agent.provider import ModelReply, ModelRequest, StopReason, ToolSchema, Usage
from tests.agent.providers.bodies import (
    CITED,
    FUNCTION_CALL,
    REASONING,
    REDACTED,
    SERVER_TOOL,
    THINKING,
    TOOL_USE,
    claude_says,
)
from tests.agent.wire_server import Wire


def complete(
    wire: Wire, body: dict[str, Any], *, model: str = "claude-sonnet-5-5", **request: Any
) -> tuple[ModelReply, dict[str, Any]]:
    """One turn: the reply, and the body of the request that was sent."""
    # The SDK's own type says whether this is what the API would answer.
    anthropic.types.Message.model_validate(body)
    wire.will_answer({"body": body})
    asked = providers.anthropic(model, base_url=wire.url, api_key="key", cache=False)
    request.setdefault("messages", (said("Hello"),))
    reply = asked.complete(ModelRequest(**request))
    (sent,) = wire.requests
    return reply, sent["body"]


def again(wire: Wire, reply: ModelReply) -> Any:
    """What is sent of a reply in the next turn, after a rest in the ledger."""
    rested = ModelReply.from_plain(reply.to_plain()).message
    messages = (said("Hello"), rested, said("Go on"))
    return complete(wire, claude_says("ok"), messages=messages)[1]["messages"][1]


def test_a_request_says_what_was_asked(wire: Wire) -> None:
    schema = {"properties": {"order_id": {"type": "integer"}}, "required": ["order_id"]}
    tools = (
        ToolSchema("get_order", "Look an order up.", schema),
        ToolSchema("now", "The time.", {}),
    )
    _, sent = complete(wire, claude_says("Hi"), system="Be brief.", tools=tools)
    assert sent["model"] == "claude-sonnet-5-5"
    assert sent["system"] == [{"type": "text", "text": "Be brief."}]
    assert sent["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
    assert sent["tools"] == [
        {
            "name": "get_order",
            "description": "Look an order up.",
            "input_schema": {"type": "object", **schema},
        },
        {
            "name": "now",
            "description": "The time.",
            "input_schema": {"type": "object", "properties": {}},
        },
    ]


def test_a_reply_is_read_with_what_it_took(wire: Wire) -> None:
    reply, _ = complete(wire, claude_says("Hi", THINKING))
    assert reply.usage == Usage(100, 20, 1000, 300)
    assert (reply.stop, reply.model) == (StopReason.END, "claude-sonnet-5-5")
    assert reply.message.blocks[0] == Text("Hi")
    thought = reply.message.blocks[1]
    assert isinstance(thought, Reasoning)
    assert thought.text == "Let me look."
    assert reply.extra["anthropic"]["usage"]["service_tier"] == "standard"


@pytest.mark.parametrize(
    "content",
    [
        ("Hi",),
        (THINKING, "Hi", TOOL_USE),
        (REDACTED, THINKING, TOOL_USE, {**TOOL_USE, "id": "toolu_02"}),
        (SERVER_TOOL, "Found."),
    ],
    ids=["text", "thinking", "redacted thinking", "unknown kinds"],
)
def test_a_reply_goes_back_as_it_came(wire: Wire, content: tuple[Any, ...]) -> None:
    body = claude_says(*content)
    reply, _ = complete(wire, body)
    assert again(wire, reply) == {"role": "assistant", "content": body["content"]}


@pytest.mark.parametrize(
    ("model", "kept"),
    [
        ("claude-sonnet-5-5", False),
        ("claude-fable-5-1-20260901", False),
        ("claude-opus-6", False),
        ("claude-opus-5", True),
        ("claude-opus-5-20260724", True),
        ("claude-opus-4-8-20260301", True),
        ("somebodys-model", True),
    ],
)
@pytest.mark.parametrize("change", ["system", "tools", "messages"])
def test_a_thought_is_left_out_where_a_model_would_not_take_it_back(
    wire: Wire, model: str, kept: bool, change: str
) -> None:
    tools = (ToolSchema("now", "The time.", {}),)
    asked: dict[str, Any] = {"system": "Be brief.", "tools": tools, "messages": (said("Hello"),)}
    reply, _ = complete(wire, claude_says(THINKING, TOOL_USE), model=model, **asked)
    result = Message(Role.USER, (ToolResult("toolu_01", "found"),))
    messages = (said("Hello"), reply.message, result)
    marked = Message(
        Role.USER, (Text("Hello", {"anthropic": {"cache_control": {"type": "ephemeral"}}}),)
    )
    same = {**asked, "messages": (marked, *messages[1:])}
    _, sent = complete(wire, claude_says("ok"), model=model, **same)
    assert sent["messages"][1]["content"] == [THINKING, TOOL_USE]
    other = {"system": "Be long.", "tools": (), "messages": (said("Hello again"), *messages[1:])}
    changed = {**asked, "messages": messages, change: other[change]}
    _, sent = complete(wire, claude_says("ok"), model=model, **changed)
    assert sent["messages"][1]["content"] == ([THINKING, TOOL_USE] if kept else [TOOL_USE])


def test_thoughts_of_many_turns_stay_where_nothing_changes(wire: Wire) -> None:
    messages: tuple[Message, ...] = (said("Hello"),)
    for turn in range(3):
        reply, sent = complete(wire, claude_says(THINKING, f"turn {turn}"), messages=messages)
        thoughts = [block for one in sent["messages"] for block in one["content"]].count(THINKING)
        assert thoughts == turn
        messages = (*messages, reply.message, said("Go on"))


def test_citations_and_fields_of_the_future_go_back(wire: Wire) -> None:
    future = {"type": "text", "text": "Hi", "mood": {"calm": 1}}
    wire.will_answer({"body": claude_says(CITED, future, {"type": "hologram", "rays": [1.5]})})
    asked = providers.anthropic("claude-sonnet-5-5", base_url=wire.url, api_key="key")
    reply = asked.complete(ModelRequest(messages=(said("Hello"),)))
    assert isinstance(reply.message.blocks[2], Unknown)
    sent = again(wire, reply)["content"]
    assert sent == [CITED, future, {"type": "hologram", "rays": [1.5]}]


def test_cache_marks_are_sent_where_they_were_put(wire: Wire) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    marked = Message(Role.USER, (Text("A long story", {"anthropic": mark}), Text("And now?")))
    _, sent = complete(wire, claude_says("Hi"), messages=(marked,))
    first, second = sent["messages"][0]["content"]
    assert first == {"type": "text", "text": "A long story", **mark}
    assert "cache_control" not in second


def test_results_of_tools_come_before_what_else_is_said(wire: Wire) -> None:
    reply, _ = complete(wire, claude_says(TOOL_USE, stop="tool_use"))
    assert reply.stop is StopReason.TOOL_CALLS
    assert reply.message.tool_calls == (ToolCall("toolu_01", "get_order", {"order_id": 7}),)
    blocks = (
        Text("By the way"),
        ToolResult("toolu_01", "gone", is_error=True, receipt_id="abc"),
    )
    messages = (said("Hello"), reply.message, Message(Role.USER, blocks))
    _, sent = complete(wire, claude_says("ok"), messages=messages)
    assert sent["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_01", "content": "gone", "is_error": True},
        {"type": "text", "text": "By the way"},
    ]


@pytest.mark.parametrize(
    ("said_stop", "stop"),
    [
        ("stop_sequence", StopReason.END),
        ("max_tokens", StopReason.TRUNCATED),
        ("model_context_window_exceeded", StopReason.TRUNCATED),
        ("refusal", StopReason.REFUSED),
        ("pause_turn", StopReason.OTHER),
    ],
)
def test_why_it_stopped_is_told(wire: Wire, said_stop: str, stop: StopReason) -> None:
    assert complete(wire, claude_says("Hi", stop=said_stop))[0].stop is stop


def test_a_call_that_was_cut_off_is_not_one_that_can_be_made(wire: Wire) -> None:
    half = {**TOOL_USE, "id": "toolu_02", "input": {"order_id": 7, "note": "as we ag"}}
    reply, _ = complete(wire, claude_says(TOOL_USE, half, stop="max_tokens"))
    whole, cut = reply.message.tool_calls
    assert (whole.arguments, whole.unreadable) == ({"order_id": 7}, None)
    assert cut.arguments == {}
    assert cut.unreadable == '{"order_id": 7, "note": "as we ag"}'
    assert again(wire, reply)["content"] == [TOOL_USE, half]


def test_what_another_provider_said_is_sent_as_far_as_it_can_be(wire: Wire) -> None:
    foreign = Message(
        Role.ASSISTANT,
        (
            Reasoning("I thought", {"openai": REASONING}),
            Text("I said", {"openai": {"part": {"type": "output_text"}}}),
            Text("   "),
            ToolCall("call_01", "get_order", {"order_id": 7}, extra={"openai": FUNCTION_CALL}),
            Unknown({"type": "web_search_call"}, {"openai": {}}),
        ),
    )
    silent = Message(Role.ASSISTANT, (Text(""),))
    messages = (said("Hello"), foreign, silent, said("Go on"))
    _, sent = complete(wire, claude_says("ok"), messages=messages)
    assert [each["role"] for each in sent["messages"]] == ["user", "assistant", "user"]
    assert sent["messages"][1]["content"] == [
        {"type": "text", "text": "I said"},
        {"type": "tool_use", "id": "call_01", "name": "get_order", "input": {"order_id": 7}},
    ]
