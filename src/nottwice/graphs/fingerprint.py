"""Which tools does a graph use, and what do its nodes contain? Found by reading the code (V5, T5).

No code is run. A tool counts as used if a node's code names it, directly or in a helper of the same
program. A tool that is passed in or looked up by name cannot be found that way. Declare it:
``nt.Graph(..., tools=[refund])``.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType
from typing import Any, NoReturn

from nottwice.engine.advance import NodeCode
from nottwice.errors import UnclassifiedTool
from nottwice.guard.check.references import find_function, is_part_of_program, read_references
from nottwice.model.graphs.body import hash_of_bytes, hash_of_source
from nottwice.model.graphs.fingerprint import Fingerprint, ToolPrint
from nottwice.model.graphs.graph import GraphDefinition
from nottwice.model.tool import Tool

# Where the tools of frameworks keep the function that they run.
_INNER = ("func", "coroutine", "fn", "function")
_TOOL_CLASSES = ("BaseTool", "StructuredTool", "FunctionTool", "Tool")


def take_fingerprint(
    definition: GraphDefinition, code: Mapping[str, NodeCode], declared: Iterable[Tool]
) -> Fingerprint:
    """Return what identifies this graph. UnclassifiedTool if a node uses a tool without a class."""
    tools = {tool.name: tool for tool in declared}
    bodies: dict[str, str] = {}
    for name, node in code.items():
        function = bare_function(node)
        bodies[name] = hash_of_function(function)
        for tool in _tools_named_in(function, where=f"Node {name!r} of graph {definition.name!r}"):
            tools.setdefault(tool.name, tool)
    prints = tuple(print_tool(tools[name]) for name in sorted(tools))
    return Fingerprint(definition, prints, tuple(sorted(bodies.items())))


def effects_of(node: NodeCode) -> set[str]:
    """Return the names of the tools with effects that a node's code names."""
    named = _tools_named_in(bare_function(node), where="A node")
    return {tool.name for tool in named if tool.replay_class.effectful}


def print_tool(tool: Tool) -> ToolPrint:
    """Return the properties of a tool that open runs depend on."""
    arguments, result = tool.schemas()
    return ToolPrint(
        name=tool.name,
        replay_class=tool.replay_class,
        key=tool.key_text,
        window_seconds=tool.window_seconds,
        arguments=arguments,
        result=result,
        left_out=tuple(sorted(tool.volatile)),
    )


def check_tools(graph: str, tools: Iterable[Any]) -> tuple[Tool, ...]:
    """Return the declarations of ``tools=``. UnclassifiedTool if one has no class (T5)."""
    checked: list[Tool] = []
    for each in tools:
        tool = _tool_in(each)
        if tool is None:
            _refuse(f"Graph {graph!r}", each)
        checked.append(tool)
    return tuple(checked)


def hash_of_function(function: Any) -> str:
    """Return a hash of a function's source, or of its compiled form if there is no source."""
    found = find_function(function)
    if found is None:
        return hash_of_bytes(type(function).__qualname__.encode(), kind="opaque")
    try:
        source_hash = hash_of_source(inspect.getsource(found))
    except (OSError, TypeError):
        source_hash = None
    if source_hash is not None:
        return source_hash
    # Comparable only under the same Python version, because its instructions change.
    version = "{}.{}".format(*sys.version_info)
    return hash_of_bytes(_meaning(found.__code__).encode(), kind=f"code-{version}")


def bare_function(node: NodeCode) -> Any:
    """Return the function that the user wrote, not the wrapper that passes the state to it."""
    return getattr(node, "bare", node.function)


def _meaning(code: CodeType) -> str:
    """Return the code without its file and lines, which do not affect what it does."""
    return repr((code.co_code, code.co_names, [_constant(each) for each in code.co_consts]))


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return _meaning(value)
    # The order of a set differs between processes.
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _tools_named_in(function: Any, *, where: str) -> Iterator[Tool]:
    found = find_function(function)
    home = "" if found is None else str(found.__globals__.get("__name__", ""))
    references = read_references(function, is_own=functools.partial(is_part_of_program, home=home))
    for reference in references.found:
        for value in reference.values:
            tool = _tool_in(value)
            if tool is not None:
                yield tool
            elif _is_bare_tool(value):
                _refuse(where, value)


def _tool_in(value: Any) -> Tool | None:
    tool = inspect.getattr_static(value, "tool", None)
    return tool if isinstance(tool, Tool) else None


def _is_bare_tool(value: Any) -> bool:
    """Return whether this is a framework's tool whose function visibly has no replay class."""
    kinds = [kind.__name__ for kind in type(value).__mro__]
    if isinstance(value, type) or not any(name in _TOOL_CLASSES for name in kinds):
        return False
    inner = [inspect.getattr_static(value, name, None) for name in _INNER]
    held = [*inner, *(getattr(value, "__dict__", {}).get(name) for name in _INNER)]
    functions = [each for each in held if inspect.isfunction(each) or inspect.ismethod(each)]
    return bool(functions) and all(_tool_in(each) is None for each in functions)


def _refuse(who: str, value: Any) -> NoReturn:
    name = getattr(value, "name", None) or getattr(value, "__name__", None) or repr(value)
    raise UnclassifiedTool(
        f"{who} uses the tool {name!r}, which has no replay class. Nothing happened. Declare what "
        "running it a second time does, below the framework's own decorator: "
        "@nt.tool('unsafe_on_replay'), or 'pure' if it only reads.",
        tool=str(name),
    )
