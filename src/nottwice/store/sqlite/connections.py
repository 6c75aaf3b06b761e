"""The SQLite connections of one process to one ledger: one writer, and a few readers.

A connection must not cross a fork, not even an idle one. SQLite in the child would inherit the
parent's notes about file locks without having the locks. Other processes could then clean up the
ledger under the child, and commits that were reported durable would be lost. So before a fork every
connection is closed as soon as its user is done, and parent and child reopen their own when needed.
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
from typing import Any, ClassVar

from nottwice.errors import LedgerCorrupt, StoreError
from nottwice.store.sqlite import locks
from nottwice.store.sqlite.lost import Acknowledged, stop_using
from nottwice.store.sqlite.schema import check_durable
from nottwice.store.statements import Parameters

# Each reader has its own cache, and opening one takes as long as many reads.
MOST_READERS = 8
# How Python and SQLite begin to say what is no ledger, without a code of its own.
_DAMAGED = ("no such table", "no such column", "no such index", "Could not decode to UTF-8")
# How often a query is repeated if the log was moved into the ledger while it ran.
TRIES = 3
# The size of the log after all of it is in the ledger: four times what SQLite moves at a time.
MOST_LOG_BYTES = 16 << 20


class SqliteConnections:
    """Hands out connections; every use of one is inside ``with its.guard``."""

    def __init__(self, path: Path, *, busy_seconds: float, acknowledged: Acknowledged) -> None:
        """``acknowledged``: what is compared with the ledger if its files were removed."""
        if path in _torn:
            raise StoreError(
                f"This process was forked while another thread was using {path}, and SQLite cannot "
                "follow such a fork. Nothing was opened. Fork while no call is in progress, or "
                "start child processes with 'spawn'."
            )
        self.path = path
        self._busy_seconds = busy_seconds
        self._acknowledged = acknowledged
        self.writer = self._new_slot()
        self._idle: deque[Slot] = deque()
        self._readers: list[Slot] = []
        self._turns = itertools.count()
        self._hold: locks.Hold | None = None
        with _gate.no_new_connections:
            _known.add(self)

    def connect(self, slot: Slot) -> sqlite3.Connection:
        """The connection of a slot, opened if necessary. The file must already exist.

        Only the writer can write. A process that only reads leaves the log unchanged (P110).
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
            slot.kept_open.add(slot.connection)
            slot.connection.execute("PRAGMA synchronous = FULL")
            # For macOS, where fsync does not reach the disk. Elsewhere these do nothing.
            slot.connection.execute("PRAGMA fullfsync = ON")
            slot.connection.execute("PRAGMA checkpoint_fullfsync = ON")
            # A long reader lets the log grow. When it is done, the log restarts and is truncated
            # (P173).
            slot.connection.execute("PRAGMA journal_size_limit = " + str(MOST_LOG_BYTES))
            files.hold_all(slot.connection, self._busy_seconds)
        return slot.connection

    def _hold_files(self, slot: Slot) -> locks.LedgerFiles:
        """Lock the files before SQLite opens them, and until it has closed them."""
        try:
            if self._hold is None:
                # Kept longer than connections, which a fork or an error may close for a while.
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
        """A connection for judging a file before anything is written to it."""
        # In a file without WAL, only a writer can undo what a dead writer left half done.
        can_read = not self.path.with_name(self.path.name + "-journal").exists()
        slot = self._new_slot() if can_read else self.writer
        with slot.guard:
            connection = self.connect(slot)
            yield connection
            # Another process may have switched WAL on meanwhile.
            slot.files.hold_all(connection, self._busy_seconds)
        if can_read:
            self._readers.append(slot)
            self._idle.append(slot)

    def secure(self) -> None:
        """Lock the files of a ledger that was just switched to WAL. Hold ``writer.guard``."""
        self.writer.files.hold_all(self.connect(self.writer), self._busy_seconds)

    def connect_writer(self) -> sqlite3.Connection:
        """The only connection that writes, checked to be durable. Hold ``writer.guard``."""
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
        """The rows of one query, on a connection that is not used by another thread meanwhile."""
        try:
            slot = self._idle.pop()
        except IndexError:
            if len(self._readers) >= MOST_READERS:
                # None is idle, so wait for the guard of one that is in use.
                return self._read(self._readers[next(self._turns) % MOST_READERS], sql, parameters)
            slot = self._new_slot()
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
                # The log was moved during every try, and the locks that keep SQLite from mixing old
                # pages with new ones may have been dropped. While we have the turn, it stays.
                with files.turn(self._busy_seconds):
                    return connection.execute(sql, parameters).fetchall()
            except BaseException:
                # After an error or an interrupt the state of the connection is unknown.
                slot.close()
                raise

    def close(self) -> None:
        """Close every connection once it is idle. A later use opens new ones."""
        # The writer is last: only it can remove the log where we cannot (see locks.py).
        for slot in reversed(self.slots()):
            with slot.guard:
                slot.close()
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.release()

    def close_idle(self) -> None:
        """Close everything if all of it is idle. This process is ending and does not wait."""
        idle = [slot for slot in self.slots() if slot.guard.acquire(blocking=False)]
        for slot in idle:
            slot.guard.release()
        if len(idle) == len(self.slots()):
            self.close()

    @contextlib.contextmanager
    def unmoved(self) -> Iterator[None]:
        """Keep the log as it is, during a long read."""
        files, hold = locks.hold(self.path)
        try:
            self.read("SELECT 1", ())
            with files.holding_read_marks():
                yield
        finally:
            hold.release()

    def slots(self) -> list[Slot]:
        return [self.writer, *self._readers]

    def _new_slot(self) -> Slot:
        return Slot(self._busy_seconds, self._acknowledged)


