"""Proof of life and death on one host: a lock that the kernel drops when its process dies.

Every process takes one byte of a lock file beside the ledger, at a place of its own, and keeps it
for as long as it lives. A byte that can be locked proves its holder dead, at once and without a
heartbeat. POSIX locks are not inherited by forked children, and closing *any* descriptor of the
file drops them, so the file is opened once a process and never closed.

A free byte alone is not believed: someone may have deleted the lock file under a living holder,
or copied the ledger to another machine. The process table and the boot id have a say, too.
Promise kept here: P8 (a live holder, even a stopped one, is never taken for dead).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import socket
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

from nottwice.errors import StoreError
from nottwice.model.run import HolderRecord, Life

POLL_SECONDS = 0.01


class HolderLock:
    """This process's place in one lock file."""

    def __init__(self, path: Path, *, now: float) -> None:
        self.path = path
        self._guard = threading.Lock()
        self.record = describe_this_process(now)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._descriptor = descriptor
        self.inode = _inode(descriptor)
        place = _place_of(self.record.holder_id)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
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
        if not self._byte_is_free(record.holder_id):
            return Life.ALIVE
        life = _life_by_process_table(record, here=self.record)
        if life is Life.ALIVE and record.pid == self.record.pid and self._is_all_we_hold():
            # This very process was that holder before it replaced its program (exec).
            return Life.DEAD
        return life

    def _byte_is_free(self, holder_id: str) -> bool:
        place = _place_of(holder_id)
        try:
            # Shared, so that two who look at once do not take each other for the holder.
            fcntl.lockf(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, place)
        except OSError:
            return False
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, place)
        return True

    def _is_all_we_hold(self) -> bool:
        """Whether this process has no other descriptor of the lock file, deleted or not."""
        names = (str(self.path), f"{self.path} (deleted)")
        descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
        ours = [each for each in descriptors if _link(f"/proc/self/fd/{each}") in names]
        return ours == [self._descriptor]

    def is_in_place(self) -> bool:
        """Whether the file that this process has locked is still the one that others find."""
        try:
            return _inode(self.path) == self.inode
        except OSError:
            return False

    @contextlib.contextmanager
    def exclusively(self, place: int, *, wait_seconds: float) -> Iterator[None]:
        """Keep other processes, and other threads of this one, out of a short section."""
        if not self._guard.acquire(timeout=wait_seconds):
            raise self._taken(wait_seconds)
        try:
            # Inside the block: an interrupt right after the lock was taken must not keep it.
            self._lock_within(place, wait_seconds)
            yield
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, place)
            self._guard.release()

    def _lock_within(self, place: int, wait_seconds: float) -> None:
        # The kernel's own waiting has no end, and whoever has the lock may be stopped (D13).
        nobody = threading.Event()
        for _ in range(int(wait_seconds / POLL_SECONDS) + 1):
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                return
            except BlockingIOError:
                nobody.wait(POLL_SECONDS)
        raise self._taken(wait_seconds)

    def _taken(self, wait_seconds: float) -> StoreError:
        return StoreError(
            f"Another process has kept {self.path} locked for {wait_seconds:g} s while it changes "
            "the ledger. Nothing was done here. End that process, or let it go on."
        )

    def forget_after_fork(self) -> None:
        """Drop the inherited descriptor; the parent's locks are not touched by that."""
        descriptor, self._descriptor = self._descriptor, -1
        with contextlib.suppress(OSError):
            os.close(descriptor)


_held: dict[tuple[int, int], HolderLock] = {}
_held_guard = threading.Lock()


def hold(path: Path, *, now: float) -> HolderLock:
    """The lock of this process in the file at ``path``, taken on first use."""
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
    """A byte of its own for every holder, spread over the whole range of file offsets."""
    return int.from_bytes(hashlib.sha256(holder_id.encode()).digest()[:8], "big") >> 2


def describe_this_process(now: float) -> HolderRecord:
    """A new holder: this process, with what proves its life and death."""
    return HolderRecord(
        holder_id=uuid.uuid4().hex,
        host=socket.gethostname(),
        machine_id=_read("/etc/machine-id"),
        boot_id=_read("/proc/sys/kernel/random/boot_id"),
        pid_namespace=_link("/proc/self/ns/pid"),
        pid=os.getpid(),
        pid_started=start_of(os.getpid()),
        since=now,
    )


def _life_by_process_table(record: HolderRecord, *, here: HolderRecord) -> Life:
    """The verdict when the lock byte is free."""
    if not record.boot_id:
        return Life.DEAD if record.host == here.host else Life.NOT_PROVEN
    if record.boot_id != here.boot_id:
        same_machine = bool(record.machine_id) and record.machine_id == here.machine_id
        return Life.DEAD if same_machine else Life.NOT_PROVEN
    if record.pid_namespace == here.pid_namespace:
        started = start_of(record.pid)
        if started and started == record.pid_started:
            return Life.ALIVE
    return Life.DEAD


def start_of(pid: int) -> str:
    """When a process started, as the kernel counts; empty if it is gone or cannot be told."""
    if sys.platform != "linux":
        return ""
    text = _read(f"/proc/{pid}/stat")
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in ("Z", "X"):
        return ""
    return fields[19]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
