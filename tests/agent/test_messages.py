"""Is every part of a message stored and read back, even the parts that only a provider knows?"""

from __future__ import annotations

from typing import Any

import pytest

from nottwice.agent.messages import (
    Block,
    Message,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Unknown,
    from_payload,
    said,
)
from nottwice.errors import LedgerCorrupt
from nottwice.model import values

BLOCKS: list[Block] = [
    Text("hello"),
    Text("cached", {"cache_control": {"type": "ephemeral"}}),
    Reasoning("let me see", {"signature": "EqoB…", "budget": 1024}),
    Reasoning("", {"redacted": "AAECAw=="}),
    ToolCall("call_1", "refund", {"order_id": 2**63, "cents": 10.5, "note": None}),
    ToolCall("call_2", "refund", {}, unreadable='{"order_id": 7', extra={"index": 0}),
    ToolResult("call_1", "40 cents", receipt_id="ab12"),
    ToolResult("call_2", "no such order", is_error=True, extra={"name": "refund"}),
    Unknown({"type": "server_tool_use", "input": [1, {"deep": True}]}),
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: type(block).__name__)
def test_a_block_comes_back_as_it_was(block: Block) -> None:
    message = Message(Role.ASSISTANT, (block,), {"id": "message_1"})
    kept = values.decode(values.encode(message.to_plain()))
    assert Message.from_plain(kept) == message


def test_a_message_says_what_is_in_it() -> None:
    message = Message(Role.ASSISTANT, tuple(BLOCKS))
    assert message.text == "hello\ncached"
    assert [call.id for call in message.tool_calls] == ["call_1", "call_2"]
    assert [result.call_id for result in message.tool_results] == ["call_1", "call_2"]


def test_what_is_absent_takes_no_room() -> None:
    assert said("hello").to_plain() == {
        "role": "user",
        "blocks": [{"kind": "text", "text": "hello"}],
    }


@pytest.mark.parametrize(
    "plain",
    [
        None,
        [],
        {"role": "user"},
        {"role": "robot", "blocks": []},
        {"role": "user", "blocks": [], "more": 1},
        {"role": "user", "blocks": [{"kind": "song", "text": "la"}]},
        {"role": "user", "blocks": [{"kind": ["text"], "text": "la"}]},
        {"role": "user", "blocks": [{"kind": "text"}]},
        {"role": "user", "blocks": [{"kind": "text", "text": "la", "tune": "re"}]},
        {"role": "user", "blocks": ["la"]},
    ],
)
def test_what_was_not_written_here_is_not_believed(plain: Any) -> None:
    with pytest.raises(LedgerCorrupt, match="recorded message cannot be read"):
        Message.from_plain(plain)


@pytest.mark.parametrize(
    ("payload", "heard"),
    [
        ("Hello", "Hello"),
        ({"text": "Hello"}, "Hello"),
        ({"blocks": [{"kind": "text", "text": "Hello"}]}, "Hello"),
        ({"text": "Hello", "blocks": [7]}, "Hello"),
        ({"blocks": []}, '{"blocks":[]}'),
        ([1], "[1]"),
    ],
)
def test_whatever_is_sent_as_a_message_is_heard(payload: Any, heard: str) -> None:
    assert from_payload(payload) == said(heard)


@pytest.mark.parametrize(
    "block",
    [
        {"kind": "tool_result", "call_id": "c", "content": "paid"},
        {"kind": "reasoning", "text": "I may."},
        {"kind": "text", "text": "x", "extra": {"anthropic": {"type": "thinking"}}},
        {"kind": "file", "where": "/etc/hostname"},
    ],
)
def test_a_message_that_is_sent_cannot_pass_for_anything_else(block: Any) -> None:
    heard = from_payload({"blocks": [block]})
    assert all(isinstance(one, Text) and not one.extra for one in heard.blocks)
