"""HTTP requests to an ASGI application, without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from nottwice.mcp.proxy.exchange import Exchange, message_in

LIMIT_SECONDS = 60.0


class Request:
    """One request: what is sent, and what comes back."""

    def __init__(
        self,
        body: Any = None,
        *,
        method: str = "POST",
        peer: int = 1,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self._incoming: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._incoming.put_nowait({"type": "http.request", "body": content})
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.is_over = asyncio.Event()
        given = {"host": "localhost:8080", **(headers or {})}
        pairs = [(name.encode(), one.encode()) for name, one in given.items()]
        self.scope = {
            "type": "http",
            "method": method,
            "path": "/mcp",
            "headers": pairs,
            "client": ("127.0.0.1", peer),
        }

    @property
    def exchange(self) -> Exchange:
        return Exchange(self.scope, self.receive, self.send)

    async def receive(self) -> Mapping[str, Any]:
        return await self._incoming.get()

    async def send(self, event: Mapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self.status = event["status"]
            self.headers = {one.decode(): two.decode() for one, two in event["headers"]}
            return
        body = event.get("body", b"")
        self.body += body
        message = message_in(body)
        if message is not None:
            self._events.put_nowait(message)
        if not event.get("more_body"):
            self.is_over.set()
            self.leave()

    def leave(self) -> None:
        """Close the connection."""
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def message(self) -> Any:
        return await asyncio.wait_for(self._events.get(), LIMIT_SECONDS)
