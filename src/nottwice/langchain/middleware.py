"""``NottwiceMiddleware``: the tools of ``create_agent`` act once (P260).

Its slots: ``wrap_tool_call`` for the tools, and ``wrap_model_call`` for the one parameter that a
tool may get in addition. All that happens in a call is in ``uses.py``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import BaseTool

from nottwice.guard.ledger import AnyStore
from nottwice.langchain.declared import Classes
from nottwice.langchain.tools import Protection, with_repeat_parameter

if TYPE_CHECKING:
    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain.agents.middleware.types import ToolCallRequest
    from langchain_core.messages import ToolMessage
    from langgraph.types import Command


class NottwiceMiddleware(AgentMiddleware[Any, Any, Any]):
    """Makes each effect that a model asks for once, in LangChain agents and in ``ToolNode``.

    ``store``: the path of the ledger, a ``postgresql://`` URL, or an open ``nt.Ledger``. ``tools``:
    what a second run of each tool does, by name: a class, or a dict of options. A tool without a
    class is ``unsafe_on_replay``; one that ``nt.tool`` protects keeps its own class. ``run``: the
    id of the run; None: the run around the code, else the thread of LangGraph. Put it last in
    ``middleware=[...]``: the last one is the innermost.
    """

    def __init__(
        self, store: AnyStore = None, *, tools: Classes | None = None, run: str | None = None
    ) -> None:
        super().__init__()
        self._protection = Protection(store, tools, run)

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Run a tool, once per run and arguments, or return its receipt."""
        return handler(self._protected(request))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Do the same without blocking the event loop."""
        return await handler(self._protected(request))

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Show the model the parameter for deliberate repeats, where it is declared."""
        return handler(self._offering(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Do the same without blocking the event loop."""
        return await handler(self._offering(request))

    def _protected(self, request: ToolCallRequest) -> ToolCallRequest:
        if request.tool is None:
            # The model made the name up. ToolNode tells it so.
            return request
        names = [each.name for each in (*request.runtime.tools, request.tool)]
        self._protection.declared.warn_of_unknown(names)
        return request.override(tool=self._protection.protected(request.tool))

    def _offering(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        declared = self._protection.declared
        names = [one.name for one in request.tools if isinstance(one, BaseTool)]
        if all(declared.repeat(name) is None for name in names):
            return request
        return request.override(
            tools=[
                with_repeat_parameter(one)
                if isinstance(one, BaseTool) and declared.repeat(one.name) is not None
                else one
                for one in request.tools
            ]
        )
