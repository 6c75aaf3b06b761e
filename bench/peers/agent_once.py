"""agent-once 0.1.0 (imported as ``once``): its quick start, a tool inside a scope.

From its source: one INSERT that claims the key and one UPDATE with the result, each in its own
transaction. WAL is set and ``synchronous`` is not, so SQLite's default applies (FULL in the usual
builds). The result is stored as JSON and returned on a repeat. Of the arguments, only a hash is
stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

DISTRIBUTION = "agent-once"
NOTE = "stores only a hash of the arguments"

Call = Callable[[str, str], object]


@contextmanager
def open_guard(database: Path, send: Callable[..., dict[str, str]]) -> Iterator[Call]:
    library = import_module("once")
    with library.Once(database) as once, once.scope("bench"):
        guarded = once.tool(send)
        yield lambda to, body: guarded(to=to, body=body)
