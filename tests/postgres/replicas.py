"""A primary, a standby that follows it, and an address that leads to one of the two.

The standby streams from the primary. ``cut_off`` lets it follow no longer, as a standby does that
lags; ``fail_over`` kills the primary as a power cut would, promotes the standby, and leads the
address there. Whatever the primary acknowledged in between is gone.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import psycopg

from tests.postgres.server import Server

_SOCKET = ".s.PGSQL.5432"


class Replicas:
    """Two servers behind one address."""

    def __init__(self, *, synchronous: bool = False) -> None:
        self.primary = Server(seed=seed())
        self._primary_socket = Path(dict(parse_qsl(urlsplit(self.primary.url).query))["host"])
        self._data = self.primary.folder / "standby"
        self._standby_socket = Path(tempfile.mkdtemp(prefix="nottwice-standby-"))
        self.sockets = self._primary_socket / _SOCKET, self._standby_socket / _SOCKET
        self.address = Address(self.sockets[0])
        self._start_standby()
        if synchronous:
            with self.to_primary() as connection:
                connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                connection.execute("SELECT pg_reload_conf()")
                _until(connection, "SELECT count(*) FROM pg_stat_replication WHERE sync_priority=1")

    def to_primary(self) -> psycopg.Connection:
        return psycopg.connect(self.primary.url, autocommit=True)

    def to_standby(self) -> psycopg.Connection:
        url = f"postgresql://postgres@/postgres?host={self._standby_socket}"
        return psycopg.connect(url, autocommit=True)

    def url(self, **words: object) -> str:
        """The URL of a ledger that follows the primary, whichever of the two that is."""
        more = "".join(f"&{name}={word}" for name, word in words.items())
        return f"postgresql://postgres@/postgres?host={self.address.folder}{more}"

    def catch_up(self) -> None:
        """Return when the standby has replayed everything that the primary has."""
        with self.to_primary() as primary, self.to_standby() as standby:
            found = primary.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
            assert found is not None
            _until(standby, f"SELECT (pg_last_wal_replay_lsn() >= '{found[0]}'::pg_lsn)::int")

    def cut_off(self) -> None:
        """The standby follows no longer; the primary continues."""
        with self.to_standby() as connection:
            connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            connection.execute("SELECT pg_reload_conf()")
            _until(connection, "SELECT (count(*) = 0)::int FROM pg_stat_wal_receiver")

    def fail_over(self, *, restarted: bool = False) -> None:
        """The primary dies, and the standby takes its place; ``restarted``: after a restart."""
        self.primary.stop("immediate")
        self._control("promote")
        if restarted:
            self._control("restart", "-m", "fast", "-l", str(self._data / "log"))
        self.address.lead_to(self.sockets[1])

    def end(self) -> None:
        self.address.close()
        with contextlib.suppress(Exception):
            self._control("stop", "-m", "immediate")
        self.primary.end()
        shutil.rmtree(self._standby_socket, ignore_errors=True)

    def _start_standby(self) -> None:
        # The primary began with the same data, and a standby catches up from there.
        subprocess.run(["cp", "-a", str(seed()), str(self._data)], check=True)
        following = f"primary_conninfo = 'host={self._primary_socket} user=postgres'\n"
        with (self._data / "postgresql.auto.conf").open("a") as settings:
            settings.write(following)
        signal = self._data / "standby.signal"
        signal.touch()
        user = self.primary._server.system_user
        if user is not None:
            shutil.chown(signal, user, user)
            shutil.chown(self._standby_socket, user, user)
        self._standby_socket.chmod(0o755)
        listening = f'-h "" -k {self._standby_socket}'
        self._control("start", "-o", listening, "-l", str(self._data / "log"))

    def _control(self, *words: str) -> None:
        self._run("pg_ctl", "-w", "-D", str(self._data), *words)

    def _run(self, command: str, *words: str) -> None:
        server = self.primary._server
        self.primary._execute(
            command, words, bin_path=server.bin_path, user=server.system_user, cwd="/"
        )


@functools.cache
def seed() -> Path:
    """The data of an empty server, made once: to make it takes longer than most tests."""
    one = Server()
    one.stop()
    atexit.register(one.end)
    return one.folder / "data"


class Address:
    """A socket that leads to a server; when it leads elsewhere, all connections break."""

    def __init__(self, target: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nottwice-address-"))
        self._target = target
        self._open: list[socket.socket] = []
        self._guard = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / _SOCKET))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, target: Path) -> None:
        with self._guard:
            self._target = target
            broken, self._open = self._open, []
        for one in broken:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        self.lead_to(Path(os.devnull))
        shutil.rmtree(self.folder, ignore_errors=True)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        upstream = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError), client, upstream:
            with self._guard:
                self._open += [client, upstream]
                target = self._target
            upstream.connect(str(target))
            back = threading.Thread(target=_pass_on, args=(upstream, client), daemon=True)
            back.start()
            _pass_on(client, upstream)
            back.join()


def _pass_on(source: socket.socket, destination: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            destination.sendall(part)
    for one in (source, destination):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _until(connection: psycopg.Connection, question: str) -> None:
    """Ask until the answer is 1."""
    for _ in range(1000):
        found = connection.execute(question).fetchone()
        if found is not None and found[0] == 1:
            return
        threading.Event().wait(0.01)
    raise TimeoutError(question)


@contextlib.contextmanager
def replicas(*, synchronous: bool = False) -> Iterator[Replicas]:
    pair = Replicas(synchronous=synchronous)
    try:
        yield pair
    finally:
        pair.end()
