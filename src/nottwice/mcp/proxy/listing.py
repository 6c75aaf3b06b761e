"""Ask a server for its tools, as a client would: for ``nottwice proxy --init``."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

from nottwice.errors import UsageError
from nottwice.mcp.proxy import messages
from nottwice.mcp.proxy.messages import Message
from nottwice.mcp.proxy.upstream import CommandFailed, ServerProcess, UpstreamGone

_LIMIT_SECONDS = 60.0
_HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "nottwice", "version": "0.1"},
}


async def list_tools(command: Sequence[str]) -> list[dict[str, Any]]:
    """Start a server, return its tools, and end it. UsageError if it does not list them."""
    visitor = _Visitor(command)
    try:
        return await asyncio.wait_for(visitor.tools(), _LIMIT_SECONDS)
    except (CommandFailed, UpstreamGone, TimeoutError, ValueError) as error:
        raise UsageError(
            f"The server did not list its tools: {str(error) or 'it did not answer'}. Nothing was "
            "written. Try its command without nottwice first."
        ) from error
    finally:
        await visitor.end()


class _Visitor:
    """A client that asks for the tools and leaves."""

    def __init__(self, command: Sequence[str]) -> None:
        self._upstream = ServerProcess(command, self._heard, self._ended, say=lambda text: None)
        self._numbers = itertools.count(1)
        self._asked: dict[Any, asyncio.Future[Message]] = {}

    async def tools(self) -> list[dict[str, Any]]:
        await self._upstream.start()
        await self._ask("initialize", _HELLO)
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self._upstream.write(messages.written(ready))
        found: list[dict[str, Any]] = []
        asked: dict[str, Any] = {}
        while True:
            listed = await self._ask(messages.LIST, asked)
            found += [one for one in listed.get("tools", ()) if isinstance(one, dict)]
            if not listed.get("nextCursor"):
                return found
            asked = {"cursor": listed["nextCursor"]}

    async def end(self) -> None:
        await self._upstream.close()

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        own_id = f"{messages.OWN}{next(self._numbers)}"
        asked = self._asked[own_id] = asyncio.get_running_loop().create_future()
        await self._upstream.write(messages.written(messages.request(own_id, method, params)))
        said = await asked
        if not isinstance(said.get("result"), dict):
            raise ValueError(f"it answered {method} with {said.get('error')}")
        result: dict[str, Any] = said["result"]
        return result

    async def _heard(self, line: bytes) -> None:
        for message in messages.read_line(line):
            asked = self._asked.pop(message.get("id"), None)
            if messages.is_answer(message) and asked is not None:
                asked.set_result(message)

    async def _ended(self) -> None:
        for asked in self._asked.values():
            asked.set_exception(UpstreamGone("it ended"))
            # It is not awaited yet if the request could not be written.
            asked.exception()
