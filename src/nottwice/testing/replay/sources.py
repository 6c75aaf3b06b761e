"""What does the code say itself? That is no secret where its checkpoints are kept with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from nottwice.graphs.app import App

_MOST_FILES = 2_000
_FOREIGN = ("site-packages", "dist-packages")


def public_text(app: App) -> str:
    """The source of the modules that declare nodes, and of those that were imported beside them.

    A sender's address that a node spells out is in every one of its calls, whatever the state is;
    with a pseudonym in its place no call of that node would ever match.
    """
    functions = [code.function for graph in app.graphs for code in graph.code.values()]
    homes = {file.parent for function in functions for file in _file_of(_module_of(function))}
    files = {
        file
        for module in list(sys.modules.values())
        for file in _file_of(module)
        if any(home in file.parents for home in homes)
    }
    return "\n".join(_read(file) for file in sorted(files)[:_MOST_FILES])


def _module_of(function: Any) -> ModuleType | None:
    return sys.modules.get(getattr(function, "__module__", None) or "")


def _file_of(module: ModuleType | None) -> Iterator[Path]:
    named = getattr(module, "__file__", None)
    if isinstance(named, str) and named.endswith(".py"):
        file = Path(named).resolve()
        if not any(part in _FOREIGN for part in file.parts):
            yield file


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
