"""Does a conversation reach a model of OpenAI and come back without loss? (P80)"""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import Response

import nottwice as nt
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
from nottwice.errors import ModelRefused, ToolFailure
from tests.agent.providers.bodies import (
    FUNCTION_CALL,
    REASONING,
    THINKING,
    WEB_SEARCH,
    gpt_says,
    output_message,
)
from tests.agent.wire_server import Wire


def complete(wire: Wire, body: dict[str, Any], **request: Any) -> tuple[ModelReply, dict[str, Any]]:
    """One turn: the reply, and the body of the request that was sent."""
    # The SDK's own type says whether this is what the API would answer.
    Response.model_validate(body)
    wire.will_answer({"body": body})
    asked = providers.openai("gpt-5.4-mini", base_url=f"{wire.url}/v1", api_key="key")
    request.setdefault("messages", (said("Hello"),))
    reply = asked.complete(ModelRequest(**request))
    (sent,) = wire.requests
    return reply, sent["body"]


def again(wire: Wire, reply: ModelReply, **more: Any) -> list[dict[str, Any]]:
    """The items that are sent of a reply in the next turn, after a rest in the ledger."""
    rested = ModelReply.from_plain(reply.to_plain()).message
    messages = (said("Hello"), rested, said("Go on"))
    _, sent = complete(wire, gpt_says("ok"), messages=messages, **more)
    items: list[dict[str, Any]] = sent["input"]
    return items[1:-1]


def test_a_request_says_what_was_asked_and_leaves_nothing_there(wire: Wire) -> None:
    schema = {"properties": {"order_id": {"type": "integer"}}, "required": ["order_id"]}
    tools = (ToolSchema("get_order", "Look an order up.", schema),)
    _, sent = complete(wire, gpt_says("Hi"), system="Be brief.", tools=tools)
    assert (sent["model"], sent["instructions"]) == ("gpt-5.4-mini", "Be brief.")
    assert sent["input"] == [
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "Hello"}],
        }
    ]
    assert sent["tools"] == [
        {
            "type": "function",
            "name": "get_order",
            "description": "Look an order up.",
            "parameters": {"type": "object", **schema},
            "strict": False,
        }
    ]
    assert sent["store"] is False
    assert sent["include"] == ["reasoning.encrypted_content"]


def test_a_reply_is_read_with_what_it_took(wire: Wire) -> None:
    reply, _ = complete(wire, gpt_says(REASONING, "Hi"))
    assert reply.usage == Usage(100, 20, 1000, 300)
    assert (reply.stop, reply.model) == (StopReason.END, "gpt-5.4-mini")
    thought, spoken = reply.message.blocks
    assert isinstance(thought, Reasoning)
    assert thought.text == "Look first.\n\nThen act."
    assert isinstance(spoken, Text)
    assert spoken.text == "Hi"
    assert "instructions" not in reply.extra["openai"]


@pytest.mark.parametrize(
    "output",
    [
        ("Hi",),
        (REASONING, FUNCTION_CALL, {**FUNCTION_CALL, "id": "fc_02", "call_id": "call_02"}),
        (output_message("one", "two", phase="commentary"), output_message("three", id="msg_02")),
        (REASONING, WEB_SEARCH, "Found."),
    ],
    ids=["text", "reasoning and calls", "parts of messages", "unknown kinds"],
)
def test_a_reply_goes_back_as_it_came(wire: Wire, output: tuple[Any, ...]) -> None:
    body = gpt_says(*output)
    reply, _ = complete(wire, body)
    assert again(wire, reply) == [without_id(item) for item in body["output"]]
    stored = again(wire, reply, options={"store": True})
    assert stored == body["output"]


def without_id(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "id"}


def test_reasoning_that_can_only_be_looked_up_is_left_out(wire: Wire) -> None:
    bare = {**REASONING, "encrypted_content": None}
    reply, _ = complete(wire, gpt_says(bare, "Hi"))
    assert [item["type"] for item in again(wire, reply)] == ["message"]


def test_calls_and_their_results(wire: Wire) -> None:
    reply, _ = complete(wire, gpt_says(REASONING, FUNCTION_CALL))
    assert reply.stop is StopReason.TOOL_CALLS
    (call,) = reply.message.tool_calls
    assert (call.id, call.name, call.arguments) == ("call_01", "get_order", {"order_id": 7})
    result = Message(Role.USER, (ToolResult("call_01", "found"), Text("By the way")))
    _, sent = complete(wire, gpt_says("ok"), messages=(said("Hello"), reply.message, result))
    assert sent["input"][3:] == [
        {"type": "function_call_output", "call_id": "call_01", "output": "found"},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "By the way"}],
        },
    ]


@pytest.mark.parametrize("arguments", ["", "{", "7", '"text"', '{"order_id": 7'])
def test_arguments_that_are_no_object_are_kept_as_they_were_written(
    wire: Wire, arguments: str
) -> None:
    reply, _ = complete(wire, gpt_says({**FUNCTION_CALL, "arguments": arguments}))
    (call,) = reply.message.tool_calls
    assert (call.arguments, call.unreadable) == ({}, arguments)
    assert again(wire, reply)[0]["arguments"] == arguments


def test_a_call_that_was_cut_off_is_not_one_that_can_be_made(wire: Wire) -> None:
    body = gpt_says(
        {**FUNCTION_CALL, "status": "incomplete"},
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
    )
    reply, _ = complete(wire, body)
    assert reply.stop is StopReason.TRUNCATED
    assert reply.message.tool_calls[0].unreadable == FUNCTION_CALL["arguments"]


def test_a_refusal_is_a_reply_that_says_so(wire: Wire) -> None:
    body = gpt_says(output_message({"type": "refusal", "refusal": "I would rather not."}))
    reply, _ = complete(wire, body)
    assert (reply.stop, reply.message.text) == (StopReason.REFUSED, "I would rather not.")
    assert again(wire, reply) == [without_id(item) for item in body["output"]]


@pytest.mark.parametrize(
    ("reason", "stop"), [("content_filter", StopReason.REFUSED), ("steered", StopReason.OTHER)]
)
def test_why_it_stopped_is_told(wire: Wire, reason: str, stop: StopReason) -> None:
    body = gpt_says("Hi", status="incomplete", incomplete_details={"reason": reason})
    assert complete(wire, body)[0].stop is stop


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("server_error", nt.Ambiguous),
        ("rate_limit_exceeded", nt.Retryable),
        ("bio_policy", ModelRefused),
        ("invalid_image", nt.Permanent),
    ],
)
def test_a_response_that_failed_is_told_in_our_words(
    wire: Wire, code: str, expected: type[ToolFailure]
) -> None:
    body = gpt_says(status="failed", error={"code": code, "message": "it did not work"})
    with pytest.raises(expected, match="it did not work"):
        complete(wire, body)


def test_what_another_provider_said_is_sent_as_far_as_it_can_be(wire: Wire) -> None:
    foreign = Message(
        Role.ASSISTANT,
        (
            Reasoning("I thought", {"anthropic": THINKING}),
            Text("I said"),
            Text("twice"),
            ToolCall("toolu_01", "get_order", {"order_id": 7}),
            Unknown({"type": "server_tool_use"}, {"anthropic": {}}),
        ),
    )
    _, sent = complete(wire, gpt_says("ok"), messages=(said("Hello"), foreign, said("Go on")))
    spoken = [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": text}],
        }
        for text in ("I said", "twice")
    ]
    called = {
        "type": "function_call",
        "call_id": "toolu_01",
        "name": "get_order",
        "arguments": '{"order_id": 7}',
    }
    assert sent["input"][1:-1] == [*spoken, called]