class Slot:
    """A place for one connection, with the lock that its user takes."""

    kept_open: ClassVar[set[sqlite3.Connection]] = set()
    """All connections, so that garbage collection never finalizes one before its slot, which
    decides whether it may be closed."""

    files: locks.LedgerFiles
    """The files of the ledger, while there is a connection."""

    def __init__(self, busy_seconds: float, acknowledged: Acknowledged) -> None:
        self.busy_seconds = busy_seconds
        self._acknowledged = acknowledged
        self.guard = threading.Lock()
        self.connection: sqlite3.Connection | None = None
        self.hold: locks.Hold | None = None

    def close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None and self.files.is_missed():
            # Closing it would write an old log over what others have committed since (P111).
            stop_using(self.files, self._acknowledged)
            _leave_open(connection)
        elif connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        if connection is not None:
            self.kept_open.discard(connection)
        # Only now, because closing our descriptors drops the locks that SQLite has.
        hold, self.hold = self.hold, None
        if hold is not None:
            hold.release()

    __del__ = close


def check_fresh(files: locks.LedgerFiles) -> None:
    """Refuse files that other processes can no longer find (P111)."""
    if files.stale:
        raise StoreError(
            f"The files of ledger {files.path} were removed while this process used them, so it "
            f"cannot use the ledger any more. Nothing was written. {files.found}"
        )


def _leave_open(connection: sqlite3.Connection) -> None:
    """Keep a connection from ever being closed, even when the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def store_error(error: BaseException, location: str) -> StoreError:
    """What an error of SQLite or of the file system means for the caller. Nothing was written."""
    if isinstance(error, StoreError):
        return error
    text = f"The ledger {location} could not be used ({error}). Nothing was written."
    damaged = f"{text} It is damaged or not a ledger. Restore it from a backup."
    if isinstance(error, UnicodeDecodeError) or str(error).startswith(_DAMAGED):
        # SQLite quoted what it cannot read, and Python cannot decode the quotation.
        return LedgerCorrupt(damaged)
    match primary_code(error):
        case sqlite3.SQLITE_FULL:
            return StoreError(f"{text} Free some disk space, then open the run again.")
        case sqlite3.SQLITE_BUSY:
            return StoreError(f"{text} Another process keeps it locked. End it, and try again.")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return LedgerCorrupt(damaged)
    return StoreError(text)


def primary_code(error: BaseException) -> int | None:
    """SQLite's error code without the details in its upper bits."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


_known: weakref.WeakSet[SqliteConnections] = weakref.WeakSet()
# Not forever: a signal handler may fork in the very thread that the fork would wait for.
FORK_SECONDS = 30.0
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
    timed_out: list[Slot] = []
    while True:
        if not _gate.no_new_connections.acquire(timeout=FORK_SECONDS):
            return
        _gate.shut = True
        busy = [slot for slot in _open_slots() if slot not in timed_out]
        if not busy:
            return
        _gate.shut = False
        _gate.no_new_connections.release()
        for slot in busy:
            if slot.guard.acquire(timeout=slot.busy_seconds):
                _gate.emptied.append(slot)
                slot.close()
            else:
                timed_out.append(slot)


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
            # Either its user did not finish in time, or the fork was made outside of Python. In
            # that case an idle connection is closed now, while the parent still has its locks.
            if slot.guard.acquire(blocking=False):
                slot.close()
                slot.guard.release()
            else:
                _torn.add(connections.path)


def _open_slots() -> list[Slot]:
    slots = [slot for connections in _known for slot in connections.slots()]
    return [slot for slot in slots if slot.connection is not None]


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
