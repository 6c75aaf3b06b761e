"""Events are cut, read and changed without losing their ids; a client that is gone is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from nottwice.mcp.proxy.exchange import (
    EventReader,
    Exchange,
    event_of,
    event_with,
    has_id,
    message_in,
)
from tests.mcp.proxy.asgi import Request


def test_events_are_cut_wherever_the_network_cuts_them() -> None:
    message = {"jsonrpc": "2.0", "id": 1, "result": {"text": "a\nb"}}
    stream = b"id: 1\r\ndata: \r\n\r\n" + event_of(message) + b": a comment\n\n"
    for size in (1, 3, 1000):
        reader = EventReader()
        parts = [stream[at : at + size] for at in range(0, len(stream), size)]
        found = [event for part in parts for event in reader.feed(part)]
        assert [message_in(event) for event in found] == [None, message, None]
        assert [has_id(event) for event in found] == [True, False, False]


def test_a_changed_event_keeps_its_id() -> None:
    changed = event_with(b"event: message\nid: 7\ndata: {}\n\n", {"a": 1})
    assert changed == b'event: message\nid: 7\ndata: {"a":1}\n\n'
    assert message_in(b"data: [1]\n\n") is None
    assert message_in(b"data: {\n\n") is None


def test_a_client_that_is_gone_gets_nothing_and_that_is_known() -> None:
    async def main() -> None:
        request = Request({"a": 1})

        async def broken(event: Mapping[str, Any]) -> None:
            raise OSError("gone")

        exchange = Exchange(request.scope, request.receive, broken)
        assert await exchange.body() == b'{"a": 1}'
        await exchange.begin()
        assert not await exchange.write(b"x")
        assert exchange.is_gone

    asyncio.run(main())
