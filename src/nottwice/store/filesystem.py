"""Where a ledger may live: a local disk, not a network drive, preferably not a container layer.

SQLite and our proof of death both rely on file locks. Network file systems do not keep them, and a
folder that a virtual machine shares with its host shows neither of them the locks of the other.
Promise kept here: P115.
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
"""Folders that a virtual machine has from its host: of VirtualBox, VMware, Parallels, QEMU, WSL and
Docker Desktop."""
CONTAINER_LAYER = frozenset({"overlay", "aufs"})


def check_filesystem(path: Path, *, mountinfo: str | None = None) -> str | None:
    """Refuse a network drive; return a warning where the ledger would not outlive a container."""
    _check_single_name(path, mountinfo=mountinfo)
    return check_folder(path, mountinfo=mountinfo)


def check_folder(path: Path, *, mountinfo: str | None = None) -> str | None:
    """The same for a ledger that is a folder, which may well be mounted by itself."""
    kind = filesystem_of(path, mountinfo=mountinfo)
    if kind in NETWORK:
        raise UnsafeFilesystem(
            f"{path} lies on a network file system ({kind}), where file locks cannot be trusted: "
            "two machines could drive one run. Nothing was opened. Put the ledger on a local disk."
        )
    if kind in SHARED_BY_MACHINES:
        raise UnsafeFilesystem(
            f"{path} lies in a folder that a virtual machine shares with its host ({kind}), and "
            "neither sees the file locks of the other: both could drive one run. Nothing was "
            "opened. Put the ledger on a disk of the machine itself, such as a Docker volume."
        )
    if kind in CONTAINER_LAYER:
        return (
            f"{path} lies on a container's own layer ({kind}): the ledger disappears with the "
            "container. Put it on a mounted volume."
        )
    return None


def _check_single_name(path: Path, *, mountinfo: str | None) -> None:
    """Refuse a file of several names: SQLite keeps one log beside each name, and they differ."""
    with contextlib.suppress(OSError):
        if path.is_file() and os.stat(path).st_nlink > 1:
            raise UnsafeFilesystem(
                f"{path} is one of several names (hard links) of one file, and SQLite would keep "
                "a log for each. Nothing was opened. Remove the other names."
            )
    if str(path) in {mount.point for mount in _read_mounts(mountinfo or _own_mounts())}:
        raise UnsafeFilesystem(
            f"{path} is mounted by itself, so the log that SQLite keeps beside it would lie on "
            "another file system. Nothing was opened. Mount its folder instead."
        )


def _own_mounts() -> str:
    try:
        return os.fsdecode(Path("/proc/self/mountinfo").read_bytes())
    except OSError:
        return ""


def filesystem_of(path: Path, *, mountinfo: str | None = None) -> str | None:
    """The type of the file system that holds ``path``; None where the system does not tell."""
    if mountinfo is None:
        mountinfo = _own_mounts()
    mounts = _read_mounts(mountinfo)
    known = {mount.id for mount in mounts}
    kind, here = None, ""
    while True:
        # As the kernel walks: from mount to mount, and into the first one on the way. The order
        # of the lines says nothing, and a longer mount point may be hidden under a shorter one.
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
    # The kernel separates by spaces and line feeds only, and escapes both; a path may well contain
    # other characters that Python takes for white space.
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
