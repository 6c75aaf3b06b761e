"""A server that protects its own tools, without an SDK: as a process that is killed, or in a test.

    python -m tests.mcp.serving_program STORE WORLD DIES

It makes one call of ``charge``, prints the result, and dies where it is told to.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from nottwice.mcp.serving import ServedRequest, ToolServer

CHARGE = {"name": "charge", "arguments": {"cents": 7}}


class Shop:
    """Tools whose effects are lines of a file."""

    def __init__(self, world: Path, dies: str = "") -> None:
        self._world, self._dies = world, dies
        self.answers: list[dict[str, Any]] = []

    @property
    def effects(self) -> list[str]:
        return self._world.read_text().split("\n")[:-1] if self._world.exists() else []

    async def send(self, params: dict[str, Any]) -> dict[str, Any]:
        """Run a tool, as the SDK would."""
        if self.answers:
            return self.answers.pop(0)
        cents = params["arguments"]["cents"]
        with self._world.open("a") as outside:
            outside.write(f"charge {cents}\n")
            outside.flush()
            os.fsync(outside.fileno())
        if self._dies == "after the effect":
            os.kill(os.getpid(), signal.SIGKILL)
        return {
            "content": [{"type": "text", "text": f'{{"charged": {cents}}}'}],
            "structuredContent": {"charged": cents},
        }


def tool_server(store: Any, **options: Any) -> ToolServer:
    given = {
        "tools": None,
        "name": "shop",
        "trust_annotations": True,
        "let_client_decide": False,
        "shows_repeat": True,
        **options,
    }
    server = ToolServer(store, **given)
    server.plans.learn(
        [
            {
                "name": "charge",
                "inputSchema": {"type": "object", "properties": {"cents": {"type": "integer"}}},
                "outputSchema": {"type": "object", "properties": {"charged": {"type": "integer"}}},
            }
        ]
    )
    return server


async def main(store: str, world: str, dies: str) -> None:
    server, shop = tool_server(Path(store)), Shop(Path(world), dies)
    # The SDK handles each request in a task of its own.
    request = ServedRequest(CHARGE, shop.send)
    result = await asyncio.create_task(server.call(request))
    if dies == "after the receipt":
        os.kill(os.getpid(), signal.SIGKILL)
    print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
