"""safeagent-exec-guard 0.1.25: the decorator over its own durable local store.

From its source: ``SettlementRequestRegistry(sqlite_path=...)`` is its "preferred local durable
backend". Claim and settle are one commit each. WAL is set and ``synchronous`` is not, so SQLite's
default applies (FULL in the usual builds). It discards what the tool returned: the stored receipt
holds the arguments and a random execution id, and a repeat returns that. The caller chooses the
request id, and arguments are not hashed.
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
    # The registry has no close(), so close its connection directly.
    with closing(registry.sqlite._conn):
        yield lambda to, body: guarded({"to": to, "body": body})
