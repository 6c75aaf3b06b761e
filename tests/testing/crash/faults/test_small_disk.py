"""Is the small disk small, seen by no other process, and is what was on it kept?"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nottwice.testing.crash.faults.small_disk import SmallDisk, can_mount

pytestmark = pytest.mark.skipif(
    not can_mount(), reason="a disk of one's own takes the rights of root"
)


def fill_in_a_child(disk: SmallDisk, folder: Path) -> int:
    """The error that a child meets when it writes more than fits."""
    pid = os.fork()
    if pid == 0:
        disk.mount()
        (folder / "fits").write_bytes(b"x" * 4096)
        try:
            (folder / "too much").write_bytes(b"x" * 65536)
        except OSError as error:
            disk.copy_out()
            os._exit(error.errno or 0)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_small_disk_is_full_for_its_child_and_what_fitted_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "ledgers"
    folder.mkdir()
    disk = SmallDisk(folder, 16384)
    assert fill_in_a_child(disk, folder) == errno.ENOSPC
    assert list(folder.iterdir()) == []
    disk.take_over()
    assert (folder / "fits").read_bytes() == b"x" * 4096
    (folder / "too much").write_bytes(b"x" * 65536)
