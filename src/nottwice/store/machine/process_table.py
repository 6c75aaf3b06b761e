"""Is the process that a record names still running, according to the Linux process table?

The table answers only for this boot and this pid namespace, and only if the right /proc is mounted:
a program in a new namespace may still see the /proc of the old one, where its process ids belong to
other processes. A mount with ``hidepid`` hides processes that exist. If the table gives no answer,
the result is None, which proves nothing. Promises kept here: P8, P57, P115.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from nottwice.model.run import HolderRecord, Life


def boot_id() -> str:
    return read_text("/proc/sys/kernel/random/boot_id")


def pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def life_of(record: HolderRecord, *, here: HolderRecord) -> Life | None:
    """Whether exactly the process of a record is still in the table; None if that is unknown."""
    seen_from_here = (record.boot_id, record.pid_namespace) == (here.boot_id, here.pid_namespace)
    if not (seen_from_here and record.boot_id and record.pid_namespace and record.pid_started):
        return None
    if not _is_of_this_namespace():
        return None
    started = start_of(record.pid)
    if started:
        return Life.ALIVE if started == record.pid_started else Life.DEAD
    if _is_zombie(record.pid) or not _exists(record.pid):
        return Life.DEAD
    return None


def start_of(pid: int) -> str:
    """When a process started, in the kernel's units; empty if it ended or this is unknown."""
    fields = _fields_of(pid)
    return fields[19] if len(fields) > 19 and fields[0] not in _ENDED else ""


def own_start() -> str:
    """When this process started; empty if /proc shows other processes under our ids."""
    return start_of(os.getpid()) if _is_of_this_namespace() else ""


_ENDED = ("Z", "X")


def _is_zombie(pid: int) -> bool:
    return _fields_of(pid)[:1] in (["Z"], ["X"])


def _fields_of(pid: int) -> list[str]:
    """What /proc says about a process, from its state on."""
    if sys.platform != "linux":
        return []
    return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _is_of_this_namespace() -> bool:
    """Whether /proc shows the processes of our own pid namespace, with the ids they have in it.

    NSpid lists the ids of this process, from the namespace of the mount down to its own.
    """
    for line in read_text("/proc/self/status").splitlines():
        if line.startswith("NSpid:"):
            return line.split()[1:] == [str(os.getpid())]
    # Kernels before 4.1 have no NSpid line.
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def _exists(pid: int) -> bool:
    """Whether the kernel knows the process, even if /proc does not show it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
