"""Where may a ledger be? On a local disk, not a network drive, preferably not a container layer.

SQLite and our proof of death both rely on file locks. Network file systems do not keep them
reliably. In a folder that a virtual machine shares with its host, neither side sees the locks of
the other. Promise kept here: P115.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from nottwice.errors import UnsafeFilesystem

NETWORK = frozenset(
    "afs beegfs ceph cifs coda davfs fuse.blobfuse2 fuse.ceph fuse.ceph-fuse fuse.davfs2 "
    "fuse.gcsfuse fuse.glusterfs fuse.goofys fuse.juicefs fuse.mfs fuse.mount-s3 fuse.rclone "
    "fuse.s3fs fuse.seaweedfs fuse.sshfs gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 orangefs "
    "pvfs2 smb2 smb3 smbfs wekafs".split()
)
SHARED_BY_MACHINES = frozenset(
    "9p drvfs fakeowner fuse.grpcfuse fuse.osxfs fuse.portal fuse.prl_fsd fuse.virtiofs "
    "fuse.vmhgfs-fuse grpcfuse osxfs prl_fs vboxsf virtiofs vmhgfs".split()
)
"""Folders that a virtual machine shares with its host: of VirtualBox, VMware, Parallels, QEMU, WSL
and Docker Desktop."""
CONTAINER_LAYER = frozenset({"overlay", "aufs"})


def check_filesystem(path: Path, *, mountinfo: str | None = None) -> str | None:
    """Refuse a network drive; return a warning if the ledger would not outlive a container."""
    _check_single_name(path, mountinfo=mountinfo)
    return check_folder(path, mountinfo=mountinfo)


def check_folder(path: Path, *, mountinfo: str | None = None) -> str | None:
    """The same for a ledger that is a folder, which may be a mount point itself."""
    kind = filesystem_of(path, mountinfo=mountinfo)
    if kind in NETWORK:
        raise UnsafeFilesystem(
            f"{path} is on a network file system ({kind}), where file locks cannot be trusted: "
            "two machines could drive one run. Nothing was opened. Put the ledger on a local disk."
        )
    if kind in SHARED_BY_MACHINES:
        raise UnsafeFilesystem(
            f"{path} is in a folder that a virtual machine shares with its host ({kind}), and "
            "neither sees the file locks of the other: both could drive one run. Nothing was "
            "opened. Put the ledger on a disk of the machine itself, such as a Docker volume."
        )
    if kind in CONTAINER_LAYER:
        return (
            f"{path} is on a container's own layer ({kind}): the ledger disappears with the "
            "container. Put it on a mounted volume."
        )
    return None


def _check_single_name(path: Path, *, mountinfo: str | None) -> None:
    """Refuse a file with several names: SQLite keeps a separate log beside each name."""
    with contextlib.suppress(OSError):
        if path.is_file() and os.stat(path).st_nlink > 1:
            raise UnsafeFilesystem(
                f"{path} is one of several names (hard links) of one file, and SQLite would keep "
                "a log for each. Nothing was opened. Remove the other names."
            )
    if str(path) in {mount.point for mount in _read_mounts(mountinfo or _own_mounts())}:
        raise UnsafeFilesystem(
            f"{path} is a mount point itself, so the log that SQLite keeps beside it would be on "
            "another file system. Nothing was opened. Mount its folder instead."
        )


def _own_mounts() -> str:
    try:
        return os.fsdecode(Path("/proc/self/mountinfo").read_bytes())
    except OSError:
        return ""


def filesystem_of(path: Path, *, mountinfo: str | None = None) -> str | None:
    """The type of the file system that holds ``path``; None if the system does not say."""
    if mountinfo is None:
        mountinfo = _own_mounts()
    mounts = _read_mounts(mountinfo)
    known = {mount.id for mount in mounts}
    kind, here = None, ""
    while True:
        # This follows the kernel: from mount to mount, always into the first one on the way. The
        # order of the lines means nothing, and a shorter mount point may hide a longer one.
        inside = [
            mount
            for mount in mounts
            if (mount.parent if mount.parent in known else "") == here
            and _is_under(str(path), mount.point)
        ]
        if not inside:
            return kind
        first = min(inside, key=lambda mount: len(mount.point))
        kind, here = first.kind, first.id


class _Mount(NamedTuple):
    id: str
    parent: str
    point: str
    kind: str


def _read_mounts(mountinfo: str) -> list[_Mount]:
    mounts = []
    # The kernel separates fields by spaces and lines by line feeds, and escapes both. A path may
    # contain other characters that Python considers white space.
    for line in mountinfo.split("\n"):
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        own, parent = fields[:2]
        kind = after.split(" ")[0]
        mounts.append(_Mount(own, "" if parent == own else parent, _unescape(fields[4]), kind))
    return mounts


def _is_under(path: str, mount: str) -> bool:
    return path == mount or path.startswith(mount.rstrip("/") + "/")


def _unescape(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
