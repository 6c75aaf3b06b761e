"""Converts between JSON and the models of the MCP SDK, which FastMCP uses, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.session import ServerSession
from mcp_types import CallToolResult, InputRequiredResult, RequestId
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from nottwice.mcp.guard import AskClient


def wire(given: Any) -> dict[str, Any]:
    """Return a model as JSON has it."""
    if isinstance(given, BaseModel):
        return given.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dict(given or {})


def model_of(result: dict[str, Any]) -> CallToolResult | InputRequiredResult:
    """Return the model of a result of ``tools/call``."""
    if result.get("resultType") == "input_required":
        return InputRequiredResult.model_validate(result)
    return CallToolResult.model_validate(result)


def asking(session: ServerSession, request_id: RequestId | None) -> AskClient | None:
    """Return how to ask the user of a client. None: it cannot be asked this way.

    Since protocol 2026-07-28 a server sends no requests: the result itself asks.
    """
    able = session.client_capabilities
    is_modern = session.protocol_version in MODERN_PROTOCOL_VERSIONS
    if is_modern or able is None or able.elicitation is None:
        return None

    async def ask(params: dict[str, Any]) -> dict[str, Any]:
        message, schema = params["message"], params["requestedSchema"]
        return wire(await session.elicit_form(message, schema, request_id))

    return ask


def disconnection(request: Any) -> Callable[[], Awaitable[bool]] | None:
    """Return what says whether an HTTP client is gone. None: it is no HTTP request."""
    found: Callable[[], Awaitable[bool]] | None = getattr(request, "is_disconnected", None)
    return found
