"""Is a stored row what its columns say? Their types, once for all stores.

SQLite keeps any type in any column, and a JSON file is edited by hand; only PostgreSQL looks. So
whoever reads a row looks first, for all of them: a row that nottwice cannot have written is named
where it is read, and not where somebody stumbles over it. Promise kept here: P95.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

_NUMBERS = frozenset(
    "at since key_since attempt epoch ordinal version snapshot pid ambiguous if_failed "
    "amount".split()
)
_REALS = frozenset({"window_seconds"})
_MOST_SHAPES = 1_000
SEALING = re.compile(r"(?:, nth, writes)?, seal$")
"""What follows the last column that says something: what shows that nottwice wrote the rest."""

Check = Callable[[Sequence[Any]], None]


def check_of(columns: str, *, optional: str = "") -> Check:
    """What raises TypeError for a row whose columns hold something else than they should.

    ``optional``: the columns that may be empty. What follows behind what a row says, such as its
    seal, is not looked at.
    """
    names = SEALING.sub("", columns).split(", ")
    empty = frozenset(optional.split())
    allowed = [_types(name, optional=name in empty) for name in names]
    width = len(names)
    seen: set[tuple[type, ...]] = set()

    def check(row: Sequence[Any]) -> None:
        # A ledger knows a few dozen shapes of rows, so that this look is nearly always the last.
        shape = tuple(map(type, row))
        if shape in seen:
            return
        if len(shape) < width:
            raise TypeError("it has too few columns")
        for name, found, fitting in zip(names, shape, allowed, strict=False):
            if found not in fitting:
                raise TypeError(f"{name} is {found.__name__}")
        if len(seen) < _MOST_SHAPES:
            seen.add(shape)

    return check


def _types(name: str, *, optional: bool) -> frozenset[type]:
    if name in _REALS:
        found: set[type] = {float, int}
    elif name in _NUMBERS or name.endswith("_at"):
        found = {int}
    else:
        found = {str}
    return frozenset(found | {type(None)}) if optional else frozenset(found)
