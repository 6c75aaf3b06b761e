"""What was already computed from the records of a run? Most are the same at the next commit.

A commit changes one or two of perhaps 4,000 records. Records are immutable, so what was computed
from one stays true, and so does what was computed from a block of them. A block is known by the
records in it, by identity: comparing or hashing them would cost more than writing them. Code in
Python runs for the records that are new and once for each block, never for every record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, compress, count, repeat
from operator import is_
from typing import Any, Generic, TypeVar

BLOCK = 128
"""How many records make a block."""

R = TypeVar("R")
V = TypeVar("V")
B = TypeVar("B")


class Derived(Generic[R, V, B]):
    """What was computed from a sequence of records: one value for each block of them."""

    def __init__(self, blocks: Sequence[_Block[R, V, B]] = ()) -> None:
        self._blocks = blocks

    @property
    def of_blocks(self) -> list[B]:
        """The value of each block, in the order of the records."""
        return [block.value for block in self._blocks]

    def updated(
        self,
        records: Sequence[R],
        *,
        of_one: Callable[[R], V],
        of_block: Callable[[Sequence[R], Sequence[V]], B],
    ) -> Derived[R, V, B]:
        """The same for other records. ``of_one`` is called for new ones, and never returns None."""
        blocks = []
        for start, before in zip(
            range(0, len(records), BLOCK), chain(self._blocks, repeat(None)), strict=False
        ):
            now = records[start : start + BLOCK]
            if before is not None and before.holds(now):
                blocks.append(before)
            else:
                found = _values(before, now, of_one)
                blocks.append(_Block(now, found, of_block(now, found)))
        return Derived(blocks)


class _Block(Generic[R, V, B]):
    def __init__(self, records: Sequence[R], values: Sequence[V], value: B) -> None:
        # The records are kept, so that no other object can get one of their ids.
        self.records, self.values, self.value = records, values, value

    def holds(self, records: Sequence[R]) -> bool:
        return len(self.records) == len(records) and all(map(is_, self.records, records))


def _values(
    before: _Block[R, V, Any] | None, records: Sequence[R], of_one: Callable[[R], V]
) -> list[V]:
    known = {} if before is None else dict(zip(map(id, before.records), before.values, strict=True))
    found: list[Any] = list(map(known.get, map(id, records)))
    for place in compress(count(), map(is_, found, repeat(None))):
        found[place] = of_one(records[place])
    return found
