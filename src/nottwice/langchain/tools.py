"""``protect``: a copy of a tool, of a list of tools or of a ToolNode that acts once (P260).

The copy looks like the tool: the same name, description and schema, with ``nottwice_repeat`` where
that was declared. What it does when it is used is in ``uses.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, overload

from langchain_core.tools import BaseTool
from langchain_core.tools import tool as tool_of
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel, Field, create_model

from nottwice.adapters import REPEAT
from nottwice.errors import UsageError
from nottwice.guard.ledger import AnyStore, ledger_of
from nottwice.langchain.declared import (
    REPEAT_TEXT,
    Classes,
    Declared,
    with_repeat,
)
from nottwice.langchain.offered import OfferedTool, schema_of
from nottwice.langchain.uses import Use

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
        if _MARK in tool.__dict__:
            copy = tool
        else:
            copy = _copy(OfferedTool(tool, self.ledger, self.declared, self.run))
        # The tool is kept with its copy, or its id could become that of another one.
        self._copies[id(tool)] = (tool, copy)
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
        extended = with_repeat(schema_of(tool))
    return tool.model_copy(update={"args_schema": extended})


def _copy(offered: OfferedTool) -> BaseTool:
    """Return the tool that a framework uses in place of the bare one."""
    tool = offered.tool
    copy = with_repeat_parameter(tool) if offered.repeat is not None else tool.model_copy()

    @functools.wraps(tool.run)
    def run(tool_input: Any, *given: Any, **options: Any) -> Any:
        return Use(offered, tool_input, options).run(*given)

    @functools.wraps(tool.arun)
    async def arun(tool_input: Any, *given: Any, **options: Any) -> Any:
        return await Use(offered, tool_input, options).run_async(*given)

    # Not fields of the model: these names are methods, and only of this copy.
    for name, value in {"run": run, "arun": arun, _MARK: True}.items():
        object.__setattr__(copy, name, value)
    return copy


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
