"""A server of the real SDK with the tools of a scene, for the adapter suite of the proxy.

    python scene_server.py FOLDER      the scene is in its file scene.json

Where a scene says that the process dies, all die at once: the client, whose pid is in
``client.pid``, the process that started this server, and the server itself.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from nottwice.testing.adapters import Scene
from tests.mcp.inside.shops import raising


class ServedScene(Scene):
    """A scene whose tools are in another process than its client."""

    def die(self) -> None:
        client = int((self.folder / "client.pid").read_text())
        for pid in (client, os.getppid(), os.getpid()):
            os.kill(pid, signal.SIGKILL)


scene = ServedScene.from_json((Path(sys.argv[1]) / "scene.json").read_text())
server = MCPServer("shop", log_level="ERROR")
for function in scene.tools.values():
    server.tool()(raising(function, ToolError))
server.run("stdio")
