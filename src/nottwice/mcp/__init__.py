"""MCP servers on a nottwice ledger.

``guard`` is the core that the proxy, the server extension and the middleware share. It imports no
SDK: a proxy for stdio needs none.
"""

from __future__ import annotations

from nottwice.mcp.connection import Answered, ClientConnection
from nottwice.mcp.guard import NotSent, RpcFailed, ToolGuard
from nottwice.mcp.plans import ToolPlans
from nottwice.mcp.settings import ToolSettings, read_tools

__all__ = [
    "Answered",
    "ClientConnection",
    "NotSent",
    "RpcFailed",
    "ToolGuard",
    "ToolPlans",
    "ToolSettings",
    "read_tools",
]
