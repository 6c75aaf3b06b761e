"""The SQLite connections of one process to one ledger: one writer, and a few readers.

A connection must not cross a fork, not even an idle one: SQLite in the child would take over the
parent's notes about file locks without having the locks, and a ledger that others may then clean
up under the child loses commits that it was told are durable. So before a fork every connection
is closed, when whoever uses it is done; parent and child open their own again when they need one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nottwice.errors import LedgerCorrupt, StoreError
from nottwice.store.sqlite_schema import check_durable

# Each has a cache of its own, and opening one takes as long as many reads.
MOST_READERS = 8


class Connections:
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
        with _gate.no_new_connections:
            _known.add(self)

    def connect(self, slot: Slot) -> sqlite3.Connection:
        """The connection of a slot, opened if need be. The file must be there already."""
        if slot.connection is None:
            with _gate.no_new_connections:
                slot.connection = sqlite3.connect(
                    self.path.as_uri() + "?mode=rw",
                    uri=True,
                    timeout=self._busy_seconds,
                    isolation_level=None,
                    check_same_thread=False,
                )
            slot.connection.execute("PRAGMA synchronous = FULL")
            # macOS only: its fsync does not reach the disk. Elsewhere these do nothing.
            slot.connection.execute("PRAGMA fullfsync = ON")
            slot.connection.execute("PRAGMA checkpoint_fullfsync = ON")
        return slot.connection

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

    def read(self, sql: str, parameters: Sequence[Any]) -> list[Any]:
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

    def _read(self, slot: Slot, sql: str, parameters: Sequence[Any]) -> list[Any]:
        with slot.guard:
            try:
                return self.connect(slot).execute(sql, parameters).fetchall()
            except BaseException:
                # After an error or an interrupt nobody knows what state it is in.
                slot.close()
                raise

    def close(self) -> None:
        """Close every connection once it is idle. A later use opens new ones."""
        for slot in self.slots():
            with slot.guard:
                slot.close()

    def slots(self) -> list[Slot]:
        return [self.writer, *self._readers]


class Slot:
    """A place for one connection, and the lock of whoever uses it."""

    def __init__(self, busy_seconds: float) -> None:
        self.busy_seconds = busy_seconds
        self.guard = threading.Lock()
        self.connection: sqlite3.Connection | None = None

    def close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def store_error(error: BaseException, location: str) -> StoreError:
    """What an error of SQLite or of the file system means for the caller; nothing was written."""
    if isinstance(error, StoreError):
        return error
    text = f"The ledger {location} could not be used ({error}). Nothing was written."
    match primary_code(error):
        case sqlite3.SQLITE_FULL:
            return StoreError(f"{text} Free some disk space, then open the run again.")
        case sqlite3.SQLITE_BUSY:
            return StoreError(f"{text} Another process keeps it locked; end that, and try again.")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return LedgerCorrupt(f"{text} It is damaged or no ledger; restore it from a backup.")
    return StoreError(text)


def primary_code(error: BaseException) -> int | None:
    """SQLite's error code without the details that its upper bits carry."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


_known: weakref.WeakSet[Connections] = weakref.WeakSet()
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
