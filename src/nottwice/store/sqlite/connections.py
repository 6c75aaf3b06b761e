"""The SQLite connections of one process to one ledger: one writer, and a few readers.

A connection must not cross a fork, not even an idle one: SQLite in the child would take over the
parent's notes about file locks without having the locks, and a ledger that others may then clean
up under the child loses commits that it was told are durable. So before a fork every connection
is closed, when whoever uses it is done; parent and child open their own again when they need one.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nottwice.errors import LedgerCorrupt, StoreError
from nottwice.store.sqlite import locks
from nottwice.store.sqlite.schema import check_durable
from nottwice.store.statements import Parameters

# Each has a cache of its own, and opening one takes as long as many reads.
MOST_READERS = 8
_NOT_OUR_TABLES = ("no such table", "no such column", "no such index")
# How often a query is repeated under whose hands the log was moved into the ledger.
TRIES = 3
# What is left of the log once all of it is in the ledger: four times what SQLite moves in one go.
MOST_LOG_BYTES = 16 << 20


class SqliteConnections:
    """Hands out connections; every use of one is inside ``with its.guard``."""

    def __init__(self, path: Path, *, busy_seconds: float) -> None:
        if path in _torn:
            raise StoreError(
                f"This process was forked while another thread was in the middle of using {path}, "
                "and SQLite cannot follow a fork there. Nothing was opened. Fork while no call is "
                "under way, or start child processes with 'spawn'."
            )
        self.path = path
        self._busy_seconds = busy_seconds
        self.writer = Slot(busy_seconds)
        self._idle: deque[Slot] = deque()
        self._readers: list[Slot] = []
        self._turns = itertools.count()
        self._hold: locks.Hold | None = None
        with _gate.no_new_connections:
            _known.add(self)

    def connect(self, slot: Slot) -> sqlite3.Connection:
        """The connection of a slot, opened if need be. The file must be there already.

        Only the writer can write: a process that only reads leaves the log as it is (P110).
        """
        if slot.connection is None:
            mode = "?mode=rw" if slot is self.writer else "?mode=ro"
            files = self._hold_files(slot)
            with _gate.no_new_connections:
                slot.connection = sqlite3.connect(
                    self.path.as_uri() + mode,
                    uri=True,
                    timeout=self._busy_seconds,
                    isolation_level=None,
                    check_same_thread=False,
                )
            slot.connection.execute("PRAGMA synchronous = FULL")
            # macOS only: its fsync does not reach the disk. Elsewhere these do nothing.
            slot.connection.execute("PRAGMA fullfsync = ON")
            slot.connection.execute("PRAGMA checkpoint_fullfsync = ON")
            # A long reader lets the log grow. Once it is gone, the log starts over, and is cut
            # (P173).
            slot.connection.execute("PRAGMA journal_size_limit = " + str(MOST_LOG_BYTES))
            files.hold_all(slot.connection, self._busy_seconds)
        return slot.connection

    def _hold_files(self, slot: Slot) -> locks.LedgerFiles:
        """Have the files locked before SQLite opens them, and until it has closed them."""
        try:
            if self._hold is None:
                # Beyond the connections, which a fork or an error may close for a while.
                _, self._hold = locks.hold(self.path)
            slot.files, slot.hold = locks.hold(self.path)
            slot.files.wrote |= slot is self.writer
            slot.files.hold_ledger(self._busy_seconds)
            check_fresh(slot.files)
        except OSError as error:
            raise sqlite3.OperationalError(f"unable to open database file: {error}") from error
        return slot.files

    @contextlib.contextmanager
    def judging(self) -> Iterator[sqlite3.Connection]:
        """A connection to judge a file by, before anything is written to it."""
        # What a dead writer left half done in a file without WAL, only a writer can undo.
        can_read = not self.path.with_name(self.path.name + "-journal").exists()
        slot = Slot(self._busy_seconds) if can_read else self.writer
        with slot.guard:
            connection = self.connect(slot)
            yield connection
            # Another process may have switched WAL on meanwhile.
            slot.files.hold_all(connection, self._busy_seconds)
        if can_read:
            self._readers.append(slot)
            self._idle.append(slot)

    def secure(self) -> None:
        """Lock the files of a ledger that was switched to WAL just now. Hold ``writer.guard``."""
        self.writer.files.hold_all(self.connect(self.writer), self._busy_seconds)

    def connect_writer(self) -> sqlite3.Connection:
        """The one connection that writes, proven durable. Hold ``writer.guard``."""
        slot = self.writer
        connection = slot.connection
        if connection is None:
            try:
                connection = self.connect(slot)
                check_durable(connection, str(self.path))
            except BaseException:
                slot.close()
                raise
        return connection

    def read(self, sql: str, parameters: Parameters) -> list[Any]:
        """The rows of one query, on a connection that nobody else uses meanwhile."""
        try:
            slot = self._idle.pop()
        except IndexError:
            if len(self._readers) >= MOST_READERS:
                # Not idle: its guard says when its user is done.
                return self._read(self._readers[next(self._turns) % MOST_READERS], sql, parameters)
            slot = Slot(self._busy_seconds)
            self._readers.append(slot)
        try:
            return self._read(slot, sql, parameters)
        finally:
            self._idle.append(slot)

    def _read(self, slot: Slot, sql: str, parameters: Parameters) -> list[Any]:
        with slot.guard:
            try:
                connection, files = self.connect(slot), slot.files
                check_fresh(files)
                for _ in range(TRIES):
                    before = files.position()
                    found = connection.execute(sql, parameters).fetchall()
                    if files.position() == before:
                        return found
                # The log was moved under each of them, and the locks that keep SQLite from mixing
                # old pages with new ones may have been dropped. It stays while nobody can write.
                with files.turn(self._busy_seconds):
                    return connection.execute(sql, parameters).fetchall()
            except BaseException:
                # After an error or an interrupt nobody knows what state it is in.
                slot.close()
                raise

    def close(self) -> None:
        """Close every connection once it is idle. A later use opens new ones."""
        # The writer last: it alone can clear the log away where we cannot (see locks.py).
        for slot in reversed(self.slots()):
            with slot.guard:
                slot.close()
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.release()

    def close_idle(self) -> None:
        """Close everything if nobody is using it: this process ends, and does not wait."""
        idle = [slot for slot in self.slots() if slot.guard.acquire(blocking=False)]
        for slot in idle:
            slot.guard.release()
        if len(idle) == len(self.slots()):
            self.close()

    @contextlib.contextmanager
    def unmoved(self) -> Iterator[None]:
        """While somebody reads for long: what is in the log stays there."""
        files, hold = locks.hold(self.path)
        try:
            self.read("SELECT 1", ())
            with files.holding_read_marks():
                yield
        finally:
            hold.release()

    def slots(self) -> list[Slot]:
        return [self.writer, *self._readers]


class Slot:
    """A place for one connection, and the lock of whoever uses it."""

    files: locks.LedgerFiles
    """The files of the ledger, while there is a connection."""

    def __init__(self, busy_seconds: float) -> None:
        self.busy_seconds = busy_seconds
        self.guard = threading.Lock()
        self.connection: sqlite3.Connection | None = None
        self.hold: locks.Hold | None = None

    def close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None and self.files.stale:
            # To close it would write an old log over what others have committed since (P111).
            _leave_open(connection)
        elif connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        # Only now: to close our descriptors drops the locks that SQLite has.
        hold, self.hold = self.hold, None
        if hold is not None:
            hold.release()

    __del__ = close


def check_fresh(files: locks.LedgerFiles) -> None:
    """Refuse files that nobody else finds any more (P111)."""
    if files.stale:
        raise StoreError(
            f"The files of ledger {files.path} were removed while this process used them, so it "
            f"cannot use the ledger any more. Nothing was written. {files.found}"
        )


def _leave_open(connection: sqlite3.Connection) -> None:
    """Keep a connection from ever being closed, also when the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def store_error(error: BaseException, location: str) -> StoreError:
    """What an error of SQLite or of the file system means for the caller; nothing was written."""
    if isinstance(error, StoreError):
        return error
    text = f"The ledger {location} could not be used ({error}). Nothing was written."
    damaged = f"{text} It is damaged or no ledger; restore it from a backup."
    if isinstance(error, UnicodeDecodeError) or str(error).startswith(_NOT_OUR_TABLES):
        # SQLite quotes what it cannot read, and Python cannot read the quotation.
        return LedgerCorrupt(damaged)
    match primary_code(error):
        case sqlite3.SQLITE_FULL:
            return StoreError(f"{text} Free some disk space, then open the run again.")
        case sqlite3.SQLITE_BUSY:
            return StoreError(f"{text} Another process keeps it locked; end that, and try again.")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return LedgerCorrupt(damaged)
    return StoreError(text)


