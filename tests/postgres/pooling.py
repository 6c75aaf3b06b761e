"""A pooler in transaction mode: each new transaction gets another server connection.

PgBouncer hands connections around when it has to; this one does it every time, so that whatever a
client leaves in a connection from one transaction to the next is missing, or another client's.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.postgres import server
from tests.postgres.cutting import message_of, request_of, socket_of_server, startup_of

SERVERS = 3


class Pooler:
    """A proxy before the server of the tests."""

    def __init__(self, target: Path | None = None) -> None:
        self._target = socket_of_server() if target is None else target
        self.folder = Path(tempfile.mkdtemp(prefix="nottwice-pool-"))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self._listener.listen(64)
        self._pools: dict[bytes, queue.Queue[socket.socket]] = {}
        self._guard = threading.Lock()
        self._open: list[socket.socket] = []
        self.transactions = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, schema: str, user: str = "postgres") -> str:
        return f"postgresql://{user}@/postgres?host={self.folder}&schema={schema}"

    def lead_to(self, target: Path) -> None:
        """Use another server from now on. No client notices: its own connection stays open."""
        with self._guard:
            self._target = target
            for startup, pool in self._pools.items():
                for _ in range(SERVERS):
                    pool.get().close()
                for _ in range(SERVERS):
                    upstream, _ = _connect(startup, target)
                    self._open.append(upstream)
                    pool.put(upstream)

    def close(self) -> None:
        self._listener.close()
        for one in self._open:
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), client:
            startup = startup_of(client)
            pool, greeting = self._pool(startup)
            client.sendall(greeting)
            while True:
                self._transaction(client, pool)

    def _transaction(self, client: socket.socket, pool: queue.Queue[socket.socket]) -> None:
        request = request_of(client)
        upstream = pool.get()
        self.transactions += 1
        try:
            while True:
                upstream.sendall(request)
                if _relay(upstream, client) == b"I":
                    return
                request = request_of(client)
        finally:
            pool.put(upstream)

    def _pool(self, startup: bytes) -> tuple[queue.Queue[socket.socket], bytes]:
        """The connections of all clients that log in in the same way."""
        with self._guard:
            greeting = b""
            if startup not in self._pools:
                self._pools[startup] = queue.Queue()
                for _ in range(SERVERS):
                    upstream, greeting = _connect(startup, self._target)
                    self._open.append(upstream)
                    self._pools[startup].put(upstream)
            else:
                upstream, greeting = _connect(startup, self._target)
                upstream.close()
            return self._pools[startup], greeting


def _connect(startup: bytes, target: Path) -> tuple[socket.socket, bytes]:
    upstream = socket.socket(socket.AF_UNIX)
    upstream.connect(str(target))
    upstream.sendall(startup)
    greeting = b""
    while True:
        kind, message = message_of(upstream)
        greeting += message
        if kind in (b"Z", b"E"):
            return upstream, greeting


def _relay(upstream: socket.socket, client: socket.socket) -> bytes:
    """Pass on what the server says, and return in which state it is then."""
    while True:
        kind, message = message_of(upstream)
        client.sendall(message)
        if kind == b"Z":
            return message[5:6]


@contextlib.contextmanager
def pooler(target: Path | None = None) -> Iterator[Pooler]:
    """A pooler before the server of the tests, or before another one."""
    if target is None:
        server.url()
    proxy = Pooler(target)
    try:
        yield proxy
    finally:
        proxy.close()
