"""An MCP server that is killed while it charges a card, without nottwice and with it.

    pip install 'nottwice[mcp]'
    python examples/mcp_server.py            # plays both; works in the folder mcp_server/

It starts itself as a server, kills that server with SIGKILL after the charge and before its answer,
starts it again and makes the same call, as a client does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp.server import MCPServer

from nottwice.mcp import Nottwice

FOLDER = Path(os.environ.get("EXAMPLE_FOLDER", ".")) / "mcp_server"


def serve(way: str, dies: bool) -> None:
    """Serve one tool on stdin and stdout."""
    statement = FOLDER / f"{way}.txt"
    extensions = [] if way == "bare" else [Nottwice(FOLDER / "shop.db")]
    server = MCPServer("shop", extensions=extensions, log_level="ERROR")

    @server.tool()
    def charge(order_id: int, cents: int) -> dict[str, int]:
        """Charge the customer's card."""
        with statement.open("a") as bank:
            bank.write(f"order {order_id}: {cents} cents\n")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"charged": cents}

    server.run()


async def call(way: str, *, dies: bool) -> str:
    """Start the server and make one call, as a client does."""
    words = [__file__, "serve", way, "dies" if dies else "lives"]
    server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
    async with Client(server) as client:
        answer = await client.call_tool("charge", {"order_id": 7, "cents": 4000})
    return " ".join(getattr(block, "text", "") for block in answer.content)


async def play(way: str) -> None:
    with contextlib.suppress(Exception):
        await call(way, dies=True)
    print(f"{way}: the server was killed after the charge. The same call again:")
    print(f"  {' '.join((await call(way, dies=False)).split())[:100]}")
    charges = (FOLDER / f"{way}.txt").read_text().splitlines()
    print(f"  The statement shows {len(charges)} charge{'s' * (len(charges) > 1)}.")


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    for way in ("bare", "protected"):
        asyncio.run(play(way))
    store = FOLDER / "shop.db"
    print(f"What happened? Look, then: nottwice reviews --store {store}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], sys.argv[3] == "dies")
    else:
        main()
