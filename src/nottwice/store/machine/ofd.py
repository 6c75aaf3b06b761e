"""How does a process lock bytes of a file so that no other code in it can drop the lock?

A POSIX lock belongs to the process: closing *any* descriptor of the file drops it, even one that a
backup or a search through the folder opened for a moment. An OFD lock (open file description) ends
when the last descriptor of the ``open`` that took it is closed. A forked child inherits such a
descriptor, so a held lock does not prove that the process that took it is alive.

Only Linux has OFD locks. Elsewhere, and where the kernel refuses them, POSIX locks are used. Both
kinds respect each other. Promise kept here: P115.
"""

from __future__ import annotations

import fcntl
import functools
import os
import struct
from collections.abc import Callable

_FLOCK = struct.Struct("@hhqqi0q")
"""Linux' ``struct flock``: type, whence, start, length, pid, and the padding at its end."""
SET: int = getattr(fcntl, "F_OFD_SETLK", -1)
"""The command that takes and drops an OFD lock; -1 where there are none."""
_GET: int = getattr(fcntl, "F_OFD_GETLK", -1)


def described(kind: int, place: int, length: int = 1) -> bytes:
    """The kernel's description of a lock of some bytes."""
    # The process id of an OFD lock must be 0.
    return _FLOCK.pack(kind, os.SEEK_SET, place, length, 0)


class ByteLocks:
    """Locks of single bytes of a file, through one descriptor of it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.outlive_other_descriptors = _takes_ofd_locks(descriptor)
        """Whether the locks survive a ``close`` elsewhere in this process."""

    def forget(self) -> None:
        """Stop using the descriptor: it was closed, and its number may mean another file."""
        self._descriptor = -1

    def take(self, place: int) -> None:
        """Lock a byte without waiting. Raises BlockingIOError if it is already locked."""
        if self.outlive_other_descriptors:
            fcntl.fcntl(self._descriptor, SET, described(fcntl.F_WRLCK, place))
        else:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)

    def unlocking(self, place: int) -> Callable[[], object]:
        """A function that unlocks a byte and has no line of Python where an interrupt can hit."""
        if self.outlive_other_descriptors:
            return functools.partial(
                fcntl.fcntl, self._descriptor, SET, described(fcntl.F_UNLCK, place)
            )
        return functools.partial(fcntl.lockf, self._descriptor, fcntl.LOCK_UN, 1, place)

    def is_free(self, place: int) -> bool:
        """Whether a byte has no lock except those taken through this descriptor."""
        if self.outlive_other_descriptors:
            found = fcntl.fcntl(self._descriptor, _GET, described(fcntl.F_RDLCK, place))
            return bool(_FLOCK.unpack(found)[0] == fcntl.F_UNLCK)
        try:
            # A shared lock, so that two processes that check do not take each other for the holder.
            fcntl.lockf(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, place)
        except OSError:
            return False
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, place)
        return True


def _takes_ofd_locks(descriptor: int) -> bool:
    if SET < 0:
        return False
    try:
        # Unlocking a byte that is not locked changes nothing. Some sandboxes refuse the command.
        fcntl.fcntl(descriptor, SET, described(fcntl.F_UNLCK, 0))
    except OSError:
        return False
    return True
