"""call4agents 0.5.0: ``@effect`` inside a run, on its SQLite run record.

From its source: an intent row before the effect and a result row after it, each in its own
transaction, with WAL and an explicit ``synchronous=FULL``. Both arguments and result are stored, in
an append-only table. A repeat returns the recorded result.
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
    # This file has the library's name, so a plain import would import this file itself.
    library = import_module("call4agents")
    ledger = library.init(str(database))
    guarded = library.effect(send)
    # The ledger has no close(), so close its connection directly.
    with closing(ledger._conn()), library.run("bench"):
        yield lambda to, body: guarded(to=to, body=body)
