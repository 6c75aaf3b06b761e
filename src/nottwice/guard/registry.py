"""Which tools this process has declared, by name (T1).

A name belongs to one tool, from its declaration to the end of the process, because a call in doubt
must find its own tool and a receipt must go to its own calls. The same definition may be declared
again, and then the newest counts; `guard/definition.py` says what the same means. Promise kept
here: P140.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from nottwice.errors import InvalidTool
from nottwice.guard.definition import Definition
from nottwice.model.tool import Tool

_tools: dict[str, Callable[..., Any]] = {}
_guard = threading.RLock()


def register(protected: Callable[..., Any], tool: Tool) -> None:
    """Register a tool; InvalidTool if its name belongs to another one."""
    with _guard:
        known = _tools.get(tool.name)
        if known is not None and not _definition(protected).same_as(_definition(known)):
            raise _taken(tool.name, known, protected)
        _tools[tool.name] = protected


def find_tool(name: str) -> Tool | None:
    """Return the declaration with this name, if this process has declared it."""
    return getattr(_tools.get(name), "tool", None)


def declared_tools() -> list[Callable[..., Any]]:
    """Return all protected functions, sorted by name."""
    return [protected for _, protected in sorted(_tools.items())]


def forget_tools(*, known: Mapping[str, Callable[..., Any]] | None = None) -> None:
    """Forget all tools that this process has declared, as a new process would. For tests.

    Call it first in a test that creates its own tools, for example with its own client. The pytest
    plugin calls it after every test.
    """
    with _guard:
        kept = dict(known or {})
        _tools.clear()
        _tools.update(kept)


def remember_tools() -> dict[str, Callable[..., Any]]:
    """Return the currently declared tools by name, for `forget_tools`."""
    return dict(_tools)


def _definition(protected: Any) -> Definition:
    found: Definition = protected.definition
    return found


def _taken(name: str, known: Any, refused: Any) -> InvalidTool:
    first, second = _definition(known).place, _definition(refused).place
    where = (
        f"at {second} twice, with another closure, other defaults or another declaration"
        if first == second
        else f"at {first} and at {second}"
    )
    return InvalidTool(
        f"Two tools are named {name!r}: {where}. The second one was not declared: a call of one "
        "would be answered with the receipt of the other. Give it another name: "
        f"@nt.tool(..., name={_example(name)!r}). If it is the same tool, declare it once and use "
        "that one everywhere.",
        tool=name,
    )


def _example(name: str) -> str:
    return f"{name}_2" if name.isidentifier() else "refund"
