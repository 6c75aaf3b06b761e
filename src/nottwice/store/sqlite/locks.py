"""Which locks does a process hold on a SQLite ledger that no ``close`` can drop? (P110, P112)

SQLite locks its files with POSIX locks. A process loses all of them when it closes *any* descriptor
of the file: a tool that copies the folder of its own ledger is enough. Another process then
believes that it is alone and removes the log under a writer whose commits continue to "succeed". So
on Linux this process also holds OFD locks, which belong to a descriptor:

- Read locks on what SQLite locks while a file is open: the SHARED range of the ledger, and the byte
  of the index (``-shm``) that says "in use". They refuse every EXCLUSIVE lock, also of other tools.
  This process holds them from before SQLite opens the ledger until all its connections are closed,
  so no connection of ours removes the log when it is closed. The last process does that here, after
  it has made sure that it is the last.
- A write lock around every write transaction of ours (see ``take_turn``), because SQLite's own
  WRITE and CHECKPOINT locks can also be dropped. It is fair, unlike SQLite's own waiting.

The read marks of SQLite can also be dropped. So the result of a query is used only if no log was
restarted or checkpointed while it ran (``position``), and a copy holds the marks itself.

A descriptor of these files must never be closed while SQLite has them open, because that would drop
SQLite's locks. There is one set of descriptors per ledger and process, and it counts its users.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import select
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from nottwice.store.machine import ofd
from nottwice.store.machine.descriptors import open_file

# The positions of SQLite's locks: https://www.sqlite.org/src/file/src/os_unix.c, walformat.html.
_SHARED = (0x4000_0002, 510)
_IN_USE = (128, 1)
_READ_MARKS = (123, 5)
# Beyond every page of a ledger. A process that waits for the turn queues for the first byte.
_QUEUE_AND_TURN = (1 << 62, 2)
_QUEUE = (1 << 62, 1)
_TURN = ((1 << 62) + 1, 1)

_HEADER_BYTES = 20
_IN_WAL_MODE = b"\x02\x02"
_INDEX_BYTES = 132
_NO_FRAME = bytes(4)
# How often the header of a log is compared with its index.
TRIES = 3

# The first in the queue polls often, because its turn comes within one commit.
TURN_PAUSE_SECONDS = 0.0001
QUEUE_PAUSE_SECONDS = 0.0005
LONG_PAUSE_SECONDS = 0.01
SHORT_PAUSES = 1_000


class LedgerFiles:
    """The descriptors that this process has of one ledger, and the locks on them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.guard = threading.Lock()
        """For threads: hold it around ``take_turn``, the transaction and ``end_turn``."""
        self.users = 0
        self.wrote = False
        """Whether this process may have written to the log, and so has to remove it."""
        self.forgotten = False
        """Whether this belonged to a parent process: then none of it may be used any more."""
        self.found = ""
        """What is known about a ledger whose files were removed (see ``stale``)."""
        self.locks = ofd.SET >= 0
        """Whether this system has locks that belong to a descriptor."""
        self._shared = False
        self._index = self._log = -1
        self._copies = 0
        self._ledger = _open(path)
        self.inode = inode_of(self._ledger)
        self.end_turn: Callable[[], object] = functools.partial(
            fcntl.fcntl, self._ledger, ofd.SET, ofd.described(fcntl.F_UNLCK, *_QUEUE_AND_TURN)
        )
        """Let the next process write. It is called without a Python frame in between, in which an
        interrupt could hit and leave the turn taken."""
        if not self.locks:
            self.end_turn = os.getpid

    @property
    def stale(self) -> bool:
        """Whether SQLite here has files of this ledger that other processes can no longer find."""
        return self.inode in _abandoned

    def hold_ledger(self, wait_seconds: float, *, judged: bool = False) -> None:
        """Keep others from removing the log, if the ledger has one (WAL mode).

        A journal beside the ledger means that the switch to WAL may have been interrupted. SQLite
        must be able to undo that, so nothing is locked before SQLite has ``judged`` the files.
        """
        with _guard:
            if self._shared or not self.locks or not self._in_wal_mode():
                return
            if not judged and os.path.exists(_beside(self.path, "-journal")):
                return
            for _ in _pauses(LONG_PAUSE_SECONDS, wait_seconds):
                if self._locked(self._ledger, fcntl.F_RDLCK, _SHARED):
                    break
            else:
                raise sqlite3.OperationalError(
                    "database is locked by a process that clears its log"
                )
            # Another tool may have switched WAL off before the lock was there.
            self._shared = self.locks and self._in_wal_mode()
            if self.locks and not self._shared:
                _set(self._ledger, fcntl.F_UNLCK, _SHARED)

    def hold_all(self, connection: sqlite3.Connection, wait_seconds: float) -> None:
        """Also keep others from recreating the index, but only after SQLite itself has judged it.

        An index that a power cut left behind must be rebuilt, and SQLite does so only if no lock
        says that it is in use.
        """
        with _guard:
            if self._index >= 0 or not self._in_wal_mode():
                return
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if not self._in_wal_mode():
                return
            self.hold_ledger(wait_seconds, judged=True)
            self._log = open_file(_beside(self.path, "-wal"), os.O_RDONLY)
            # From here on it must not be closed again, whatever happens.
            self._index = open_file(_beside(self.path, "-shm"), os.O_RDWR)
            for _ in _pauses(LONG_PAUSE_SECONDS, wait_seconds):
                if not self.locks or self._locked(self._index, fcntl.F_RDLCK, _IN_USE):
                    return
            raise sqlite3.OperationalError("database is locked: its index is built")

    def take_turn(self, wait_seconds: float) -> bool:
        """Wait until this process may write; False if another one kept its turn for too long.

        Hold ``guard``, and call ``end_turn`` in any case, even after an interrupt.
        """
        if not self.locks:
            return True
        try:
            fcntl.fcntl(self._ledger, ofd.SET, _TAKE_BOTH)
            fcntl.fcntl(self._ledger, ofd.SET, _LEAVE_QUEUE)
        except (BlockingIOError, PermissionError):
            return self._wait_for_turn(wait_seconds)
        return True

    def _wait_for_turn(self, wait_seconds: float) -> bool:
        # Only the first in the queue waits for the turn itself. Without a queue, the process that
        # had the last turn would take the next one before any other process wakes up.
        for _ in _pauses(QUEUE_PAUSE_SECONDS, wait_seconds):
            if _set(self._ledger, fcntl.F_WRLCK, _QUEUE):
                break
        else:
            return False
        for _ in _pauses(TURN_PAUSE_SECONDS, wait_seconds):
            if _set(self._ledger, fcntl.F_WRLCK, _TURN):
                _set(self._ledger, fcntl.F_UNLCK, _QUEUE)
                return True
        return False

    @contextlib.contextmanager
    def turn(self, wait_seconds: float) -> Iterator[None]:
        """The turn as a context manager, for work that is not urgent."""
        with self.guard:
            try:
                if not self.take_turn(wait_seconds):
                    raise sqlite3.OperationalError("database is locked by another process")
                yield
            finally:
                self.end_turn()

    def position(self) -> bytes:
        """A value that changes whenever the log is restarted or moved into the ledger."""
        if self._index < 0:
            return b""
        seen = os.pread(self._index, _INDEX_BYTES, 0)
        # The salt of the log, what is backfilled, and what a process has started to backfill.
        return seen[32:40] + seen[96:100] + seen[128:132]

    @contextlib.contextmanager
    def holding_read_marks(self) -> Iterator[None]:
        """Keep others from restarting the log, or moving it into the ledger, during a long read."""
        self._count_copies(1)
        try:
            for _ in _pauses(LONG_PAUSE_SECONDS, LONG_PAUSE_SECONDS * SHORT_PAUSES):
                if not self.locks or _set(self._index, fcntl.F_RDLCK, _READ_MARKS):
                    break
            else:
                raise sqlite3.OperationalError("database is locked by another process")
            yield
        finally:
            self._count_copies(-1)

    def _count_copies(self, change: int) -> None:
        with _guard:
            self._copies += change
            if not self._copies and self.locks:
                _set(self._index, fcntl.F_UNLCK, _READ_MARKS)

    def in_place(self) -> bool:
        """Whether the files that SQLite writes to are still those that other processes find."""
        if self._index < 0:
            return True
        return self.log_in_place() and bool(
            self._is_at("-shm", self._index) and os.fstat(self._ledger).st_nlink
        )

    def log_in_place(self) -> bool:
        """Whether other processes find this log, with the header that its index describes."""
        if not self._is_at("-wal", self._log):
            return False
        for _ in range(TRIES):
            # Another tool may restart the log at this moment. With no frame in it, it may be empty.
            try:
                index = os.pread(self._index, _INDEX_BYTES, 0)
                if index[16:20] == _NO_FRAME or os.pread(self._log, 8, 16) == index[32:40]:
                    return True
            except OSError:
                # What cannot be read was not found: a commit must not be called a failed one.
                break
        return False

    def _is_at(self, end: str, descriptor: int) -> bool:
        try:
            return inode_of(_beside(self.path, end)) == inode_of(descriptor)
        except OSError:
            return False

    def remove_index_without_log(self) -> None:
        """Remove the index of a log that is gone, because it keeps the ledger from being read.

        Every process that uses this index has lost its log, and notices by the missing index.
        """
        if self._index >= 0 and not self.log_in_place() and self._is_at("-shm", self._index):
            with contextlib.suppress(OSError):
                os.unlink(_beside(self.path, "-shm"))

    def is_missed(self) -> bool:
        """Whether other processes have other files. If they have none, no process misses any."""
        return self.stale or (not self.in_place() and self.path.exists())

    def _in_wal_mode(self) -> bool:
        return os.pread(self._ledger, _HEADER_BYTES, 0)[18:20] == _IN_WAL_MODE

    def _locked(self, descriptor: int, kind: int, where: tuple[int, int]) -> bool:
        try:
            return _set(descriptor, kind, where)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
            # The kernel, or a sandbox in its place, does not have such locks.
            self.locks = False
            self.end_turn = os.getpid
            return True

    # Closing

    def clear_away(self) -> None:
        """Move the log into the ledger and remove it, if no other process has the ledger open."""
        if not self._shared or self._index < 0 or not self._is_alone():
            return
        if self.wrote and os.fstat(self._log).st_size:
            # Another process may start at this moment, so this takes the turn like every write.
            with self.turn(0), contextlib.closing(_connect(self.path)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if self._is_alone(keep=True) and not os.fstat(self._log).st_size:
            for end, ours in (("-wal", self._log), ("-shm", self._index)):
                if inode_of(_beside(self.path, end)) == inode_of(ours):
                    os.unlink(_beside(self.path, end))

    def _is_alone(self, *, keep: bool = False) -> bool:
        alone = _set(self._ledger, fcntl.F_WRLCK, _SHARED)
        if alone and not keep:
            _set(self._ledger, fcntl.F_RDLCK, _SHARED)
        return alone

    def used_elsewhere(self) -> bool:
        """Whether this process has more descriptors of these files, such as those of SQLite."""
        own = {each for each in (self._ledger, self._index, self._log) if each >= 0}
        inodes = {inode_of(each) for each in own}
        try:
            found = {int(name) for name in os.listdir("/dev/fd")}
        except OSError:
            return False
        for descriptor in found - own:
            with contextlib.suppress(OSError):
                if inode_of(descriptor) in inodes:
                    return True
        return False

    def close(self) -> None:
        for descriptor in (self._ledger, self._index, self._log):
            if descriptor >= 0:
                os.close(descriptor)
        self._ledger = self._index = self._log = -1


class Hold:
    """One use of the files of a ledger. They stay open and locked while there is one."""

    def __init__(self, files: LedgerFiles) -> None:
        self._files: LedgerFiles | None = files

    def release(self) -> None:
        """End this use. The last one removes the log and closes the files."""
        with _guard:
            files, self._files = self._files, None
            if files is None or files.forgotten:
                return
            files.users -= 1
            if not files.users:
                _end(files)

    __del__ = release


_known: dict[tuple[int, int], LedgerFiles] = {}
# Reentrant: the garbage collector may release a use while this very thread opens another file.
_guard = threading.RLock()
_kept_open: list[LedgerFiles] = []
# A forked child also inherits SQLite's memory of these files, so it keeps this set.
_abandoned: set[tuple[int, int]] = set()


def hold(path: Path) -> tuple[LedgerFiles, Hold]:
    """The files of the ledger at ``path``, open in this process until the hold is released."""
    with _guard:
        _close_leftovers()
        files = _known.get(inode_of(path))
        if files is None:
            files = LedgerFiles(path)
            if files.inode in _known:
                # The file was just moved here, and this process already has it open.
                _kept_open.append(files)
                files = _known[files.inode]
            _known[files.inode] = files
        files.users += 1
        return files, Hold(files)


def abandon(files: LedgerFiles) -> None:
    """Keep the files open until this process ends, because SQLite has files that are gone."""
    with _guard:
        files.users += 1
        _abandoned.add(files.inode)


def _end(files: LedgerFiles) -> None:
    if files.used_elsewhere():
        # The program itself has a connection to this ledger, and a close would drop its locks.
        return
    with contextlib.suppress(OSError, sqlite3.Error):
        files.clear_away()
    _known.pop(files.inode, None)
    files.close()


def _close_leftovers() -> None:
    for files in [each for each in _known.values() if not each.users]:
        _end(files)


def _forget_after_fork() -> None:
    """Drop what a child inherited: those locks would outlive the parent. It takes its own."""
    global _guard
    _guard = threading.RLock()
    for files in (*_known.values(), *_kept_open):
        files.forgotten = True
        with contextlib.suppress(OSError):
            files.close()
    _known.clear()
    _kept_open.clear()


os.register_at_fork(after_in_child=_forget_after_fork)


def inode_of(file: Path | str | int) -> tuple[int, int]:
    """What distinguishes a file from another one at the same path."""
    status = os.stat(file)
    return status.st_dev, status.st_ino


def _open(path: Path) -> int:
    try:
        return open_file(path, os.O_RDWR)
    except PermissionError:
        # The file can still be read, and reading needs no turn.
        return open_file(path, os.O_RDONLY)


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path.as_uri() + "?mode=rw", uri=True, timeout=0, isolation_level=None)


def _beside(path: Path, end: str) -> str:
    return f"{path}{end}"


_TAKE_BOTH = ofd.described(fcntl.F_WRLCK, *_QUEUE_AND_TURN)
_LEAVE_QUEUE = ofd.described(fcntl.F_UNLCK, *_QUEUE)


def _set(descriptor: int, kind: int, where: tuple[int, int]) -> bool:
    """Take, change or drop a lock without waiting; False if another lock is in the way."""
    try:
        fcntl.fcntl(descriptor, ofd.SET, ofd.described(kind, *where))
    except (BlockingIOError, PermissionError):
        return False
    return True


def _pauses(pause_seconds: float, wait_seconds: float) -> Iterator[None]:
    """Moments to try at: frequent at first, and limited (D13)."""
    left = wait_seconds
    for number in range(1 << 62):
        yield
        if left <= 0:
            return
        pause = pause_seconds if number < SHORT_PAUSES else LONG_PAUSE_SECONDS
        select.select([], [], [], min(pause, left))
        left -= pause
