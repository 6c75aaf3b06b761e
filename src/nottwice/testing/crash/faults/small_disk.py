"""A disk that is really full: a small one in memory, visible only to the child.

The child creates its own mount namespace and mounts the small disk where its ledgers will be, so
nothing is left behind, wherever it ends. At the end, it copies the contents of the disk out. This
needs root. Without root, the full disk is only simulated.
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
"""Mounts made here are not visible elsewhere. Applies to everything that is already mounted."""


class SmallDisk:
    """A disk of a given size, in place of a folder that is still empty."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self._folder = folder
        self._size_bytes = size_bytes
        self._kept = folder.with_name(folder.name + ".kept")

    def mount(self) -> None:
        """Mount it, in the child. Raises OSError where that is not allowed."""
        _call("unshare", _NEW_MOUNTS)
        _call("mount", None, b"/", None, _PRIVATE, None)
        options = f"size={self._size_bytes}".encode()
        _call("mount", b"tmpfs", os.fsencode(self._folder), b"tmpfs", 0, options)

    def copy_out(self) -> None:
        """Copy the contents, in the child after its work: the disk disappears with the child."""
        shutil.copytree(self._folder, self._kept)

    def take_over(self) -> None:
        """Put the contents into the folder, in the parent after the child has ended."""
        self._folder.rmdir()
        self._kept.rename(self._folder)


@functools.cache
def can_mount() -> bool:
    """Return whether a child may have its own disk."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return tried.returncode == 0


def _call(name: str, *words: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*words) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
