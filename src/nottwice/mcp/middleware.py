"""The middleware for servers of FastMCP: ``middleware=[NottwiceToolMiddleware("shop.db")]``.

FastMCP shows a middleware every message, the tool list and the tools themselves. A tool that fails
raises here, and FastMCP makes the error result of it. Put it last: it must be the innermost one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool
from fastmcp.tools.base import InputRequiredToolResult, ToolResult

from nottwice.guard.ledger import AnyStore
from nottwice.mcp.guard import RpcFailed
from nottwice.mcp.plans import OwnTool
from nottwice.mcp.sdk import asking, disconnection, model_of, wire
from nottwice.mcp.serving import NAME, ServedRequest, ToolServer

Params = mcp_types.CallToolRequestParams


class NottwiceToolMiddleware(Middleware):
    """Protect the tools of a ``FastMCP`` server: each effect once, whatever dies (P282).

    The options are those of ``nottwice.mcp.Nottwice``.
    """

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
            shows_repeat=True,
        )
        self._looked_up: set[str] = set()

    async def on_message(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Hear every message. FastMCP calls this."""
        if context.method != "tools/call" and _http(context) is None:
            await self._served.heard()
        return await call_next(context)

    async def on_list_tools(
        self,
        context: MiddlewareContext[mcp_types.ListToolsRequest],
        call_next: CallNext[mcp_types.ListToolsRequest, Sequence[Tool]],
    ) -> Sequence[Tool]:
        """Show ``nottwice_repeat`` in the schema of classed tools. FastMCP calls this."""
        found = await call_next(context)
        for tool in found:
            self._learn(tool)
        return [self._shown(tool) for tool in found]

    async def on_call_tool(
        self, context: MiddlewareContext[Params], call_next: CallNext[Params, ToolResult]
    ) -> ToolResult:
        """Make a call once. FastMCP calls this."""
        name = context.message.name
        if name not in self._looked_up and context.fastmcp_context is not None:
            tool = await context.fastmcp_context.fastmcp.get_tool(name)
            if tool is not None:
                self._learn(tool)
        handled = _Handled(context, call_next)
        try:
            result = await self._served.call(handled.request())
        except RpcFailed as failed:
            raise handled.error or failed from None
        return handled.result if result is handled.sent and handled.result else _result(result)

    def _learn(self, tool: Tool) -> None:
        plans = self._served.plans
        plans.learn([wire(tool.to_mcp_tool())])
        self._looked_up.add(tool.name)
        function: Any = getattr(tool, "fn", None)
        if hasattr(function, "requests"):
            own = OwnTool(function, lambda value: _sent(tool.convert_result(value)))
            plans.learn_own(tool.name, own)

    def _shown(self, tool: Tool) -> Tool:
        if not self._served.plans.plan_of(tool.name).can_repeat:
            return tool
        schema = self._served.plans.shown(wire(tool.to_mcp_tool()))["inputSchema"]
        return tool.model_copy(update={"parameters": schema})


class _Handled:
    """One call, between JSON and FastMCP's results."""

    def __init__(
        self, context: MiddlewareContext[Params], call_next: CallNext[Params, ToolResult]
    ) -> None:
        self._context, self._call_next = context, call_next
        self.result: ToolResult | None = None
        self.sent: dict[str, Any] | None = None
        self.error: Exception | None = None

    def request(self) -> ServedRequest:
        params = wire(self._context.message)
        found = self._context.fastmcp_context
        request = None if found is None else found.request_context
        if request is None:
            return ServedRequest(params, self._send)
        params["_meta"] = dict(request.meta or {})
        ask = asking(request.session, request.request_id)
        return ServedRequest(params, self._send, ask, disconnection(request.request))

    async def _send(self, params: dict[str, Any]) -> dict[str, Any]:
        message = self._context.message.model_copy(update={"arguments": params["arguments"]})
        try:
            self.result = await self._call_next(self._context.copy(message=message))
        except Exception as error:
            # FastMCP answers its client with an error, so the model may try again.
            self.error = error
            raise RpcFailed({"message": str(error)}) from error
        self.sent = _sent(self.result)
        return self.sent


def _sent(result: ToolResult) -> dict[str, Any]:
    """Return a result as the client gets it."""
    if isinstance(result, InputRequiredToolResult):
        return wire(result.input_required)
    sent: dict[str, Any] = {"content": [wire(block) for block in result.content]}
    if result.structured_content is not None:
        sent["structuredContent"] = result.structured_content
    if result.is_error:
        sent["isError"] = True
    return sent


def _result(sent: dict[str, Any]) -> ToolResult:
    """Return what FastMCP needs to send a result."""
    model = model_of(sent)
    if isinstance(model, mcp_types.InputRequiredResult):
        return InputRequiredToolResult(model)
    return ToolResult.from_mcp_result(model)


def _http(context: MiddlewareContext[Any]) -> Any:
    found = context.fastmcp_context
    request = None if found is None else found.request_context
    return None if request is None else request.request
