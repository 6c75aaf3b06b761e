"""Where a ledger may live: a local disk, not a network drive, preferably not a container layer.

SQLite and our proof of death both rely on file locks, and those lie on network file systems.
"""

from __future__ import annotations

from pathlib import Path

from nottwice.errors import UnsafeFilesystem

NETWORK = frozenset(
    "9p afs beegfs ceph cifs coda fuse.glusterfs fuse.rclone fuse.s3fs fuse.sshfs glusterfs gpfs "
    "lustre ncpfs nfs nfs4 ocfs2 smb2 smb3 smbfs vboxsf".split()
)
CONTAINER_LAYER = frozenset({"overlay", "aufs"})


def check_filesystem(path: Path, *, mountinfo: str | None = None) -> str | None:
    """Refuse a network drive; return a warning where the ledger would not outlive a container."""
    kind = filesystem_of(path, mountinfo=mountinfo)
    if kind in NETWORK:
        raise UnsafeFilesystem(
            f"{path} lies on a network file system ({kind}), where file locks cannot be trusted: "
            "two machines could drive one run. Nothing was opened. Put the ledger on a local "
            "disk, or use PostgreSQL for several machines."
        )
    if kind in CONTAINER_LAYER:
        return (
            f"{path} lies on a container's own layer ({kind}): the ledger disappears with the "
            "container. Put it on a mounted volume."
        )
    return None


def filesystem_of(path: Path, *, mountinfo: str | None = None) -> str | None:
    """The type of the file system that holds ``path``; None where the system does not tell."""
    if mountinfo is None:
        try:
            mountinfo = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
    best, kind = "", None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        mount = _unescape(fields[4])
        # Later lines win at equal length: a mount on top hides the one below.
        if _is_under(str(path), mount) and len(mount) >= len(best):
            best, kind = mount, after.split()[0]
    return kind


def _is_under(path: str, mount: str) -> bool:
    return path == mount or path.startswith(mount.rstrip("/") + "/")


def _unescape(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
