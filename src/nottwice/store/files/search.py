"""Which of many files can contain a name? Those whose bytes mention it.

Parsing a folder of 1,600 runs takes more than a second; reading it takes a few hundredths of one.
Most questions about all runs are about one name: a key, a review, a graph.
"""

from __future__ import annotations

import json
from pathlib import Path

from nottwice.model.data.records import frozen_record
from nottwice.store.files import disk
from nottwice.store.memory import MemoryStore

_ESCAPES = (b"\\u", b"\\/")
"""Spellings of a character that nottwice does not write. A file with one may spell the name so."""


def bytes_of(folder: Path, name: str) -> bytes:
    """Everything written about a run; empty if it cannot be read."""
    try:
        found = [disk.read(folder / (name + end)) for end in (disk.INBOX, disk.RUN)]
    except OSError:
        return b""
    return b"".join(content or b"" for content in found)


def says(content: bytes, name: str) -> bool:
    """Whether the bytes of a file contain a name, spelled as nottwice spells it."""
    return _spelled(name) in content


def may_say(content: bytes, name: str) -> bool:
    """Whether a file can contain a record with this name, however it is spelled."""
    return says(content, name) or any(escape in content for escape in _ESCAPES)


def _spelled(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False).encode("utf-8", "surrogatepass")


@frozen_record(frozen=True, slots=True)
class Glance:
    """All runs, as they were when the folder looked like this."""

    looks: frozenset[tuple[str, int, int, int]]
    since: float | None
    """Since when the folder has looked like this, by the clock of the caller."""
    settled: bool
    """Whether the folder had looked like this for a while when it was read."""
    view: MemoryStore
