"""A guard over a shop that is only a Python object, and clients that come and go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nottwice as nt
from nottwice.mcp import ToolAnswer, ToolGuard, ToolPlans, read_tools
from tests.fakes import FakeClock

TOOLS: list[dict[str, Any]] = [
    {"name": "read", "inputSchema": {}, "annotations": {"readOnlyHint": True}},
    {"name": "write", "inputSchema": {"type": "object"}},
    {"name": "set", "inputSchema": {}, "annotations": {"idempotentHint": True}},
    {"name": "charge", "inputSchema": {"type": "object", "properties": {}}},
]


class Shop:
    """The world: what was done, and how the next call ends."""

    def __init__(self, path: Path, *, decide_in_client: bool = False, **said: Any) -> None:
        self.path, self.said, self.decide_in_client = path, said, decide_in_client
        self.done: list[tuple[str, Any]] = []
        self.disk = "v0"
        self.fails: Callable[[], Any] | None = None
        self.clock = FakeClock()
        self._ledgers: list[nt.Ledger] = []
        self.begin()

    def begin(self) -> None:
        """Start a process: what another one has only in memory is gone."""
        self.ledger = nt.Ledger(self.path, clock=self.clock)
        self._ledgers.append(self.ledger)
        plans = ToolPlans("shop", read_tools(self.said))
        plans.learn(TOOLS)
        self.guard = ToolGuard(self.ledger, plans, decide_in_client=self.decide_in_client)

    def close(self) -> None:
        for ledger in self._ledgers:
            ledger.close()

    async def send(self, params: dict[str, Any]) -> dict[str, Any]:
        name, given = params["name"], params.get("arguments", {})
        if name == "read":
            return {"content": [{"type": "text", "text": self.disk}]}
        if name == "write":
            self.disk = given["text"]
        self.done.append((name, given))
        if self.fails is not None:
            result: dict[str, Any] = self.fails()
            return result
        return {"content": [{"type": "text", "text": f"{name} {len(self.done)}"}]}

    def client(self) -> Client:
        return Client(self)


class Client:
    """One client: what it is told, and whether it got it."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.connection = shop.guard.connect()

    async def call(self, tool: str, *, meta: Any = None, ask: Any = None, **given: Any) -> str:
        """Call a tool, and get the answer."""
        return texts(await self.begin(tool, meta=meta, ask=ask, **given))

    async def begin(
        self, tool: str, *, meta: Any = None, ask: Any = None, more: Any = None, **given: Any
    ) -> ToolAnswer:
        await self.connection.heard()
        params = {"name": tool, "arguments": given, **(more or {})}
        if meta is not None:
            params["_meta"] = meta
        guard = self.shop.guard
        answered = await guard.call(params, self.shop.send, connection=self.connection, ask=ask)
        self.connection.written(answered)
        return answered


def texts(answered: ToolAnswer) -> str:
    return "\n".join(one["text"] for one in answered.result["content"])


def lost() -> Any:
    raise ConnectionError("the connection broke")
