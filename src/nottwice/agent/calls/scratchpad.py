"""Notes of an agent, as files: read by pure tools, written by keyed ones, each entry once (L6).

A note is a readable file, ``NAME.md``. Its last line holds the keys of all entries ever added. Text
and keys change together, in one rename, so a write with a known key changes nothing. The key is the
id of the receipt that the entry comes from. Promise kept here: P79.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from nottwice.errors import InvalidArguments, Permanent, Retryable
from nottwice.guard.declare import SyncTool
from nottwice.guard.ready_made import declare
from nottwice.guard.request import key_per_call
from nottwice.guard.scopes import current_call
from nottwice.model.retry import RetryPolicy
from nottwice.store.machine import confined_files

MOST_CHARACTERS = 1_000_000
_ENDING = ".md"
_LOCK = ".lock"
_NAME = re.compile(r"[a-z0-9_][a-z0-9_-]*(?:[./][a-z0-9_][a-z0-9_-]*)*")
_MOST_NAME_CHARACTERS = 100
_KEY = re.compile(r"[!-=?-~]{1,200}")
_KEYS = re.compile(r"\n?<!-- nottwice(?P<keys>(?: [!-=?-~]+)*) -->\n?\Z")
# Keys are never forgotten, but a window must be a finite time.
_WINDOW = "3650d"


def _check_name(name: str) -> str:
    if len(name) > _MOST_NAME_CHARACTERS or not _NAME.fullmatch(name):
        raise ValueError(
            f"it must be up to {_MOST_NAME_CHARACTERS} lower-case letters, digits, '-' and '_', "
            "with '.' or '/' between them, such as 'customers/ann'"
        )
    return name


NoteName = Annotated[
    str, AfterValidator(_check_name), Field(description="A short name, such as customers/ann")
]
NoteText = Annotated[str, Field(max_length=MOST_CHARACTERS)]


class NoteWritten(TypedDict):
    """The result of the tools that write a note."""

    note: str
    output_file: str
    """Where the note is, relative to the folder of the scratchpad."""
    characters: int
    """The length of the whole note now."""


class NoteListed(TypedDict):
    """A note in the list of notes."""

    note: str
    characters: int
    begins: str
    """Its first line."""


class _Note(NamedTuple):
    text: str
    keys: tuple[str, ...]


class Scratchpad:
    """A folder of notes, and the tools for it: ``nt.Agent(..., tools=[*pad.tools])``.

    ``name`` is the word for a note in the names of the tools. Two scratchpads of one agent need
    different names.
    """

    def __init__(self, folder: str | os.PathLike[str], *, name: str = "note") -> None:
        self.folder = os.path.realpath(folder)
        self.tools: tuple[SyncTool[..., Any], ...] = _make_tools(self.folder, name)

    def read(self, name: str) -> str | None:
        """Return the text of a note; None: there is none."""
        note = _load(self.folder, _checked(name))
        return None if note is None else note.text

    def names(self) -> list[str]:
        """Return the names of all notes, in order."""
        return sorted(_names(self.folder))

    def ingest(self, receipt_id: str, name: str, text: str) -> bool:
        """Add the text of a receipt to a note, once; False: it is already there.

        For what your own code remembers. It needs no run, and you may call it again at any time:
        after a crash, for every receipt of a run, from two processes. Durable: when it returns.
        """
        if not isinstance(receipt_id, str) or not _KEY.fullmatch(receipt_id):
            raise InvalidArguments(f"{receipt_id!r} is not a receipt id. Nothing was written.")
        name = _checked(name)
        with _locked(self.folder, wait=True):
            return _put(self.folder, name, receipt_id, text, replacing=False).is_new


def _make_tools(root: str, kind: str) -> tuple[SyncTool[..., Any], ...]:
    def read_one(note: NoteName) -> str | None:
        """Read one of your notes. There may be none of that name."""
        found = _load(root, note)
        return None if found is None else found.text

    def list_all() -> list[NoteListed]:
        """List all your notes, with how long they are and how they begin."""
        found = ((name, _load(root, name)) for name in sorted(_names(root)))
        return [_listed(name, note) for name, note in found if note is not None]

    def write(note: NoteName, text: NoteText) -> NoteWritten:
        """Write a note, in place of what it said before."""
        return _write(root, note, text, replacing=True)

    def add(note: NoteName, text: NoteText) -> NoteWritten:
        """Add a paragraph at the end of a note, which is made if there is none."""
        return _write(root, note, text, replacing=False)

    pure: dict[str, Any] = {"works_on": {"folder": root}, "recipe": "scratchpad"}
    # A call that finds the folder busy tries again.
    retry = RetryPolicy(12, first_seconds=0.02, most_seconds=1.0)
    keyed: dict[str, Any] = {**pure, "key": key_per_call, "window": _WINDOW, "retry": retry}
    # They are the model's own notes, and writing an earlier text again undoes a change.
    keyed["repeat"] = "free"
    return (
        declare(list_all, "pure", name=f"list_{kind}s", **pure),
        declare(read_one, "pure", name=f"read_{kind}", **pure),
        declare(write, "idempotent_with_key", name=f"write_{kind}", **keyed),
        declare(add, "idempotent_with_key", name=f"add_to_{kind}", **keyed),
    )


def _listed(name: str, note: _Note) -> NoteListed:
    first = note.text.strip().partition("\n")[0]
    return NoteListed(note=name, characters=len(note.text), begins=first[:80])


def _write(root: str, note: str, text: str, *, replacing: bool) -> NoteWritten:
    key = str(current_call().key)
    try:
        with _locked(root, wait=False):
            put = _put(root, note, key, text, replacing=replacing)
    except confined_files.NotAFile as error:
        raise Permanent(f"The note was not written and is as it was: {error}.") from error
    return NoteWritten(note=note, output_file=note + _ENDING, characters=put.characters)


# ---- Files --------------------------------------------------------------------------------------


class _Put(NamedTuple):
    is_new: bool
    characters: int


def _put(root: str, name: str, key: str, text: str, *, replacing: bool) -> _Put:
    """Change a note, unless this key has changed it before. The caller holds the lock."""
    before = _load(root, name) or _Note("", ())
    if key in before.keys:
        return _Put(False, len(before.text))
    after = text if replacing or not before.text else f"{before.text.rstrip()}\n\n{text}"
    if len(after) > MOST_CHARACTERS:
        raise Permanent(
            f"The note {name!r} was not changed: it would have {len(after):,} characters, and "
            f"{MOST_CHARACTERS:,} is the limit. Begin another one, or write it shorter."
        )
    content = f"{after}\n<!-- nottwice {' '.join((*before.keys, key))} -->\n".encode()
    with confined_files.folder_of(root, name + _ENDING, make=True) as (where, leaf):
        confined_files.replace(where, leaf, content, beside=f".{leaf}.part")
    return _Put(True, len(after))


def _load(root: str, name: str) -> _Note | None:
    try:
        with confined_files.folder_of(root, name + _ENDING, make=False) as (where, leaf):
            content = confined_files.read(where, leaf).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    # A person may have written or edited the file: then keys are missing.
    found = _KEYS.search(content)
    if found is None:
        return _Note(content, ())
    return _Note(content[: found.start()], tuple(found["keys"].split()))


def _names(root: str) -> Iterator[str]:
    for folder, inner, files in os.walk(root):
        inner[:] = [each for each in inner if not each.startswith(".")]
        for file in files:
            path = os.path.relpath(os.path.join(folder, file), root)
            name = path.removesuffix(_ENDING)
            if path.endswith(_ENDING) and _NAME.fullmatch(name):
                yield name


def _checked(name: str) -> str:
    try:
        return _check_name(name)
    except (ValueError, TypeError) as error:
        raise InvalidArguments(f"{name!r} is not a name for a note: {error}.") from None


@contextlib.contextmanager
def _locked(root: str, *, wait: bool) -> Iterator[None]:
    """Hold the lock of this folder, so that only one caller changes its notes."""
    with confined_files.folder_of(root, _LOCK, make=True) as (where, leaf):
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.open(leaf, flags, 0o666, dir_fd=where)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Retryable("The note was not written: another one is being written now.") from None
    finally:
        os.close(lock)
