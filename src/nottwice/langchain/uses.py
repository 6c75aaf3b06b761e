"""One use of a protected tool: LangChain around it, a call of nottwice inside (P260, P264, P265).

LangChain checks the arguments, runs callbacks and makes the message, as it does for the bare tool.
The tool's own code is the body of the call. What LangChain must know of it comes out as it went in:
an interrupt of the tool, its ToolException, or a message with ``status="error"``. The call is then
recorded as failed without effect, never as a receipt, and may be asked for again.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, ToolException
from langgraph.errors import GraphBubbleUp

from nottwice.adapters import (
    REPEAT,
    CallResult,
    Handle,
    text_for_model,
    text_for_repeat,
    verdict_of,
)
from nottwice.errors import NottwiceError, Permanent
from nottwice.langchain.asking import GraphAsking
from nottwice.langchain.calls import CallWanted, make, make_async
from nottwice.langchain.offered import OfferedTool
from nottwice.langchain.order import CHECKPOINTER, waits
from nottwice.langchain.results import failure_in, from_receipt, to_receipt, with_note

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

_OF_LANGCHAIN = ("config", "run_manager", "callbacks")
"""What LangChain adds to the arguments of a tool's code."""


class Use:
    """One use of a protected tool."""

    def __init__(self, offered: OfferedTool, tool_input: Any, options: dict[str, Any]) -> None:
        """``options``: what LangChain passes to ``run`` besides the input."""
        self._offered, self._tool, self._options = offered, offered.tool, options
        self._config: RunnableConfig = ensure_config(options.get("config"))
        self._call_id: str | None = options.get("tool_call_id")
        self._label: str | None = None
        if offered.repeat is not None and isinstance(tool_input, dict):
            tool_input = dict(tool_input)
            label = tool_input.pop(REPEAT, None)
            self._label = label.strip() or None if isinstance(label, str) else None
        self._input = tool_input
        self._note = ""
        # The outcome of the tool's own code, if it ran.
        self._ran = False
        self._value: Any = None
        self._signal: Exception | None = None

    def run(self, *given: Any) -> Any:
        try:
            if self._offered.passes:
                return self._tool.run(self._input, *given, **self._options)
            configurable = self._config.get("configurable", {})
            if self._offered.is_effectful and waits(configurable):
                configurable[CHECKPOINTER].wait_until_durable(self._config)
            return self._told(self._inner().run(self._input, *given, **self._options))
        except NottwiceError as error:
            return self._failed(error)

    async def run_async(self, *given: Any) -> Any:
        try:
            if self._offered.passes:
                return await self._tool.arun(self._input, *given, **self._options)
            configurable = self._config.get("configurable", {})
            if self._offered.is_effectful and waits(configurable):
                await configurable[CHECKPOINTER].await_until_durable(self._config)
            return self._told(await self._inner().arun(self._input, *given, **self._options))
        except NottwiceError as error:
            return self._failed(error)

    def _inner(self) -> BaseTool:
        """Return the tool with a call of nottwice around its own code."""
        inner = self._tool.model_copy()
        code, async_code = self._tool._run, self._tool._arun

        # LangChain looks at the signatures to see what it must pass.
        @functools.wraps(code)
        def run(*given: Any, **named: Any) -> Any:
            return self._run(code, given, named)

        @functools.wraps(async_code)
        async def run_async(*given: Any, **named: Any) -> Any:
            return await self._run_async(async_code, given, named)

        # Not fields of the model: these names are methods, and only of this copy.
        object.__setattr__(inner, "_run", run)
        object.__setattr__(inner, "_arun", run_async)
        return inner

    def _run(self, code: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        def body(_: dict[str, Any]) -> Any:
            try:
                return self._kept(code(*given, **named))
            except (GraphBubbleUp, ToolException) as signal:
                raise self._without_effect(signal) from signal

        asked = self._asked(named)
        own = self._offered.own is not None
        with self._offered.attach(self._config) as handle:
            try:
                made = make(handle, asked, None if own else body, GraphAsking.of(self._config))
            except Permanent as failure:
                return self._signalled(failure)
            return self._concluded(handle, made)

    async def _run_async(
        self, code: Callable[..., Awaitable[Any]], given: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        async def body(_: dict[str, Any]) -> Any:
            try:
                return self._kept(await code(*given, **named))
            except (GraphBubbleUp, ToolException) as signal:
                raise self._without_effect(signal) from signal

        asked = self._asked(named)
        own = self._offered.own is not None
        async with self._offered.attach(self._config) as handle:
            asking = GraphAsking.of(self._config)
            try:
                made = await make_async(handle, asked, None if own else body, asking)
            except Permanent as failure:
                return self._signalled(failure)
            return self._concluded(handle, made)

    def _asked(self, named: dict[str, Any]) -> CallWanted:
        offered = self._offered
        ask = None
        if offered.repeat == "ask" and self._label is not None:
            ask = f"the model asks for it a second time: {self._label}"
        arguments = offered.arguments(self._input)
        tool = offered.spec
        if offered.own is not None:
            # It has a signature of its own, and takes what LangChain made of the arguments.
            tool = offered.own
            arguments = {name: one for name, one in named.items() if name not in _OF_LANGCHAIN}
        return CallWanted(offered.tool.name, tool, arguments, self._label, ask)

    def _kept(self, value: Any) -> Any:
        """Return what the receipt holds of a result."""
        self._ran, self._value = True, value
        failure = failure_in(value)
        if failure is not None:
            raise Permanent(failure)
        return to_receipt(value, self._call_id)

    def _without_effect(self, signal: Exception) -> Permanent:
        """Return what the ledger records of an interrupt, or of an error that is meant for models.

        LangGraph runs a tool that was interrupted again from its beginning, so a tool must not have
        done anything before its interrupt.
        """
        self._signal = signal
        return Permanent(str(signal) or type(signal).__name__)

    def _signalled(self, failure: Permanent) -> Any:
        """Hand LangChain what the tool's code handed out, or let the failure through."""
        if self._signal is not None:
            raise self._signal
        if self._ran:
            return self._value
        raise failure

    def _concluded(self, handle: Handle, made: CallResult[Any]) -> Any:
        if made.replayed:
            parameter = None if self._offered.repeat is None else REPEAT
            self._note = text_for_repeat(made, now=handle.now, parameter=parameter)
        if self._ran and not made.replayed:
            return self._value
        if self._offered.own is not None:
            return made.value
        artifact = self._tool.response_format == "content_and_artifact"
        return from_receipt(made.value, self._call_id, with_artifact=artifact)

    def _told(self, output: Any) -> Any:
        return with_note(output, self._call_id, self._note) if self._note else output

    def _failed(self, error: NottwiceError) -> ToolMessage:
        """Tell the model what it can act on, and raise everything else."""
        if verdict_of(error) != "told_to_model":
            raise unswallowed(error)
        if self._call_id is None:
            raise error
        return ToolMessage(
            text_for_model(error), name=self._tool.name, tool_call_id=self._call_id, status="error"
        )


def unswallowed(error: NottwiceError) -> NottwiceError:
    """Return the error as one that neither ToolNode nor a middleware tells the model (P265).

    They take every exception for a failed tool if they are told to (``handle_tool_errors=True``),
    except for those with which LangGraph itself unwinds. The error stays what it was for everyone
    who catches it.
    """
    kind = type(error)
    if not issubclass(kind, GraphBubbleUp):
        if kind not in _unwinding:
            namespace = {"__module__": kind.__module__, "__doc__": kind.__doc__}
            _unwinding[kind] = type(kind.__name__, (kind, GraphBubbleUp), namespace)
        error.__class__ = _unwinding[kind]
    return error


_unwinding: dict[type[NottwiceError], type[NottwiceError]] = {}
