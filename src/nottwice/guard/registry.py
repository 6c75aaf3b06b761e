"""Which tools this process has declared, by name (T1).

A name belongs to one tool. Declaring the same function again (a notebook cell, a reload, a factory
that is called twice) replaces it; another function of that name is refused, because a call in doubt
must find its own tool.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

from nottwice.errors import InvalidTool
from nottwice.model.tool import Tool

_tools: dict[str, weakref.ref[Callable[..., Any]]] = {}


def register(protected: Callable[..., Any], tool: Tool) -> None:
    """Remember a tool for as long as its function lives."""
    known = find_protected(tool.name)
    if known is not None and not _same_place(known, protected):
        # A function that is only kept by its own attributes is not in use any more.
        del known
        gc.collect()
        known = find_protected(tool.name)
        if known is not None:
            raise InvalidTool(
                f"A tool named {tool.name!r} is already declared in {_place(known)}; the one in "
                f"{_place(protected)} was not declared. Give it a name of its own with name=..."
            )
    _tools[tool.name] = weakref.ref(protected)


def find_protected(name: str) -> Callable[..., Any] | None:
    """The protected function of a name, if it is declared in this process."""
    reference = _tools.get(name)
    return reference() if reference is not None else None


def find_tool(name: str) -> Tool | None:
    """The declaration of a name, if it is declared in this process."""
    protected = find_protected(name)
    return getattr(protected, "tool", None)


def declared_tools() -> list[Callable[..., Any]]:
    """All protected functions alive, by name."""
    alive = ((name, reference()) for name, reference in sorted(_tools.items()))
    return [protected for _, protected in alive if protected is not None]


def _same_place(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    bare, other_bare = getattr(one, "fn", one), getattr(other, "fn", other)
    if getattr(bare, "__name__", "<lambda>") == "<lambda>":
        # A lambda, a partial or a callable object: its place in the code says nothing.
        return bare is other_bare
    return _place(one) == _place(other)


def _place(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
