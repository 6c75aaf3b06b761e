"""One HTTP request and its answer: one JSON text, or a stream of events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from nottwice.mcp.proxy import messages
from nottwice.mcp.proxy.messages import Message

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
SESSION = "mcp-session-id"
EVENTS = "text/event-stream"
_REFUSED = -32000


class Exchange:
    """What a client asked in one HTTP request, and how it is answered."""

    def __init__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.query: bytes = scope.get("query_string", b"")
        self.pairs: list[tuple[bytes, bytes]] = list(scope["headers"])
        self.headers = {name.decode("latin-1"): one.decode("latin-1") for name, one in self.pairs}
        self.peer = str(scope.get("client"))
        """The TCP connection's other end."""
        self.is_streaming = False
        self.is_over = False
        self.is_gone = False
        self._receive, self._send = receive, send
        self._lock = asyncio.Lock()

    async def body(self) -> bytes:
        """Read the body of the request."""
        parts = []
        while True:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                self.is_gone = True
                break
            parts.append(event.get("body", b""))
            if not event.get("more_body"):
                break
        return b"".join(parts)

    async def wait_until_gone(self) -> None:
        """Return when the client has closed the connection, or the answer is complete."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.is_gone = not self.is_over

    async def refuse(self, status: int, text: str) -> None:
        """Answer with an error."""
        error = {"code": _REFUSED, "message": text}
        await self.answer(json.dumps(messages.failure(None, error)).encode(), status=status)

    async def answer(
        self,
        body: bytes,
        *,
        status: int = 200,
        kind: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> bool:
        """Send the whole answer. False: the client is gone."""
        given = {"content-type": kind, **(headers or {})} if body or headers else {}
        pairs = [(name.encode("latin-1"), one.encode("latin-1")) for name, one in given.items()]
        pairs.append((b"content-length", str(len(body)).encode()))
        return await self.raw(status, pairs, body)

    async def raw(self, status: int, pairs: list[tuple[bytes, bytes]], body: bytes) -> bool:
        """Send the whole answer with exactly these headers."""
        async with self._lock:
            self.is_over = True
            await self._say({"type": "http.response.start", "status": status, "headers": pairs})
            return await self._say({"type": "http.response.body", "body": body})

    async def begin(
        self, *, status: int = 200, pairs: list[tuple[bytes, bytes]] | None = None
    ) -> None:
        """Begin a stream, of events unless the headers say otherwise."""
        async with self._lock:
            if self.is_streaming or self.is_over:
                return
            self.is_streaming = True
            usual = [(b"content-type", EVENTS.encode()), (b"cache-control", b"no-cache")]
            start = {"type": "http.response.start", "status": status, "headers": pairs or usual}
            await self._say(start)

    async def write(self, part: bytes) -> bool:
        """Send a part of a stream. False: the client is gone."""
        async with self._lock:
            if self.is_over:
                return False
            return await self._say({"type": "http.response.body", "body": part, "more_body": True})

    async def end(self) -> None:
        """End a stream."""
        async with self._lock:
            if self.is_streaming and not self.is_over:
                self.is_over = True
                await self._say({"type": "http.response.body", "body": b""})

    async def _say(self, event: Mapping[str, Any]) -> bool:
        if self.is_gone:
            return False
        try:
            await self._send(event)
        except OSError:
            self.is_gone = True
        return not self.is_gone


def event_of(message: Message | bytes) -> bytes:
    """Return a message as an event of a stream."""
    line = message if isinstance(message, bytes) else messages.written(message)
    return b"event: message\ndata: " + line.strip() + b"\n\n"


class EventReader:
    """Cuts a stream into events."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the events that are complete, each with its empty line."""
        found = []
        self._rest = (self._rest + chunk).replace(b"\r\n", b"\n")
        while b"\n\n" in self._rest:
            event, _, self._rest = self._rest.partition(b"\n\n")
            found.append(event + b"\n\n")
        return found


def message_in(event: bytes) -> Message | None:
    """Return the message of an event. None: it has none."""
    lines = [line for line in event.split(b"\n") if line.startswith(b"data:")]
    text = b"\n".join(line[5:].removeprefix(b" ") for line in lines)
    try:
        read = json.loads(text) if text.strip() else None
    except ValueError:
        return None
    return read if isinstance(read, dict) else None


def event_with(event: bytes, message: Message) -> bytes:
    """Return an event with another message and its own id and name."""
    kept = [line for line in event.strip(b"\n").split(b"\n") if not line.startswith(b"data:")]
    return b"\n".join([*kept, b"data: " + messages.written(message).strip()]) + b"\n\n"


def has_id(event: bytes) -> bool:
    """Whether a stream can be continued after this event."""
    return any(line.startswith(b"id:") for line in event.split(b"\n"))
