"""A page in a browser cannot reach a server on the user's own machine."""

from __future__ import annotations

import asyncio

import pytest

from nottwice.mcp.proxy.exchange import Exchange
from nottwice.mcp.proxy.http import application_of
from tests.mcp.proxy.asgi import Request


class _Reached:
    async def handle(self, exchange: Exchange) -> None:
        await exchange.answer(b"{}")

    async def close(self) -> None:
        return None


@pytest.mark.parametrize(
    ("headers", "path", "status"),
    [
        ({}, "/mcp", 200),
        ({"host": "127.0.0.1:8080", "origin": "http://localhost:3000"}, "/mcp/", 200),
        ({"host": "[::1]:8080"}, "/mcp", 200),
        ({"host": "evil.example"}, "/mcp", 403),
        ({"host": "evil.example:8080"}, "/mcp", 403),
        ({"origin": "http://evil.example"}, "/mcp", 403),
        ({"origin": "null"}, "/mcp", 403),
        ({}, "/other", 404),
    ],
)
def test_only_this_machine_is_served(headers: dict[str, str], path: str, status: int) -> None:
    async def main() -> None:
        request = Request({}, headers=headers)
        application = application_of(_Reached())
        await application({**request.scope, "path": path}, request.receive, request.send)
        assert request.status == status

    asyncio.run(main())
