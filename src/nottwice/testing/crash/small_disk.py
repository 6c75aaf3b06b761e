"""A disk that is really full: a small one in memory, which only the child can see.

The child takes a view of the file system of its own and mounts the small disk where its ledgers are
to be, so nothing is left behind wherever it ends. What is on the disk in the end it copies out.
That takes the rights of root; without them the full disk is only imitated.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

_NEW_MOUNTS = 0x00020000
_PRIVATE = 0x00040000 | 0x00004000
"""What is mounted here is not seen elsewhere; for all that is mounted already."""


class SmallDisk:
    """A disk of so many bytes, in place of a folder that is still empty."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self._folder = folder
        self._size_bytes = size_bytes
        self._kept = folder.with_name(folder.name + ".kept")

    def mount(self) -> None:
        """In the child. Raises OSError where that is not allowed."""
        _call("unshare", _NEW_MOUNTS)
        _call("mount", None, b"/", None, _PRIVATE, None)
        options = f"size={self._size_bytes}".encode()
        _call("mount", b"tmpfs", os.fsencode(self._folder), b"tmpfs", 0, options)

    def copy_out(self) -> None:
        """In the child, when its work is over: this disk goes with it."""
        shutil.copytree(self._folder, self._kept)

    def take_over(self) -> None:
        """In the parent, when the child is over: what was on the disk is in the folder now."""
        self._folder.rmdir()
        self._kept.rename(self._folder)


@functools.cache
def can_mount() -> bool:
    """Whether a child may have a disk of its own."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return tried.returncode == 0


def _call(name: str, *words: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*words) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
