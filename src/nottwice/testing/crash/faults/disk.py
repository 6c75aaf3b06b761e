"""What may a disk contain after a power loss? A model of files, names and syncs.

A write is safe once its file was synced after it. A new, changed or removed name is safe once its
folder was synced. Of everything else, a disk may have kept any part, in any order. Real disks do,
and a file system promises no more. It may also keep half of a write, in sectors, or only the new
length of the file.

Pure: it receives changes and builds images from them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import assert_never

from nottwice.model.data.records import frozen_record

SECTOR_BYTES = 512
FOLDER = 0
"""Marks a folder, where a name would otherwise lead to a file."""


@frozen_record(frozen=True, slots=True)
class DiskWrite:
    """Bytes were written into a file."""

    file: int
    offset: int
    data: bytes

    @property
    def sectors(self) -> range:
        first, last = self.offset // SECTOR_BYTES, (self.offset + len(self.data) - 1)
        return range(first, last // SECTOR_BYTES + 1)


@frozen_record(frozen=True, slots=True)
class Resized:
    """A file was cut or extended."""

    file: int
    size: int


@frozen_record(frozen=True, slots=True)
class Named:
    """A name now leads to a file. In a rename, the old name was removed too."""

    path: str
    file: int
    instead_of: str | None = None


@frozen_record(frozen=True, slots=True)
class Unnamed:
    """A name was removed."""

    path: str


Change = DiskWrite | Resized | Named | Unnamed


@frozen_record(frozen=True, slots=True)
class Image:
    """A disk as it is found after the power is back."""

    files: dict[str, bytes]
    folders: tuple[str, ...]

    @property
    def mark(self) -> bytes:
        """Equal for equal images."""
        digest = hashlib.blake2b(repr(self.folders).encode())
        for path, content in sorted(self.files.items()):
            digest.update(f"\n{path} {len(content)}\n".encode())
            digest.update(content)
        return digest.digest()

    def write_into(self, folder: Path) -> None:
        for path in self.folders:
            (folder / path).mkdir(parents=True, exist_ok=True)
        for path, content in self.files.items():
            (folder / path).write_bytes(content)


@frozen_record(frozen=True, slots=True)
class Safe:
    """What cannot be lost any more."""

    files: dict[int, bytes] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)


@frozen_record(frozen=True, slots=True)
class DiskState:
    """A disk at one moment: what is safe, and what may or may not be kept."""

    safe: Safe
    pending: tuple[Change, ...] = ()

    def images_differ_by(self) -> int:
        """Return how many images there are without torn writes."""
        return 1 << len(self.pending)

    def tears(self) -> list[tuple[int, int]]:
        """Return every pending write that can be torn, with every way to tear it."""
        return [
            (place, way)
            for place, change in enumerate(self.pending)
            if isinstance(change, DiskWrite)
            for way in range(len(TEARS) if len(change.sectors) > 1 else 1)
        ]

    def image(self, kept: int, tear: tuple[int, int] | None = None) -> Image:
        """Return the disk that kept the pending changes whose bits are set in ``kept``."""
        touched = {one.file for one in self.pending if isinstance(one, DiskWrite | Resized)}
        files = {file: bytearray(self.safe.files.get(file, b"")) for file in touched}
        names = dict(self.safe.names)
        for place, change in enumerate(self.pending):
            if kept >> place & 1:
                torn = tear[1] if tear is not None and tear[0] == place else None
                _apply(change, files, names, torn)
        folders = {path for path, file in names.items() if file == FOLDER}
        reachable = {path for path in names if _ancestors(path) <= folders}
        contents = {**self.safe.files, **files}
        return Image(
            {path: bytes(contents.get(names[path], b"")) for path in reachable - folders},
            tuple(sorted(reachable & folders)),
        )


class Disk:
    """Receives all changes, and knows at every moment what is safe."""

    def __init__(self) -> None:
        self.state = DiskState(Safe())
        self._now: dict[int, int] = {}
        self.names: dict[str, int] = {}
        """Where names lead as long as the power is on."""
        self._count = FOLDER
        self._forgotten: set[int] = set()

    def new_file(self, path: str, *, forgotten: bool = False) -> int:
        """Create a file. A ``forgotten`` file is recreated by any process after a power loss."""
        self._count += 1
        self._now[self._count] = 0
        if forgotten:
            self._forgotten.add(self._count)
        self.change(Named(path, self._count))
        return self._count

    def size(self, file: int) -> int:
        return self._now[file]

    def change(self, change: Change) -> None:
        """Record a change. Until the next sync it may be lost."""
        match change:
            case DiskWrite():
                end = change.offset + len(change.data)
                self._now[change.file] = max(self._now[change.file], end)
            case Resized():
                self._now[change.file] = change.size
            case Named():
                self.names[change.path] = change.file
                self.names.pop(change.instead_of or "", None)
            case Unnamed():
                self.names.pop(change.path, None)
            case _:
                assert_never(change)
        if getattr(change, "file", FOLDER) not in self._forgotten:
            self.state = DiskState(self.state.safe, (*self.state.pending, change))

    def sync_file(self, file: int) -> None:
        """Make everything safe that was written into a file. This does not cover its name."""
        self._make_safe([c for c in self.state.pending if getattr(c, "file", None) == file])

    def sync_folder(self, folder: str) -> None:
        """Make all names in a folder safe."""
        self._make_safe(
            [
                change
                for change in self.state.pending
                if isinstance(change, Named | Unnamed) and _parent(change.path) == folder
            ],
            names=True,
        )

    def _make_safe(self, changes: list[Change], *, names: bool = False) -> None:
        changes = [one for one in changes if isinstance(one, Named | Unnamed) is names]
        touched = {one.file for one in changes if isinstance(one, DiskWrite | Resized)}
        before = self.state.safe
        files = {file: bytearray(before.files.get(file, b"")) for file in touched}
        safe_names = dict(before.names)
        for change in changes:
            _apply(change, files, safe_names, None)
        done = {id(change) for change in changes}
        rest = tuple(one for one in self.state.pending if id(one) not in done)
        synced = {file: bytes(content) for file, content in files.items()}
        self.state = DiskState(Safe({**before.files, **synced}, safe_names), rest)


def _apply(
    change: Change, files: dict[int, bytearray], names: dict[str, int], torn: int | None
) -> None:
    match change:
        case DiskWrite():
            content = files.setdefault(change.file, bytearray())
            end = change.offset + len(change.data)
            content.extend(bytes(max(0, end - len(content))))
            for start, stop in _kept_parts(change, torn):
                content[start:stop] = change.data[start - change.offset : stop - change.offset]
        case Resized():
            content = files.setdefault(change.file, bytearray())
            del content[change.size :]
            content.extend(bytes(change.size - len(content)))
        case Named():
            names.pop(change.instead_of or "", None)
            names[change.path] = change.file
        case Unnamed():
            names.pop(change.path, None)
        case _:
            assert_never(change)


TEARS = (
    lambda place, count: False,
    lambda place, count: place < (count + 1) // 2,
    lambda place, count: place > 0,
    lambda place, count: place % 2 == 0,
)
"""Which sectors of a write are kept: none (only the length), the first half, all but the first,
every other one."""
TEAR_NAMES = ("only the length", "the first half", "all but the first sector", "every other sector")


def _kept_parts(change: DiskWrite, torn: int | None) -> Iterator[tuple[int, int]]:
    end = change.offset + len(change.data)
    if torn is None:
        yield change.offset, end
        return
    for place, sector in enumerate(change.sectors):
        if TEARS[torn](place, len(change.sectors)):
            start = max(change.offset, sector * SECTOR_BYTES)
            yield start, min(end, (sector + 1) * SECTOR_BYTES)


def _parent(path: str) -> str:
    parent = str(PurePosixPath(path).parent)
    return "" if parent == "." else parent


def _ancestors(path: str) -> set[str]:
    return {str(one) for one in PurePosixPath(path).parents if str(one) != "."}
