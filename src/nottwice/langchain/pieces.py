"""How is a growing list saved at every step without saving all of it at every step? (P258)

The value of a channel is flattened: a list becomes the bytes of its items, one after the other, a
dict the bytes of its entries, anything else its own bytes. A new version of a value usually has
the same start, or the same end, as the version before. So a piece holds only the bytes between
them. It builds on the piece before it in a chain that begins with a complete one. A list to which
one message was added is a piece with one message.

Bytes are compared, never objects: a message that was changed where it is has other bytes.

Reading a value is bounded. A chain of pieces holds at most about twice the bytes of the value, and
at most one piece per ``BYTES_PER_LINK`` bytes; else the next piece is complete again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from nottwice.errors import LedgerCorrupt
from nottwice.model.data.records import light_record

Dump = Callable[[Any], tuple[str, bytes]]
"""Turns a value into the name of a format, and bytes."""
Load = Callable[[tuple[str, bytes]], Any]

LIST, MAP, WHOLE = "list", "map", "whole"
BYTES_PER_LINK = 256
FEW_LINKS = 64
"""So many pieces are always allowed, because reading them takes no time."""
_SLACK_BYTES = 4096
_CHUNK = 1 << 16
# The format that almost every value has is not spelled out.
_USUAL = "msgpack"
_LENGTHS = struct.Struct(">BI")


@light_record(frozen=True, slots=True)
class Body:
    """A value as bytes: how they were made, and the bytes."""

    kind: str
    data: bytes


@light_record(frozen=True, slots=True)
class Piece:
    """A complete body (``links`` is 0), or what is different from the body before it in a chain.

    The body begins with ``kept_start`` bytes of the one before it, and ends with ``kept_end`` bytes
    of that.
    """

    kind: str
    data: bytes
    kept_start: int = 0
    kept_end: int = 0
    links: int = 0
    """How many pieces of the chain come before this one."""
    chain_bytes: int = 0
    """The bytes of this piece and of those before it."""


class PiecePlace(NamedTuple):
    """Where a piece is: its chain, its number there, and what tells it from any other piece that
    may have had that number before."""

    root: str
    links: int
    mark: str

    def __str__(self) -> str:
        return f"{self.root}/{self.links}/{self.mark}"


@light_record(frozen=True, slots=True)
class Stored:
    """A piece that is in the ledger, with the body that results from it."""

    place: PiecePlace
    body: Body
    chain_bytes: int


def read_place(text: str) -> PiecePlace:
    """The place that was written as a text."""
    try:
        root, links, mark = text.split("/")
        return PiecePlace(root, int(links), mark)
    except ValueError as error:
        raise damaged(f"its place is {text!r}") from error


def flatten(value: Any, dump: Dump) -> Body:
    """A value as bytes whose start or end is the same in later versions."""
    if type(value) is list:
        return Body(LIST, b"".join(_framed(dump(item)) for item in value))
    if type(value) is dict and all(type(key) is str for key in value):
        entries = ((key, item) for key, item in value.items())
        return Body(MAP, b"".join(_framed(dump(part)) for entry in entries for part in entry))
    return Body(WHOLE, _framed(dump(value)))


def restore(body: Body, load: Load) -> Any:
    """The value that was flattened."""
    items = (load(frame) for frame in _frames(body.data))
    try:
        match body.kind:
            case "list":
                return list(items)
            case "map":
                # Both come from the same iterator, in turn: a key, then its value.
                return dict(zip(items, items, strict=True))
            case "whole":
                (value,) = items
                return value
    except (struct.error, ValueError, UnicodeDecodeError) as error:
        raise damaged(str(error)) from error
    raise damaged(f"a value of the unknown kind {body.kind!r}")


def next_piece(body: Body, before: Stored | None) -> Piece:
    """The smallest piece for a body, given the version before it."""
    whole = Piece(body.kind, body.data, chain_bytes=len(body.data))
    if before is None or before.body.kind != body.kind or body.kind == WHOLE:
        return whole
    kept_start, kept_end = _in_common(before.body.data, body.data)
    middle = body.data[kept_start : len(body.data) - kept_end]
    links, chain_bytes = before.place.links + 1, before.chain_bytes + len(middle)
    if links > max(FEW_LINKS, len(body.data) // BYTES_PER_LINK):
        return whole
    if chain_bytes > 2 * len(body.data) + _SLACK_BYTES or len(middle) >= len(body.data):
        return whole
    return Piece(body.kind, middle, kept_start, kept_end, links, chain_bytes)


def compose(pieces: Iterable[Piece]) -> Body:
    """The body of the last piece of a chain."""
    data = bytearray()
    kind, count = WHOLE, 0
    for piece in pieces:
        if piece.links != count or piece.kept_start + piece.kept_end > len(data):
            raise damaged("a piece of it is missing")
        kind, count = piece.kind, count + 1
        # In place: for a list that grew, this only appends.
        data[piece.kept_start : len(data) - piece.kept_end] = piece.data
    if not count:
        raise damaged("its first piece is missing")
    return Body(kind, bytes(data))


def _in_common(old: bytes, new: bytes) -> tuple[int, int]:
    """How many bytes both have in common at the start, and then at the end."""
    most = min(len(old), len(new))
    start = _equal(lambda begin, end: old[begin:end] == new[begin:end], most)
    last_old, last_new = len(old), len(new)
    end = _equal(
        lambda begin, end: (
            old[last_old - end : last_old - begin] == new[last_new - end : last_new - begin]
        ),
        most - start,
    )
    return start, end


def _equal(same: Callable[[int, int], bool], most: int) -> int:
    """The length of what is the same, given whether a range is."""
    known = 0
    while known < most and same(known, min(known + _CHUNK, most)):
        known = min(known + _CHUNK, most)
    differs = min(known + _CHUNK, most)
    while known < differs:
        middle = (known + differs + 1) // 2
        if same(known, middle):
            known = middle
        else:
            differs = middle - 1
    return known


def _framed(dumped: tuple[str, bytes]) -> bytes:
    name, data = dumped
    said = b"" if name == _USUAL else name.encode()
    return _LENGTHS.pack(len(said), len(data)) + said + data


def _frames(data: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    while at < len(data):
        said, length = _LENGTHS.unpack_from(data, at)
        at += _LENGTHS.size
        name = data[at : at + said].decode() if said else _USUAL
        at += said
        if at + length > len(data):
            raise damaged("it ends in the middle of an item")
        yield name, data[at : at + length]
        at += length


def damaged(why: str) -> LedgerCorrupt:
    """The error for a value that is not as it was written."""
    return LedgerCorrupt(
        f"A saved value of a LangGraph checkpoint cannot be read: {why}. Nothing was changed. "
        "Restore the ledger from a backup, or delete the thread."
    )
