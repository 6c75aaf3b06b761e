"""A server of the real SDK whose effects are counted in a folder.

    python shop_server.py FOLDER          stdio
    python shop_server.py FOLDER PORT     streamable HTTP

A file ``hold`` in the folder makes a charge wait after its effect.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

FOLDER = Path(sys.argv[1])
server = MCPServer("shop")
READS = ToolAnnotations(read_only_hint=True)


@server.tool(description="Read the file.", annotations=READS)
def read() -> str:
    file = FOLDER / "file"
    return file.read_text() if file.exists() else "nothing"


@server.tool(description="Write the file.")
def write(text: str) -> str:
    (FOLDER / "file").write_text(text)
    note("write", text)
    return f"wrote {text}"


@server.tool(description="Charge a card.")
async def charge(cents: int) -> dict[str, int]:
    note("charge", cents)
    while (FOLDER / "hold").exists():
        await asyncio.sleep(0.01)
    return {"charged": cents}


@server.tool(description="Send a mail.")
def mail(to: str) -> str:
    note("mail", to)
    return f"sent to {to}"


def note(*what: object) -> None:
    with (FOLDER / "effects").open("a") as file:
        file.write(json.dumps(what) + "\n")


if __name__ == "__main__":
    # Its parent is the proxy, which a test kills.
    (FOLDER / "parent").write_text(str(os.getppid()))
    if len(sys.argv) > 2:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")
