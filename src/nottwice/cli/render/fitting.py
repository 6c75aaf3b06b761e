"""Which columns of a table fit a terminal, and how wide is each? Pure: no terminal is needed.

A cell stays on one line unless its column is wrapped. Ids are never cut: the columns with longer
texts give way, then the columns that the caller can spare.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.cells import cell_len

from nottwice.model.data.records import frozen_record

GAP = 2
LEAST = 9
"""How narrow a column can become that may be cut or wrapped."""


@frozen_record(frozen=True, slots=True)
class FittedColumn:
    """A column that is shown."""

    index: int
    width: int
    wraps: bool


def fit(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int,
    cut: Collection[str] = (),
    wrap: Collection[str] = (),
    spare: Sequence[str] = (),
) -> list[FittedColumn]:
    """Return the columns to show in ``width`` characters. Columns without any text are left out.

    ``cut``: columns whose texts may be shortened. ``wrap``: columns whose texts may take several
    lines. ``spare``: columns that are left out if there is no room, the first of them first.
    """
    wanted = {
        index: max(cell_len(columns[index]), max((cell_len(row[index]) for row in rows), default=0))
        for index in range(len(columns))
        if any(row[index] for row in rows)
    }
    for name in (None, *spare):
        wanted = {index: size for index, size in wanted.items() if columns[index] != name}
        elastic = [index for index in wanted if columns[index] in cut or columns[index] in wrap]
        least = {index: min(wanted[index], LEAST) for index in elastic}
        fixed = sum(size for index, size in wanted.items() if index not in least)
        room = width - fixed - GAP * (len(wanted) - 1)
        if sum(least.values()) <= room:
            break
    sizes = wanted | _share(room, {index: wanted[index] for index in elastic}, least)
    return [FittedColumn(index, size, columns[index] in wrap) for index, size in sizes.items()]


def _share(room: int, wanted: dict[int, int], least: dict[int, int]) -> dict[int, int]:
    """Share the room: each gets what it wants, or an equal part of what the others leave."""
    shares: dict[int, int] = {}
    # The most modest first: what it leaves is shared by the others.
    for place, index in enumerate(sorted(wanted, key=wanted.__getitem__)):
        part = room // (len(wanted) - place)
        shares[index] = max(least[index], min(wanted[index], part))
        room -= shares[index]
    return shares
