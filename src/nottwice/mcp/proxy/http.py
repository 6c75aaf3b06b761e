"""Serve streamable HTTP at /mcp, in front of a server's command or of its URL.

Needs ``pip install 'nottwice[mcp]'``, which brings an HTTP server and an HTTP client.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from nottwice.errors import UsageError
from nottwice.mcp.guard import ToolGuard
from nottwice.mcp.proxy import exchange
from nottwice.mcp.proxy.exchange import Exchange
from nottwice.mcp.proxy.places import ProxyOptions

_GRACE_SECONDS = 5
_LOCAL = ("localhost", "127.0.0.1", "[::1]")


class Front(Protocol):
    """What answers HTTP requests."""

    async def handle(self, exchange: Exchange) -> None:
        """Answer one request."""

    async def close(self) -> None:
        """Finish the calls under way, and end what was started."""


def serve_http(guard: ToolGuard, options: ProxyOptions, *, say: Callable[[str], None]) -> int:
    """Serve until the process is told to stop. Returns the exit code."""
    try:
        import uvicorn
    except ImportError as error:
        raise UsageError(
            "--http needs the HTTP server of the MCP SDK, which is not installed. Nothing was "
            "started. Install it: pip install 'nottwice[mcp]'"
        ) from error
    try:
        listening = socket.create_server((options.host, options.port or 0))
    except OSError as error:
        raise UsageError(
            f"Port {options.port} of {options.host} cannot be used: {error.strerror}. Nothing was "
            "started. Choose another port, or 0 for a free one."
        ) from error
    say(f"{options.name}: http://{options.host}:{listening.getsockname()[1]}/mcp")

    async def serve() -> None:
        front = _front(guard, options, say)
        config = uvicorn.Config(
            application_of(front),
            log_level="warning",
            lifespan="off",
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        try:
            await uvicorn.Server(config).serve(sockets=[listening])
        finally:
            await front.close()

    asyncio.run(serve())
    return 0


def _front(guard: ToolGuard, options: ProxyOptions, say: Callable[[str], None]) -> Front:
    if options.url is not None:
        from nottwice.mcp.proxy.forwarding import UrlFront

        return UrlFront(guard, options.url, say=say)
    from nottwice.mcp.proxy.sessions import CommandFront

    return CommandFront(guard, options.command, say=say)


def application_of(
    front: Front,
) -> Callable[[Mapping[str, Any], exchange.Receive, exchange.Send], Awaitable[None]]:
    """Return the ASGI application of a front. It serves this machine only."""

    async def application(
        scope: Mapping[str, Any], receive: exchange.Receive, send: exchange.Send
    ) -> None:
        if scope["type"] != "http":
            return
        made = Exchange(scope, receive, send)
        if not _is_local(made.headers.get("host", "")) or not _is_local_origin(
            made.headers.get("origin")
        ):
            # A page in a browser must not reach a server on the user's own machine.
            await made.refuse(403, "The Host or the Origin is not this machine.")
        elif scope["path"].rstrip("/") != "/mcp":
            await made.refuse(404, "The endpoint is /mcp.")
        else:
            await front.handle(made)

    return application


def _is_local(host: str) -> bool:
    name, separator, port = host.rpartition(":")
    return (name if separator and port.isdigit() else host) in _LOCAL


def _is_local_origin(origin: str | None) -> bool:
    if origin is None or origin == "null":
        return origin is None
    return _is_local(origin.partition("://")[2])
