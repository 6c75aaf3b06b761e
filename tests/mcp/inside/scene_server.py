"""A server of the real SDK with the tools of a scene, for the adapter suite of the proxy.

    python scene_server.py FOLDER      the scene is in its file scene.json

Where a scene says that the process dies after the effect, all die at once: the client,
whose pid is in ``client.pid``, the process that started this server, and the server itself.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from nottwice.testing.adapters import Scene
from nottwice.testing.adapters.scene import DEADLY_CENTS
from tests.mcp.inside.shops import raising

folder = Path(sys.argv[1])
told = Scene.from_json((folder / "scene.json").read_text())
scene = replace(told, dies="")
server = MCPServer("shop", log_level="ERROR")


def charge(cents: int) -> dict[str, int]:
    """Charge the card."""
    charged = scene.charge(cents)
    if told.dies == "after the effect" and cents == DEADLY_CENTS:
        for pid in (int((folder / "client.pid").read_text()), os.getppid(), os.getpid()):
            os.kill(pid, signal.SIGKILL)
    return charged


for function in {**scene.tools, "charge": charge}.values():
    server.tool()(raising(function, ToolError))
server.run("stdio")
