"""How does a file change so that a crash leaves the old one or the new one, never half of one?

A file is replaced: written under another name, synced, renamed, and its folder synced. A journal
grows by whole lines: one write at its end, then a sync. A line that a crash cut short has no line
feed, and the next writer removes it. Every writer has the ledger's lock. Promises kept here: P5,
P10, and P19 (no run id names a file outside of the folder).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from nottwice.errors import CommitUnknown, StoreError
from nottwice.store.machine.descriptors import open_file

Content = tuple[bytes, ...]
"""The content of a file, in pieces. The contents of two commits share most of them."""
RUN = ".json"
INBOX = ".inbox"
_NEW = ".new"
_MOST_PLAIN_CHARACTERS = 100
_PLAIN = re.compile(r"[a-z0-9_][a-z0-9_.-]*")
# Names that mean devices on some systems, whatever follows the first dot.
_DEVICES = re.compile(r"(?:aux|con|nul|prn|com[0-9]|lpt[0-9])(?:\..*)?")


def name_of(workflow_id: str) -> str:
    """The file name of a run, without its ending: the id itself if that is harmless.

    Any other id becomes its harmless characters, a tilde, which no plain name has, and a hash. So
    no two ids share a name, even on a file system that ignores case.
    """
    plain = len(workflow_id) <= _MOST_PLAIN_CHARACTERS and _PLAIN.fullmatch(workflow_id)
    if plain and not _DEVICES.fullmatch(workflow_id):
        return workflow_id
    readable = re.sub(r"[^a-z0-9_-]+", "-", workflow_id[:40].lower()).strip("-")
    digest = hashlib.sha256(workflow_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{readable}~{digest[:32]}"


def names_in(folder: Path) -> list[str]:
    """The names of all runs that have a file or an inbox here, sorted."""
    with os.scandir(folder) as entries:
        files = [Path(entry.name) for entry in entries if not entry.name.startswith(".")]
    return sorted({file.name[: -len(file.suffix)] for file in files if file.suffix in (RUN, INBOX)})


def looks_of(folder: Path) -> frozenset[tuple[str, int, int, int]]:
    """What shows without reading that a file here was replaced, has grown, is new or is gone."""
    seen: set[tuple[str, int, int, int]] = set()
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((RUN, INBOX)):
                # The file may be gone by now.
                with contextlib.suppress(FileNotFoundError):
                    now = entry.stat()
                    seen.add((entry.name, now.st_ino, now.st_size, now.st_mtime_ns))
    return frozenset(seen)


def read(path: Path) -> bytes | None:
    """The content of a file; None if there is no such file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def holds(path: Path, content: Content) -> bool:
    """Whether a file has exactly this content. It is read, because a file can be edited in place
    without a trace: within a tick of the file system's clock, or with its times set back."""
    try:
        with path.open("rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size != sum(map(len, content)):
                return False
            return all(file.read(len(piece)) == piece for piece in content) and not file.read(1)
    except FileNotFoundError:
        return False


def replace(path: Path, *content: bytes) -> None:
    """Replace a file, or create it, with the pieces of its content.

    Durable: when it returns. Raises OSError with the old file in place, or CommitUnknown.
    """
    try:
        _write_beside(path, content)
        _rename(path)
    except _Unsynced as first:
        # The new file is visible, but its name may not survive. Try again from the start.
        try:
            _write_beside(path, content)
            _rename(path)
        except (OSError, _Unsynced) as again:
            raise _unknown(path, first.error, again) from again


def _write_beside(path: Path, content: Content) -> None:
    beside = path.with_name(path.name + _NEW)
    try:
        with _opened(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
            for piece in content:
                _write_all(descriptor, piece)
            sync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def _rename(path: Path) -> None:
    os.replace(path.with_name(path.name + _NEW), path)
    try:
        sync_folder(path.parent)
    except OSError as error:
        raise _Unsynced(error) from error


def append(path: Path, line: bytes) -> None:
    """Add one line to a journal, which is created if necessary.

    Durable: when it returns. Raises OSError with nothing added, or CommitUnknown.
    """
    with _opened(path, os.O_RDWR | os.O_CREAT | os.O_APPEND) as descriptor:
        size = os.fstat(descriptor).st_size
        if not size:
            # The name becomes durable before the file has any content. A writer that is killed in
            # between leaves an empty file, so the next one knows that the name may not be durable.
            sync_folder(path.parent)
        whole = _end_of_last_line(os.pread(descriptor, size, 0))
        os.ftruncate(descriptor, whole)
        try:
            _write_all(descriptor, line + b"\n")
            sync(descriptor)
        except OSError as error:
            _take_back(path, descriptor, whole, error)
            raise


def _take_back(path: Path, descriptor: int, size: int, error: OSError) -> None:
    try:
        os.ftruncate(descriptor, size)
        sync(descriptor)
    except OSError as again:
        raise _unknown(path, error, again) from again


def lines_of(content: bytes) -> list[bytes]:
    """The whole lines of a journal. A line cut short by a crash was never reported as durable."""
    return content[: _end_of_last_line(content)].split(b"\n")[:-1]


def _end_of_last_line(content: bytes) -> int:
    end = content.rfind(b"\n") + 1
    start = content.rfind(b"\n", 0, max(end - 1, 0)) + 1
    # After a power cut a file can be longer than what reached the disk, with zeros in between.
    return start if b"\0" in content[start:end] else end


def remove(path: Path) -> None:
    """Remove a file, if it exists. Not durable: after a crash it may be back."""
    path.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Create a folder, and its missing parents. Durable: when it returns."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = open_file(path, flags | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync(descriptor: int) -> None:
    """Make what was written to a file, or the names in a folder, durable."""
    # On macOS fsync does not reach the disk, but this does.
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, full)


class _Unsynced(Exception):
    """A renamed file whose folder could not be synced."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def _unknown(path: Path, error: BaseException, again: BaseException) -> CommitUnknown:
    return CommitUnknown(
        f"A commit to {path} failed ({error}; then {again}). It may or may not be durable, and "
        "nottwice did not act on it. Repair the disk and open the run again: calls in doubt will "
        "be reconciled."
    )


def store_error(error: Exception, location: str) -> StoreError:
    """What an error of the file system means for the caller. Nothing was written."""
    if isinstance(error, StoreError):
        return error
    text = f"The ledger {location} could not be used ({error}). Nothing was written."
    return StoreError(f"{text} Free some disk space or repair the folder, then open the run again.")
