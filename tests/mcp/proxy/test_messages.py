"""Requests, answers and notifications are told apart, and ids are not confused."""

from __future__ import annotations

import pytest

from nottwice.mcp.proxy import messages


def test_messages_are_told_apart() -> None:
    asked = messages.request("a", "ping", {})
    assert messages.is_request(asked)
    assert not messages.is_answer(asked)
    assert not messages.is_request({"method": "notifications/initialized"})
    assert messages.is_answer(messages.answer(1, {}))
    assert messages.is_answer(messages.failure(1, {"code": 1}))
    assert messages.params_of({"params": [1]}) == {}


def test_a_line_is_read_and_written_as_it_was() -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"text": "ü\u2028"}}
    line = messages.written(message)
    assert line.count(b"\n") == 1
    assert messages.read_line(line) == [message]
    assert messages.read_line(b"[" + line + b"]") == [message]


@pytest.mark.parametrize("line", [b"hello", b"1", b"[]", b"[1]", b"\xff"])
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        messages.read_line(line)


def test_a_number_and_a_text_are_different_ids() -> None:
    assert messages.id_key(1) != messages.id_key("1")
