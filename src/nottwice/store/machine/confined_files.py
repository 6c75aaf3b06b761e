"""How does nottwice change a file whose name came from outside: a model, a person, a message?

The file stays below its folder, because no link on the way to it is followed. It is replaced
as a whole: written under another name, synced and renamed, and then its folder is synced. Promise
kept here: P75.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from nottwice.store.files.disk import sync

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class NotAFile(Exception):
    """A link or a non-folder is on the way to a file, or the file itself is not a plain file."""


class Unsynced(Exception):
    """The file has its new content, but may lose it if the power fails now."""


def check_relative(path: str) -> str:
    """Refuse, with ValueError, a path that could lead out of its folder."""
    parts = path.split("/")
    if path != str(PurePosixPath(path)) or any(part in ("", ".", "..") for part in parts):
        raise ValueError("it must be a relative path without '..', such as 'reports/may.txt'")
    if not path.isprintable() or "\\" in path:
        raise ValueError("it contains a character that has no place in a file's name")
    if any(part.lower() == ".git" for part in parts):
        raise ValueError("it points into the files of git itself")
    return path


@contextlib.contextmanager
def folder_of(root: str, path: str, *, make: bool) -> Iterator[tuple[int, str]]:
    """The folder that holds a file, opened, and the file's name in it.

    With ``make``, missing folders are created durably. Without it, FileNotFoundError is raised.
    """
    *folders, leaf = path.split("/")
    if make:
        _make_root(Path(root))
    where = os.open(root, _FOLDER)
    try:
        for folder in folders:
            if make:
                _make_folder(where, folder)
            inner = _open_inner(where, folder)
            os.close(where)
            where = inner
        yield where, leaf
    finally:
        os.close(where)


def replace(where: int, leaf: str, content: bytes, *, beside: str) -> None:
    """Replace the content of a file, by way of another name in the same folder.

    Durable: when it returns. Raises OSError or NotAFile with the old content in place, or Unsynced.
    """
    before = _permissions(where, leaf)
    _write_beside(where, beside, content, before)
    os.rename(beside, leaf, src_dir_fd=where, dst_dir_fd=where)
    try:
        sync(where)
    except OSError as error:
        raise Unsynced(str(error)) from error


def read(where: int, leaf: str) -> bytes:
    """The content of a file."""
    if _permissions(where, leaf) is None:
        raise FileNotFoundError(errno.ENOENT, "there is no such file", leaf)
    descriptor = os.open(leaf, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=where)
    with open(descriptor, "rb") as file:
        return file.read()


def changed_at(where: int, leaf: str) -> float | None:
    """When an entry of a folder was last changed, in any way; None if it does not exist."""
    try:
        return os.stat(leaf, dir_fd=where, follow_symlinks=False).st_ctime
    except FileNotFoundError:
        return None


def _make_root(root: Path) -> None:
    if root.is_dir():
        return
    _make_root(root.parent)
    with contextlib.suppress(FileExistsError):
        root.mkdir()
    above = os.open(root.parent, _FOLDER)
    try:
        sync(above)
    finally:
        os.close(above)


def _make_folder(where: int, folder: str) -> None:
    try:
        os.mkdir(folder, dir_fd=where)
    except FileExistsError:
        return
    sync(where)


def _open_inner(where: int, folder: str) -> int:
    try:
        return os.open(folder, _FOLDER | os.O_NOFOLLOW, dir_fd=where)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise NotAFile(
                f"{folder!r} on the way to it is not a folder or is a link; links are not followed"
            ) from None
        raise


def _permissions(where: int, leaf: str) -> int | None:
    """The permissions of a plain file; None if it does not exist."""
    try:
        mode = os.stat(leaf, dir_fd=where, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise NotAFile(f"{leaf!r} is a folder, a link or a device")
    return stat.S_IMODE(mode)


def _write_beside(where: int, beside: str, content: bytes, permissions: int | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, flags, 0o666, dir_fd=where)
    try:
        if permissions is not None:
            os.fchmod(descriptor, permissions)
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        sync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside, dir_fd=where)
        raise
    finally:
        os.close(descriptor)
