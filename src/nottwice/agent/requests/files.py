"""How is a model shown an image or a document? The record has a reference; the bytes are read last.

The ledger keeps a file's place, its SHA-256 and its size, never its bytes. A provider reads the
bytes when it makes a request, and only if they are unchanged: a model never sees other bytes than
those that were meant. Promise kept here: P208.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from nottwice.errors import FileChanged, UsageError
from nottwice.model.data.records import frozen_record

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
PDF = "application/pdf"
_TEXTS = ("application/json", "application/xml", "application/yaml", "application/x-yaml")
_URL = ("https://", "http://")
MOST_BYTES = 30_000_000
"""The APIs accept requests of about 32 MB, and the bytes are sent as text, a third longer."""
IMAGE_TOKENS = 5_000
"""The tokens of the largest image that a model views without scaling it down."""
PAGE_TOKENS = 4_500
UNSEEN_TOKENS = 50_000
"""For a document at an address, whose length is unknown here."""
_PAGE = re.compile(rb"/Type\s*/Page\b(?!s)")
_BYTES_PER_TOKEN = 3


@frozen_record(frozen=True, slots=True)
class File:
    """A file that a model is shown, in a message or as the result of a tool.

    ``where``: a path, which is read now for its hash, or the address of an image or a PDF, which
    the provider downloads. ``media_type``: guessed from the name by default: a PNG, JPEG, GIF or
    WebP image, a PDF, or text. The other fields are filled in.
    """

    kind: ClassVar[str] = "file"
    where: str | Path
    media_type: str = ""
    sha256: str | None = None
    """The hash of its bytes when it was referenced. None: it is an address, which is not read."""
    size_bytes: int = 0
    tokens: int = 0
    """An estimate of its tokens, rather too many than too few."""

    def __post_init__(self) -> None:
        where = str(self.where)
        kind = self.media_type or _guessed(where)
        _check_kind(where, kind)
        found: dict[str, Any] = {"where": where, "media_type": kind}
        if self.is_address:
            found["tokens"] = self.tokens or (IMAGE_TOKENS if kind in IMAGES else UNSEEN_TOKENS)
        elif self.sha256 is None:
            found["where"] = str(Path(where).absolute())
            content = _read(found["where"])
            found |= {
                "sha256": hashlib.sha256(content).hexdigest(),
                "size_bytes": len(content),
                "tokens": _estimate(kind, content),
            }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    def is_address(self) -> bool:
        """Whether the provider downloads it from the web."""
        return str(self.where).startswith(_URL)

    @property
    def is_text(self) -> bool:
        return self.media_type.startswith("text/") or self.media_type in _TEXTS

    @property
    def name(self) -> str:
        """Its name without folders."""
        path = urlsplit(str(self.where)).path if self.is_address else str(self.where)
        return unquote(path.rstrip("/").rpartition("/")[2]) or "file"

    @property
    def extra(self) -> Mapping[str, Any]:
        return {}

    def to_plain(self) -> dict[str, Any]:
        """The reference as it is on record."""
        return {
            "kind": self.kind,
            "where": str(self.where),
            "media_type": self.media_type,
            "sha256": self.sha256,
            "size_bytes": self.size_bytes,
            "tokens": self.tokens,
        }


def recorded_file(
    where: str, media_type: str, sha256: str | None, size_bytes: int, tokens: int
) -> File:
    """Read a recorded reference. TypeError if nottwice cannot have written it."""
    if type(where) is not str or not (sha256 or where.startswith(_URL)):
        raise TypeError(f"{where!r} is not a reference to a file")
    try:
        return File(where, media_type, sha256, size_bytes, tokens)
    except UsageError as error:
        raise TypeError(str(error)) from None


def load(file: File, *, needed: bool) -> bytes | str:
    """Return the bytes of a file, or a text that says why it is missing, if the run can do without.

    ``needed``: the user has just sent it, so it must be there unchanged. Otherwise FileChanged is
    raised, and the model is not asked.
    """
    where = str(file.where)
    try:
        content = Path(where).read_bytes()
    except OSError as error:
        lost = f"it cannot be read any more ({error.strerror or error})"
    else:
        if hashlib.sha256(content).hexdigest() == file.sha256:
            return content
        lost = "it has changed since then"
    if not needed:
        return f"(The file {file.name} belongs here, and is not shown: {lost}.)"
    raise FileChanged(
        f"The model should see the file {where}, but {lost}. The model was not asked. Put the "
        "file back as it was and run the same line again; or send a message, and the run continues "
        "without the file."
    )


def files_in(value: Any) -> Iterator[File]:
    """Yield the files in a tool's result: the result itself, or parts of lists and dicts."""
    if isinstance(value, File):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from files_in(each)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from files_in(each)


def tokens_in(plain: Any) -> int:
    """Return how many tokens the files of messages take, as plain data.

    Only real files of a message count, not data in a model's arguments that looks like one.
    """
    if isinstance(plain, list | tuple):
        return sum(tokens_in(each) for each in plain)
    if not isinstance(plain, Mapping):
        return 0
    if plain.get("kind") == File.kind:
        return int(plain["tokens"])
    return tokens_in(plain.get("blocks")) + tokens_in(plain.get("files"))


def _guessed(where: str) -> str:
    path = urlsplit(where).path if where.startswith(_URL) else where
    return mimetypes.guess_type(path)[0] or ""


def _check_kind(where: str, kind: str) -> None:
    is_text = kind.startswith("text/") or kind in _TEXTS
    if "://" in where and not where.startswith(_URL):
        raise UsageError(
            f"nt.agent.File({where!r}) is neither a path nor a web address. Nothing was sent. Give "
            "a path, or an address that begins with https://."
        )
    if kind in (*IMAGES, PDF) or (is_text and not where.startswith(_URL)):
        return
    if is_text:
        raise UsageError(
            f"nt.agent.File({where!r}) is text at an address, which models cannot load. Nothing "
            "was sent. Download it and give the path."
        )
    raise UsageError(
        f"nt.agent.File({where!r}) is {kind or 'of a kind that its name does not tell'}, but "
        "models only see PNG, JPEG, GIF and WebP images, PDF documents and text. Nothing was sent. "
        "Convert it, or say what it is: nt.agent.File(..., 'image/png')."
    )


def _read(where: str) -> bytes:
    try:
        with open(where, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"nt.agent.File({where!r}) cannot be read: {error.strerror or error}. Nothing was sent."
        ) from None
    if len(content) > MOST_BYTES:
        raise UsageError(
            f"nt.agent.File({where!r}) has more than {MOST_BYTES:,} bytes, which no model API "
            "accepts. Nothing was sent. Give a smaller one."
        )
    return content


def _estimate(kind: str, content: bytes) -> int:
    if kind in IMAGES:
        return IMAGE_TOKENS
    if kind != PDF:
        return len(content) // _BYTES_PER_TOKEN + 1
    # The pages of a compressed PDF cannot be counted.
    pages = len(_PAGE.findall(content)) or len(content) // 50_000 + 1
    return pages * PAGE_TOKENS
