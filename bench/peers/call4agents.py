"""call4agents 0.5.0: ``@effect`` inside a run, on its SQLite run record.

Read in its source: an intent row before the effect and a result row after it, each its own
transaction, WAL with ``synchronous=FULL`` set explicitly. Both arguments and result are kept, in
an append-only table; a repeat returns the recorded result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path

DISTRIBUTION = "call4agents"
NOTE = "stores arguments and result"

Call = Callable[[str, str], object]


@contextmanager
def open_guard(database: Path, send: Callable[..., dict[str, str]]) -> Iterator[Call]:
    # This file bears the library's name; a plain import would be read as an import of itself.
    library = import_module("call4agents")
    ledger = library.init(str(database))
    guarded = library.effect(send)
    # The ledger offers no close, so its connection is closed where it lies.
    with closing(ledger._conn()), library.run("bench"):
        yield lambda to, body: guarded(to=to, body=body)
