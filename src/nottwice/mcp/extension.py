"""The extension for servers of the MCP SDK: ``MCPServer("shop", extensions=[Nottwice(...)])``.

The SDK gives an extension the calls of tools and nothing else. What the tools are, their
annotations and schemas, the server knows, and the extension finds it behind the handler that the
SDK passes. As a middleware it also sees the tool list, and can add ``nottwice_repeat`` to it.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension
from mcp.server.runner import ServerRunner
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams

from nottwice.adapters import REPEAT
from nottwice.guard.ledger import AnyStore
from nottwice.mcp.guard import RpcFailed
from nottwice.mcp.plans import OwnTool
from nottwice.mcp.sdk import asking, disconnection, model_of, wire
from nottwice.mcp.serving import NAME, ServedRequest, ToolServer

Context: TypeAlias = ServerRequestContext[Any, Any]
log = logging.getLogger("nottwice")


class Nottwice(Extension):
    """Protect the tools of an ``MCPServer``: each effect once, whatever dies (P282).

    ``store``: the ledger, on SQLite or PostgreSQL. ``tools``: what a second run of a tool does, by
    name: ``{"charge": "unsafe_on_replay"}`` or ``{"charge": {"class": ..., "fresh": "1h"}}``. A
    classed tool runs once per ``fresh`` for equal arguments. For a tool without a class, only an
    answer that was lost is given again. A function protected by ``nt.tool`` keeps its own class.
    ``name``: the namespace of the tools in the ledger; servers that share a ledger need different
    ones. ``trust_annotations``: whether ``readOnlyHint`` and ``idempotentHint`` are believed.
    ``let_client_decide``: ask the client's user about doubts. Pass the same object as
    ``middleware=[...]``, too, to let a model repeat a classed tool on purpose.
    """

    identifier = "dev.nottwice/once"

    def __init__(
        self,
        store: AnyStore = None,
        *,
        tools: Mapping[str, Any] | None = None,
        name: str = NAME,
        trust_annotations: bool = True,
        let_client_decide: bool = False,
    ) -> None:
        self._served = ToolServer(
            store,
            tools=tools,
            name=name,
            trust_annotations=trust_annotations,
            let_client_decide=let_client_decide,
            shows_repeat=False,
        )
        self._looked_up: set[str] = set()

    async def intercept_tool_call(
        self, params: CallToolRequestParams, context: Context, call_next: CallNext
    ) -> HandlerResult:
        """Make a call once. The SDK calls this."""
        if params.name not in self._looked_up:
            await self._learn(call_next)
        handled = _Handled(params, context, call_next)
        try:
            result = await self._served.call(handled.request())
        except RpcFailed as failed:
            raise handled.error or failed from None
        return handled.result if result is handled.sent else model_of(result)

    async def __call__(self, context: Context, call_next: CallNext) -> HandlerResult:
        """Hear every message, and show ``nottwice_repeat`` in the tool list. A middleware."""
        plans = self._served.plans
        if not plans.shows_repeat:
            plans.shows_repeat = True
            plans.forget()
            self._looked_up = set()
        if not self._looked_up:
            await self._learn(call_next)
        if context.method != "tools/call" and context.request is None:
            await self._served.heard()
        result = await call_next(context)
        if context.method == "tools/list" and isinstance(result, Mapping):
            plans.learn(result.get("tools", ()))
            shown = [plans.shown(tool) for tool in result.get("tools", ())]
            return {**result, "tools": shown}
        return result

    async def _learn(self, call_next: CallNext) -> None:
        plans = self._served.plans
        server = _server_behind(call_next)
        if server is None:
            log.warning("the MCP server was not found, so annotations of its tools are not known")
            return
        listed = await server.list_tools()
        plans.learn(wire(one) for one in listed)
        self._looked_up = {one.name for one in listed}
        for one in listed:
            own = _own_tool(server, one.name)
            if own is not None:
                plans.learn_own(one.name, own)


class _Handled:
    """One call, between JSON and the SDK's models."""

    def __init__(
        self, params: CallToolRequestParams, context: Context, call_next: CallNext
    ) -> None:
        self._params, self._context, self._call_next = params, context, call_next
        self.result: HandlerResult = None
        self.sent: dict[str, Any] | None = None
        self.error: MCPError | None = None

    def request(self) -> ServedRequest:
        context, raw = self._context, self._context.params or {}
        params = {**raw, **wire(self._params)}
        if isinstance(raw.get("_meta"), Mapping):
            # The model leaves out what it does not know.
            params["_meta"] = dict(raw["_meta"])
        ask = asking(context.session, context.request_id)
        return ServedRequest(params, self._send, ask, disconnection(context.request))

    async def _send(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._params.arguments is not None:
            # The SDK passes this very object to the tool.
            self._params.arguments.pop(REPEAT, None)
        try:
            self.result = await self._call_next(self._context)
        except MCPError as error:
            self.error = error
            raise RpcFailed(wire(error.error)) from error
        self.sent = wire(self.result)
        return self.sent


def _server_behind(handler: Callable[..., Any]) -> MCPServer[Any] | None:
    """Return the server whose handler this is. The SDK nests handlers in each other."""
    found: list[Any] = [handler]
    for one in found:
        if isinstance(getattr(one, "__self__", None), MCPServer):
            server: MCPServer[Any] = one.__self__
            return server
        inner: list[Any] = []
        if isinstance(one, functools.partial):
            inner = list(one.args)
        elif isinstance(one, ServerRunner):
            entry = one.server.get_request_handler("tools/call")
            inner = [] if entry is None else [entry.handler]
        elif inspect.isfunction(one):
            inner = list(inspect.getclosurevars(one).nonlocals.values())
        found += [value for value in inner if all(value is not known for known in found)]
    return None


def _own_tool(server: MCPServer[Any], name: str) -> OwnTool | None:
    """Return a tool that was protected by ``nt.tool``."""
    tool = server._tool_manager.get_tool(name)
    function: Any = getattr(tool, "fn", None)
    if tool is None or not hasattr(function, "requests"):
        return None
    return OwnTool(function, lambda value: wire(tool.fn_metadata.convert_result(value)))
