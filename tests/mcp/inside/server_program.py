"""A server as its author runs it: ``python -m tests.mcp.inside.server_program FRAMEWORK ...``.

The words: sdk or fastmcp, stdio or a port, the ledger (empty: bare), and the file that stands for
the world. ``charge`` waits for a file beside it, so that a test can kill the process during a call.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from typing import Any


def charge(cents: int) -> dict[str, int]:
    """Charge the card."""
    with WORLD.open("a") as world:
        world.write(f"charge {cents}\n")
        world.flush()
        os.fsync(world.fileno())
    while not WORLD.with_name("may-answer").exists():
        time.sleep(0.02)
    return {"charged": cents}


def serve_sdk(transport: str, store: str) -> None:
    from mcp.server import MCPServer

    from nottwice.mcp import Nottwice

    server = MCPServer("shop", extensions=[Nottwice(store)] if store else [])
    server.tool()(charge)
    _run(server, transport)


def serve_fastmcp(transport: str, store: str) -> None:
    from fastmcp import FastMCP

    from nottwice.mcp import NottwiceToolMiddleware

    server = FastMCP("shop", middleware=[NottwiceToolMiddleware(store)] if store else [])
    server.tool(charge)
    _run(server, transport)


def _run(server: Any, transport: str) -> None:
    logging.disable(logging.CRITICAL)
    if transport == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(transport))


if __name__ == "__main__":
    framework, transport, store, world = sys.argv[1:]
    WORLD = Path(world)
    {"sdk": serve_sdk, "fastmcp": serve_fastmcp}[framework](transport, store)
