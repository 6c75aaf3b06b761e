"""safeagent-exec-guard 0.1.25: the decorator over its own durable local store.

Read in its source: ``SettlementRequestRegistry(sqlite_path=...)`` is its "preferred local durable
backend"; claim and settle are one commit each. WAL is set and ``synchronous`` is not, so SQLite's
own default applies (FULL in the usual builds). What the tool returned is thrown away: the
stored receipt holds the arguments and a random execution id, and that is what a repeat returns.
The caller makes up the request id; arguments are not hashed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path

DISTRIBUTION = "safeagent-exec-guard"
NOTE = "discards what the tool returned; the caller names the key, nothing is hashed"

Call = Callable[[str, str], object]


@contextmanager
def open_guard(database: Path, send: Callable[..., dict[str, str]]) -> Iterator[Call]:
    library = import_module("safeagent_exec_guard")
    registry = library.SettlementRequestRegistry(sqlite_path=str(database))

    def send_payload(payload: dict[str, str]) -> dict[str, str]:
        return send(**payload)

    def request_id(payload: dict[str, str]) -> str:
        return f"send:{payload['to']}"

    guard = library.safeagent_guard(registry=registry, action="send", request_id_fn=request_id)
    guarded = guard(send_payload)
    # The registry offers no close, so its connection is closed where it lies.
    with closing(registry.sqlite._conn):
        yield lambda to, body: guarded({"to": to, "body": body})
