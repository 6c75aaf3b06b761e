"""``protect``: a copy of a tool, of a list of tools or of a ToolNode that acts once (P260).

The copy looks like the tool: the same name, description and schema, with ``nottwice_repeat`` where
that was declared. What it does when it is used is in ``uses.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from langchain_core.tools import BaseTool
from langchain_core.tools import tool as tool_of
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel, Field, create_model

from nottwice.adapters import REPEAT, Handle
from nottwice.errors import UsageError
from nottwice.guard.attached.calling import AnyTool
from nottwice.guard.ledger import AnyStore, ledger_of
from nottwice.langchain.declared import (
    REPEAT_TEXT,
    Classes,
    Declared,
    arguments_in,
    find_run,
    own_tool,
    with_repeat,
)
from nottwice.langchain.uses import Use
from nottwice.model.tool import Repeat

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

_MARK = "_protected_by_nottwice"
MOST_REMEMBERED = 256


class Protection:
    """Where the calls of tools are recorded, and what is known about the tools."""

    def __init__(self, store: AnyStore, tools: Classes | None, run: str | None) -> None:
        self.ledger = ledger_of(store)
        self.declared = Declared(tools)
        self.run = run
        self._copies: dict[int, tuple[BaseTool, BaseTool]] = {}

    def protected(self, tool: BaseTool) -> BaseTool:
        """Return a protected copy of a tool."""
        known = self._copies.get(id(tool))
        if known is not None and known[0] is tool:
            return known[1]
        if len(self._copies) >= MOST_REMEMBERED:
            self._copies.clear()
        copy = tool if _MARK in tool.__dict__ else Offered(self, tool).copy()
        # The tool is kept with its copy, or its id could become that of another one.
        self._copies[id(tool)] = (tool, copy)
        return copy


class Offered:
    """A tool that is offered to a model, and what nottwice knows about it."""

    def __init__(self, protection: Protection, tool: BaseTool) -> None:
        declared = protection.declared
        self._protection, self.tool = protection, tool
        self.schema = _schema(tool)
        self.repeat: Repeat | None = declared.repeat(tool.name)
        self.own = own_tool(getattr(tool, "func", None)) or own_tool(
            getattr(tool, "coroutine", None)
        )
        """The function of the tool, if ``nt.tool`` protects it already: it keeps its own words."""
        self.spec: AnyTool = self.own or declared.spec(tool.name, self.schema)
        if self.own is not None:
            declared.check_own_words(tool.name, self.own.tool)
        self.is_effectful = self.spec.tool.replay_class.effectful

    @property
    def passes(self) -> bool:
        """Whether it is simply run: it has no effect, and no policy wants to know of it."""
        return self.own is None and not self.is_effectful and not self._protection.ledger.policies

    def attach(self, config: RunnableConfig) -> Handle:
        """Return a handle of the run that a call belongs to."""
        run = find_run(self._protection.run, config.get("configurable", {}))
        return self._protection.ledger.attach(run)

    def arguments(self, tool_input: Any) -> dict[str, Any]:
        """Return the arguments that the model gave, without those that LangChain adds."""
        return arguments_in(tool_input, self.schema)

    def copy(self) -> BaseTool:
        """Return the tool that a framework uses in place of the bare one."""
        copy = with_repeat_parameter(self.tool) if self.repeat is not None else self.tool
        copy = copy.model_copy()

        @functools.wraps(self.tool.run)
        def run(tool_input: Any, *given: Any, **options: Any) -> Any:
            return Use(self, tool_input, options).run(*given)

        @functools.wraps(self.tool.arun)
        async def arun(tool_input: Any, *given: Any, **options: Any) -> Any:
            return await Use(self, tool_input, options).run_async(*given)

        # Not fields of the model: these names are methods, and only of this copy.
        for name, value in {"run": run, "arun": arun, _MARK: True}.items():
            object.__setattr__(copy, name, value)
        return copy


@overload
def protect(
    thing: ToolNode, store: AnyStore = None, *, tools: Classes | None = None, run: str | None = None
) -> ToolNode: ...


@overload
def protect(  # type: ignore[overload-cannot-match, unused-ignore]
    thing: BaseTool | Callable[..., Any],
    store: AnyStore = None,
    *,
    tools: Classes | None = None,
    run: str | None = None,
) -> BaseTool: ...


@overload
def protect(  # type: ignore[overload-cannot-match, unused-ignore]
    thing: Sequence[BaseTool | Callable[..., Any]],
    store: AnyStore = None,
    *,
    tools: Classes | None = None,
    run: str | None = None,
) -> list[BaseTool]: ...


def protect(
    thing: Any, store: AnyStore = None, *, tools: Classes | None = None, run: str | None = None
) -> Any:
    """Return a protected copy of a tool, of a list of tools, or of a ``ToolNode``.

    ``store``: the path of the ledger, a ``postgresql://`` URL, or an open ``nt.Ledger``. ``tools``:
    what a second run of each tool does, by name: a class, or a dict of options. A tool without a
    class is ``unsafe_on_replay``. ``run``: the id of the run; None: the run around the code, else
    the thread of LangGraph.
    """
    protection = Protection(store, tools, run)
    if isinstance(thing, ToolNode):
        return _node(thing, protection)
    if isinstance(thing, list | tuple):
        found = [each if isinstance(each, BaseTool) else tool_of(each) for each in thing]
        protection.declared.check_known(each.name for each in found)
        return [protection.protected(each) for each in found]
    if isinstance(thing, BaseTool) or (callable(thing) and not hasattr(thing, "invoke")):
        return protect([thing], store, tools=tools, run=run)[0]
    raise UsageError(
        f"A {type(thing).__name__} cannot be protected as a whole. Nothing was protected. Protect "
        "its tools, protect([search, charge], store), or its ToolNode, or give create_agent a "
        "middleware: create_agent(model, tools, middleware=[NottwiceMiddleware(store)])."
    )


def with_repeat_parameter(tool: BaseTool) -> BaseTool:
    """Return the tool with the parameter for deliberate repeats in its schema."""
    schema: Any = tool.args_schema
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        field: Any = (str | None, Field(default=None, description=REPEAT_TEXT))
        extended: Any = create_model(schema.__name__, __base__=schema, **{REPEAT: field})
    else:
        extended = with_repeat(_schema(tool))
    return tool.model_copy(update={"args_schema": extended})


def _node(node: ToolNode, protection: Protection) -> ToolNode:
    if type(node) is not ToolNode:
        raise UsageError(
            f"A {type(node).__name__} cannot be copied. Nothing was protected. Make it with "
            "protected tools: protect([search, charge], store)."
        )
    found = node.tools_by_name
    protection.declared.check_known(found)
    return ToolNode(
        [protection.protected(each) for each in found.values()],
        name=node.get_name(),
        tags=None if node.tags is None else list(node.tags),
        handle_tool_errors=node._handle_tool_errors,
        messages_key=node._messages_key,
        # What it had stays around the protected tools.
        wrap_tool_call=node._wrap_tool_call,
        awrap_tool_call=node._awrap_tool_call,
    )


def _schema(tool: BaseTool) -> Mapping[str, Any]:
    """The JSON schema of the arguments that a model gives."""
    schema: Any = tool.tool_call_schema
    found: Mapping[str, Any] = schema if isinstance(schema, dict) else schema.model_json_schema()
    return found
