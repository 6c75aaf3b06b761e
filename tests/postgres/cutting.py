"""How does a connection break at a chosen moment? A proxy reads the traffic and cuts it.

It counts what the client sends by its last word (Sync, or a simple query): a *request*. At a chosen
request it breaks the connection in one of these ways:

    before       the request never reaches the server
    at           the request reaches the server, and no process waits for the answer
    after        the server has answered, and no process reads it
    terminated   the server is told to end the connection just before the request reaches it
    ended        the same when it has answered, and no process reads that
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from tests.postgres import server

WAYS = ("before", "at", "after", "terminated", "ended")
_LAST_WORDS = (b"S", b"Q")


class Cutter:
    """A proxy before the server of the tests."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nottwice-cut-"))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self._listener.listen(64)
        self._guard = threading.Lock()
        self._way: str | None = None
        self._left = 0
        self._every_time = False
        self._open: list[socket.socket] = []
        self.requests = 0
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, name: object, **words: object) -> str:
        """The URL of a ledger of its own, behind this proxy."""
        base = f"postgresql://postgres@/postgres?host={self.folder}"
        return server.with_words(base, schema=server.schema_for(name), **words)

    def cut(self, way: str, *, request: int, every_time: bool = False) -> None:
        """Break the connection at the request of this number from now on, once; or every time."""
        with self._guard:
            self._way, self._left, self._every_time = way, request, every_time
            self.requests = self.cuts = 0

    def mend(self) -> None:
        """Cut nothing more, and accept connections again."""
        with self._guard:
            self._way, self._every_time, self.cuts = None, False, 0

    def close(self) -> None:
        self._listener.close()
        for one in self._open:
            one.close()

    def _is_cut(self) -> str | None:
        with self._guard:
            self.requests += 1
            if self._way is None:
                return None
            self._left -= 1
            if self._left:
                return None
            way, self._way = self._way, None
            self.cuts += 1
            return way

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with self._guard:
                    away = self._every_time and self.cuts
                if away:
                    client.close()
                    continue
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        upstream = socket.socket(socket.AF_UNIX)
        upstream.connect(str(socket_of_server()))
        self._open += [client, upstream]
        with contextlib.suppress(OSError, EOFError), client, upstream:
            _Session(self, client, upstream).run()


class _Session:
    """One connection: what passes between a client and the server, request by request."""

    def __init__(self, cutter: Cutter, client: socket.socket, upstream: socket.socket) -> None:
        self._cutter = cutter
        self._client = client
        self._upstream = upstream
        self._pid = 0

    def run(self) -> None:
        self._upstream.sendall(startup_of(self._client))
        self._relay_until_ready()
        while True:
            request = request_of(self._client)
            way = self._cutter._is_cut()
            if way == "before":
                return
            if way == "terminated":
                _terminate(self._pid)
            self._upstream.sendall(request)
            if way == "at":
                return
            self._relay_until_ready(heard=way is None or way == "terminated")
            if way == "ended":
                _terminate(self._pid)
            if way is not None:
                return

    def _relay_until_ready(self, *, heard: bool = True) -> None:
        while True:
            kind, message = message_of(self._upstream)
            if kind == b"K":
                (self._pid,) = struct.unpack("!i", message[5:9])
            if heard:
                self._client.sendall(message)
            if kind == b"Z":
                return


def startup_of(client: socket.socket) -> bytes:
    """The first message has no type."""
    head = _exactly(client, 4)
    (length,) = struct.unpack("!i", head)
    return head + _exactly(client, length - 4)


def request_of(client: socket.socket) -> bytes:
    """What a client sends until its last word; EOFError: it is gone."""
    parts = []
    while True:
        kind, message = message_of(client)
        parts.append(message)
        if kind in _LAST_WORDS:
            return b"".join(parts)
        if kind == b"X":
            raise EOFError


def message_of(source: socket.socket) -> tuple[bytes, bytes]:
    """One message, and its type."""
    head = _exactly(source, 5)
    (length,) = struct.unpack("!i", head[1:])
    return head[:1], head + _exactly(source, length - 4)


def _exactly(source: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = source.recv(count)
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _terminate(pid: int) -> None:
    with server.connected() as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))


def socket_of_server() -> Path:
    """Where the server of the tests listens."""
    words = dict(parse_qsl(urlsplit(server.url()).query))
    return Path(words["host"]) / f".s.PGSQL.{words.get('port', '5432')}"


def can_cut() -> bool:
    """Only a server of our own, on a socket, is behind the proxy."""
    return os.path.exists(dict(parse_qsl(urlsplit(server.url()).query)).get("host", ""))


@contextlib.contextmanager
def cutter() -> Iterator[Cutter]:
    proxy = Cutter()
    try:
        yield proxy
    finally:
        proxy.close()
