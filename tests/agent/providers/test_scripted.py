"""Does a scripted model say what it was told to say, and can its requests be counted?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nottwice.agent.messages import Reasoning, Text, ToolCall, said
from nottwice.agent.provider import ModelRequest, Provider, StopReason
from nottwice.agent.providers.scripted import requests_in, scripted
from nottwice.errors import Retryable, UsageError


def request(turn: int) -> ModelRequest:
    return ModelRequest(messages=(said("go"),), turn=turn)


def test_it_answers_by_turn_however_often_it_is_asked(tmp_path: Path) -> None:
    log = tmp_path / "requests"
    provider = scripted(["one", "two"], log=log)
    assert isinstance(provider, Provider)
    assert requests_in(log) == []
    for turn in (1, 1, 2, 1):
        assert provider.complete(request(turn)).message.text == ("one", "two")[turn - 1]
    assert requests_in(log) == [1, 1, 2, 1]


@pytest.mark.parametrize(
    ("reply", "blocks"),
    [
        ("hi", (Text("hi"),)),
        ({"look": {"at": 1}}, (ToolCall("call_1_0_0", "look", {"at": 1}),)),
        (["hm", {"look": {}}], (Text("hm"), ToolCall("call_1_1_1", "look", {}))),
        ([Reasoning("hm")], (Reasoning("hm"),)),
    ],
)
def test_a_reply_can_be_text_or_calls_or_both(reply: Any, blocks: Any) -> None:
    found = scripted([reply]).complete(request(1))
    assert found.message.blocks == blocks
    calls = any(isinstance(block, ToolCall) for block in blocks)
    assert found.stop is (StopReason.TOOL_CALLS if calls else StopReason.END)
    assert found.usage.tokens > 0


def test_it_can_fail_and_can_be_a_function() -> None:
    provider = scripted(lambda asked: Retryable("busy") if asked.turn == 1 else "fine")
    with pytest.raises(Retryable):
        provider.complete(request(1))
    assert asyncio.run(provider.acomplete(request(2))).message.text == "fine"


def test_a_script_that_is_too_short_says_so() -> None:
    with pytest.raises(UsageError, match=r"1 replies.*reply 2"):
        scripted(["one"]).complete(request(2))
