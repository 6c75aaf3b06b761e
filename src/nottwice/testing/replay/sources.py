"""What does the source code contain? That is not secret, as checkpoints are stored with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from nottwice.graphs.app import App


def public_text(app: App, works: Iterable[Callable[..., Any]] = ()) -> str:
    """Return the source of the packages that declare nodes, or of a module and its neighbours.

    If a node contains a sender's address in its source, the address is in every one of its calls,
    whatever the state. With a pseudonym in its place, no call of that node would ever match.
    """
    names = {_module_of(code.function) for graph in app.graphs for code in graph.code.values()}
    names |= {_module_of(work) for work in works}
    packages = {name.partition(".")[0] for name in names if "." in name}
    folders = {file.parent for name in names if "." not in name for file in _file_of(name)}
    files = {
        file
        for name in list(sys.modules)
        # Resolving a path looks at the disk, and hundreds of modules are loaded.
        if (is_in_package := name.partition(".")[0] in packages) or "." not in name
        for file in _file_of(name)
        if is_in_package or file.parent in folders
    }
    return "\n".join(_read(file) for file in sorted(files))


def _module_of(function: Any) -> str:
    return getattr(function, "__module__", None) or ""


def _file_of(name: str) -> Iterator[Path]:
    named = getattr(sys.modules.get(name), "__file__", None)
    if isinstance(named, str) and named.endswith(".py"):
        yield Path(named).resolve()


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