def primary_code(error: BaseException) -> int | None:
    """SQLite's error code without the details that its upper bits carry."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


_known: weakref.WeakSet[SqliteConnections] = weakref.WeakSet()
# Not forever: a signal handler may fork in the very thread that a fork would wait for.
FORK_SECONDS = 30.0
_never_closed: list[sqlite3.Connection] = []
_torn: set[Path] = set()


class _ForkGate:
    """What a fork waits for, and what waits for a fork."""

    def __init__(self) -> None:
        self.one_at_a_time = threading.Lock()
        self.no_new_connections = threading.Lock()
        self.shut = False
        self.emptied: list[Slot] = []


_gate = _ForkGate()


def _before_fork() -> None:
    _gate.one_at_a_time.acquire()
    given_up: list[Slot] = []
    while True:
        if not _gate.no_new_connections.acquire(timeout=FORK_SECONDS):
            return
        _gate.shut = True
        busy = [slot for slot in _open_slots() if slot not in given_up]
        if not busy:
            return
        _gate.shut = False
        _gate.no_new_connections.release()
        for slot in busy:
            if slot.guard.acquire(timeout=slot.busy_seconds):
                _gate.emptied.append(slot)
                slot.close()
            else:
                given_up.append(slot)


def _after_fork_in_parent() -> None:
    while _gate.emptied:
        _gate.emptied.pop().guard.release()
    if _gate.shut:
        _gate.shut = False
        _gate.no_new_connections.release()
    if _gate.one_at_a_time.locked():
        _gate.one_at_a_time.release()


def _after_fork_in_child() -> None:
    global _gate
    while _gate.emptied:
        _gate.emptied.pop().guard.release()
    _gate = _ForkGate()
    for connections in list(_known):
        for slot in connections.slots():
            if slot.connection is None:
                continue
            # Either its user did not finish in time, or the fork was made outside of Python, and
            # then an idle connection is best closed at once, while the parent holds its locks.
            if slot.guard.acquire(blocking=False):
                slot.close()
                slot.guard.release()
            else:
                _never_closed.append(slot.connection)
                _torn.add(connections.path)


def _open_slots() -> list[Slot]:
    slots = [slot for connections in _known for slot in connections.slots()]
    return [slot for slot in slots if slot.connection is not None]


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
