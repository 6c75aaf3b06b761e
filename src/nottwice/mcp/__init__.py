"""MCP servers on a nottwice ledger.

``guard`` is the core that the proxy, the server extension and the middleware share. It imports no
SDK: a proxy for stdio needs none. ``Nottwice`` and ``NottwiceToolMiddleware`` import theirs when
they are used: ``pip install 'nottwice[mcp]'`` or ``'nottwice[fastmcp]'``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nottwice.mcp.connection import ClientConnection, ToolAnswer
from nottwice.mcp.guard import NotSent, RpcFailed, ToolGuard
from nottwice.mcp.plans import ToolPlans
from nottwice.mcp.settings import ToolSettings, read_tools

if TYPE_CHECKING:
    from nottwice.mcp.extension import Nottwice
    from nottwice.mcp.middleware import NottwiceToolMiddleware

__all__ = [
    "ClientConnection",
    "NotSent",
    "Nottwice",
    "NottwiceToolMiddleware",
    "RpcFailed",
    "ToolAnswer",
    "ToolGuard",
    "ToolPlans",
    "ToolSettings",
    "read_tools",
]

_LAZY = {"Nottwice": ("extension", "mcp"), "NottwiceToolMiddleware": ("middleware", "fastmcp")}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, extra = _LAZY[name]
    try:
        found = importlib.import_module(f"{__name__}.{module}")
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "fastmcp"):
            raise
        raise ImportError(
            f"nottwice.mcp.{name} needs the package {extra!r}, which is missing or too old. "
            f"Install it: pip install 'nottwice[{extra}]'",
            name=error.name,
        ) from error
    return getattr(found, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
