"""How is a holder proven alive or dead on one host? By a lock that the kernel drops at its death.

Every process locks one byte of a lock file beside the ledger, each at its own offset, for as long
as it lives. A free byte proves that its holder is dead, immediately and without a heartbeat, but
only in the very file that the holder locked: the file may have been deleted and recreated since. So
the record of a holder says which file it locked. A living holder keeps that file open, so its inode
cannot be reused for another file.

If the process table has an answer, it decides first, because a forked child can inherit the lock of
a dead holder. Another boot proves nothing: images share machine ids, and a volume can move to
another host while the old one is cut off and alive. Promises kept here: P8 (a live holder, even a
stopped one, is never taken for dead), P115, P118 (an interrupt leaves nothing locked).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from nottwice.errors import StoreError
from nottwice.model.run import HolderRecord, Life
from nottwice.store.machine import process_table
from nottwice.store.machine.descriptors import open_file
from nottwice.store.machine.ofd import ByteLocks

T = TypeVar("T")
POLL_SECONDS = 0.01


class HolderLock:
    """This process's lock in one lock file."""

    def __init__(self, path: Path, *, now: float) -> None:
        self.path = path
        self._guard = threading.Lock()
        descriptor = open_file(path, os.O_RDWR | os.O_CREAT)
        self._descriptor = descriptor
        self.inode = _inode(descriptor)
        self.record = replace(describe_this_process(now), lock_file=_text_of(self.inode))
        self._bytes = ByteLocks(descriptor)
        try:
            self._bytes.take(_place_of(self.record.holder_id))
        except OSError as error:
            os.close(descriptor)
            raise StoreError(
                f"{path} cannot be locked ({error}), so this process could not prove that it is "
                "alive. Nothing was opened. Put the ledger on a local disk."
            ) from error

    def life_of(self, record: HolderRecord | None) -> Life:
        """What can be proven about another holder of the same ledger."""
        if record is None:
            return Life.NOT_PROVEN
        if record.holder_id == self.record.holder_id:
            return Life.ALIVE
        life = process_table.life_of(record, here=self.record)
        if life is None:
            return self._life_by_lock(record)
        if life is Life.ALIVE and record.pid == self.record.pid and self._is_all_we_hold():
            # This very process was that holder before it replaced its program (exec).
            return Life.DEAD
        return life

    def _life_by_lock(self, record: HolderRecord) -> Life:
        """The verdict if the process table has no answer."""
        if not self._bytes.is_free(_place_of(record.holder_id)):
            return Life.ALIVE
        here = self.record
        # Without a boot id (macOS), the host name is the best there is.
        same_system = record.boot_id == here.boot_id if here.boot_id else record.host == here.host
        if same_system and record.lock_file is not None and record.lock_file == here.lock_file:
            return Life.DEAD
        return Life.NOT_PROVEN

    def _is_all_we_hold(self) -> bool:
        """Whether this process has no other descriptor of the lock file, deleted or not."""
        names = (str(self.path), f"{self.path} (deleted)")
        descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
        ours = [each for each in descriptors if _link(f"/proc/self/fd/{each}") in names]
        return ours == [self._descriptor]

    def is_in_place(self) -> bool:
        """Whether the file that this process locked is still the one that other processes find."""
        try:
            return _inode(self.path) == self.inode
        except OSError:
            return False

    def mark_complete(self) -> None:
        """Note that the tables of the ledger are in its file (P116). Any lock may be held."""
        # On a full disk it stays unmarked. The next process that opens the ledger tries again.
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, b"1", 0)

    def exclusively(self, place: int, work: Callable[[], T], *, wait_seconds: float) -> T:
        """Do something while other processes, and other threads of this one, are excluded.

        This is not a context manager, because an interrupt (Ctrl-C) could hit between taking the
        lock and entering the block that releases it. Here ``with`` takes the guard, and the byte is
        unlocked by a single call into C, so there is no such gap.
        """
        unlock = self._bytes.unlocking(place)
        with self._guard:
            try:
                self._lock_within(place, wait_seconds)
                return work()
            finally:
                unlock()

    def _lock_within(self, place: int, wait_seconds: float) -> None:
        # The kernel would wait without a limit, and the process that has the lock may be stopped
        # (D13).
        never_set = threading.Event()
        for _ in range(int(wait_seconds / POLL_SECONDS) + 1):
            try:
                self._bytes.take(place)
                return
            except BlockingIOError:
                never_set.wait(POLL_SECONDS)
        raise self._taken(wait_seconds)

    def _taken(self, wait_seconds: float) -> StoreError:
        return StoreError(
            f"Another process has kept {self.path} locked for {wait_seconds:g} s while it changes "
            "the ledger. Nothing was done here. End that process, or let it finish."
        )

    def forget_after_fork(self) -> None:
        """Close the inherited descriptor. This does not affect the parent's locks."""
        descriptor, self._descriptor = self._descriptor, -1
        self._bytes.forget()
        with contextlib.suppress(OSError):
            os.close(descriptor)


_held: dict[tuple[int, int], HolderLock] = {}
_held_guard = threading.Lock()


def hold(path: Path, *, now: float) -> HolderLock:
    """This process's lock in the file at ``path``, taken on first use."""
    with _held_guard:
        with contextlib.suppress(FileNotFoundError):
            known = _held.get(_inode(path))
            if known is not None:
                return known
        lock = HolderLock(path, now=now)
        _held[lock.inode] = lock
        return lock


def _inode(file: Path | int) -> tuple[int, int]:
    status = os.stat(file)
    return status.st_dev, status.st_ino


def _forget_all_after_fork() -> None:
    global _held_guard
    _held_guard = threading.Lock()
    for lock in _held.values():
        lock.forget_after_fork()
    _held.clear()


os.register_at_fork(after_in_child=_forget_all_after_fork)


def _place_of(holder_id: str) -> int:
    """The byte of a holder, spread over the whole range of file offsets."""
    return int.from_bytes(hashlib.sha256(holder_id.encode()).digest()[:8], "big") >> 2


def describe_this_process(now: float) -> HolderRecord:
    """A new holder: this process, with what proves that it is alive or dead."""
    return HolderRecord(
        holder_id=uuid.uuid4().hex,
        host=os.uname().nodename,
        machine_id=process_table.read_text("/etc/machine-id"),
        boot_id=process_table.boot_id(),
        pid_namespace=process_table.pid_namespace(),
        pid=os.getpid(),
        pid_started=process_table.own_start(),
        since=now,
    )


def _text_of(inode: tuple[int, int]) -> str:
    """A file as a record names it: device and inode, which are the same in all containers."""
    return f"{inode[0]}:{inode[1]}"


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
