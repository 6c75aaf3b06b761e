"""What does the code say itself? That is no secret where its checkpoints are kept with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from nottwice.graphs.app import App


def public_text(app: App, works: Iterable[Callable[..., Any]] = ()) -> str:
    """The source of the packages that declare nodes; of a lone module, and of those beside it.

    A sender's address that a node spells out is in every one of its calls, whatever the state is;
    with a pseudonym in its place no call of that node would ever match.
    """
    names = {_module_of(code.function) for graph in app.graphs for code in graph.code.values()}
    names |= {_module_of(work) for work in works}
    packages = {name.partition(".")[0] for name in names if "." in name}
    folders = {file.parent for name in names if "." not in name for file in _file_of(name)}
    files = {
        file
        for name in list(sys.modules)
        for file in _file_of(name)
        if name.partition(".")[0] in packages or ("." not in name and file.parent in folders)
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
