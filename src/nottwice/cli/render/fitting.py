"""Which columns of a table fit a terminal, and how wide is each? Pure: no terminal is needed.

A cell stays on one line unless its column is wrapped. Ids are never cut: the columns with longer
texts give way, then the columns that the caller can spare. An id that still leaves no room makes
its own line longer, and not the whole table. No word is ever broken, because it may be an id or a
URL.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from rich.cells import cell_len, set_cell_size

from nottwice.model.data.records import frozen_record

GAP = 2
LEAST = 9
"""How narrow a column can become that may be cut or wrapped."""
MOST_FOR_A_WORD = 60
"""For a longer word, no column is left out."""
_WORD = re.compile(r"""\s*\S+?(?:,(?=["{\[])|(?=\s|$))""")
"""Also JSON can be broken, between its members."""


@frozen_record(frozen=True, slots=True)
class FittedColumn:
    """A column that is shown."""

    index: int
    width: int
    wraps: bool
    cuts: bool = True
    """Whether a longer text is shortened."""


def fit(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int,
    cut: Collection[str] = (),
    wrap: Collection[str] = (),
    spare: Sequence[str] = (),
    least: Mapping[str, int] | None = None,
) -> list[FittedColumn]:
    """Return the columns to show in ``width`` characters. Columns without any text are left out.

    ``cut``: columns whose texts may be shortened. ``wrap``: columns whose texts may take several
    lines. ``spare``: columns that are left out if there is no room, the first of them first.
    ``least``: how narrow such a column can become, if it begins with something that must be whole.
    """
    floors = {column: max(LEAST, (least or {}).get(column, 0)) for column in columns}
    words = {
        index: _longest_word(row[index] for row in rows)
        for index, column in enumerate(columns)
        if column in wrap
    }
    wanted = {
        index: max(cell_len(columns[index]), *(cell_len(row[index]) for row in rows))
        for index in range(len(columns))
        if any(row[index] for row in rows)
    }
    whole = [index for index in wanted if columns[index] not in {*cut, *wrap}]
    if sum(wanted[index] + GAP for index in whole) - GAP > width:
        for index in whole:
            short = [size for row in rows if 0 < (size := cell_len(row[index])) <= width // 2]
            wanted[index] = max(cell_len(columns[index]), *short) if short else wanted[index]
    for name in (None, *spare):
        wanted = {index: size for index, size in wanted.items() if columns[index] != name}
        elastic = [index for index in wanted if columns[index] in cut or columns[index] in wrap]
        smallest = {index: min(wanted[index], floors[columns[index]]) for index in elastic}
        roomy = smallest | {index: words[index] for index in elastic if index in words}
        fixed = sum(size for index, size in wanted.items() if index not in smallest)
        room = width - fixed - GAP * (len(wanted) - 1)
        if sum(roomy.values()) <= room:
            smallest = roomy
            break
    # If no room can be made for a long word, its own line is longer, and not the whole table.
    sizes = wanted | _share(room, {index: wanted[index] for index in elastic}, smallest)
    return [
        FittedColumn(index, size, columns[index] in wrap, index in elastic)
        for index, size in sizes.items()
    ]


def lines_of(cells: Sequence[str], fitted: Sequence[FittedColumn]) -> Iterator[list[str]]:
    """Yield the lines of one row, each with a part for every column, filled up with spaces."""
    stacks = [
        wrap_words(cell, one.width) if one.wraps else [_cut(cell, one.width) if one.cuts else cell]
        for cell, one in zip(cells, fitted, strict=True)
    ]
    for number in range(max(map(len, stacks), default=0)):
        parts = [stack[number] if number < len(stack) else "" for stack in stacks]
        yield [
            part + " " * (max(0, one.width - cell_len(part)) + GAP)
            for part, one in zip(parts, fitted, strict=True)
        ]


def wrap_words(text: str, width: int) -> list[str]:
    """Return the lines of a text, broken between words. A longer word stays whole."""
    lines = [""]
    for word in _WORD.findall(text):
        if lines[-1].strip() and cell_len(lines[-1] + word) > width:
            lines.append(word.lstrip())
        else:
            lines[-1] += word
    return lines


def _longest_word(texts: Iterable[str]) -> int:
    sizes = (cell_len(word) for text in texts for word in wrap_words(text, 1))
    return min(max(sizes, default=0), MOST_FOR_A_WORD)


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def _share(room: int, wanted: dict[int, int], least: dict[int, int]) -> dict[int, int]:
    """Share the room: each gets what it wants, or an equal part of what the others leave."""
    shares: dict[int, int] = {}
    # The most modest first: what it leaves is shared by the others.
    for place, index in enumerate(sorted(wanted, key=wanted.__getitem__)):
        part = room // (len(wanted) - place)
        shares[index] = max(least[index], min(wanted[index], part))
        room -= shares[index]
    return shares
