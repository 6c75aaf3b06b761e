"""Plain data that is passed on without a copy: lists and dicts that refuse to be changed.

A node may get a state of megabytes and read one number of it. If the state could be changed in
place, nottwice would have to copy it before every node and compare it after. Frozen data is shared
between the node, the checkpoint and the next node. What two versions have in common is the same
object in both, so a comparison need not look inside.

They are real lists and dicts, so ``json.dumps``, ``isinstance`` and ``[*items, new]`` accept them.
A copy (``list(...)``, ``{**...}``, ``.copy()``, ``copy.deepcopy``) can be changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import compress, count, repeat
from operator import is_not
from typing import Any, Final, NoReturn
from weakref import ref

from nottwice.errors import InvalidGraph

_compared = count()
"""Advances whenever two frozen values that are not the same object are compared."""


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise InvalidGraph(
        "The code changed the state in place, which is read-only. Nothing was kept, and the run "
        "stays at this node. Return what changes, return {'name': new_value}, or change a copy: "
        "list(...), dict(...) or copy.deepcopy(...)."
    )


class FrozenList(list[Any]):
    """A list of plain data that cannot be changed."""

    __slots__ = ("__weakref__", "base", "came_from", "is_exact", "twin")

    is_exact: bool
    """Whether equal items are the same value. 1 and True are equal but not the same."""
    base: FrozenList | None
    """The list that this one was made from, until this one was validated."""
    came_from: tuple[ref[FrozenList], int, int] | None
    """The same list, as long as something else refers to it: comparing the two costs nothing.

    Then how many items they share at the beginning and at the end.
    """
    twin: Any
    """The same data in the type that a graph declares, once it was made; see graphs/parts.py."""

    def __init__(self, items: Iterable[Any] = (), *, is_exact: bool | None = None) -> None:
        """``items`` are already frozen, or immutable."""
        super().__init__(items)
        if is_exact is None:
            is_exact = all(type(item) in _EXACT for item in self)
        self.is_exact, self.base, self.came_from, self.twin = is_exact, None, None, None

    def grown(self, items: Iterable[Any], *, copy: FrozenList | None = None) -> FrozenList:
        """Return this list with more items at the end. ``copy``: one to use up; see ``head_of``."""
        return self.spliced(len(self), 0, items, copy=copy)

    def spliced(
        self, head: int, rest: int, items: Iterable[Any], *, copy: FrozenList | None = None
    ) -> FrozenList:
        """Return this list with other items between its first ``head`` and its last ``rest``."""
        middle = FrozenList(map(freeze, items))
        made = FrozenList(self, is_exact=self.is_exact) if copy is None else copy
        list.__setitem__(made, slice(head, len(self) - rest), middle)
        made.is_exact = self.is_exact and middle.is_exact
        # Not for every list: a list that refers to all its predecessors would never be freed.
        made.base = self if self.twin is not None else None
        made.came_from = ref(self), head, rest
        return made

    def head_of(self, longer: list[Any]) -> FrozenList | None:
        """Return a copy of the beginning of a longer list, if it is the very same as this list.

        Copying a list touches each of its items twice, so the copy that the comparison needs is
        the one to continue with. Ask only if ``is_exact``.
        """
        head = FrozenList(longer, is_exact=True)
        list.__delitem__(head, slice(len(self), None))
        return head if _are_same(self, head) else None

    def __eq__(self, other: object) -> bool:
        next(_compared)
        return list.__eq__(self, other)

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: object) -> list[Any]:
        return [thaw(item) for item in self]

    def __reduce__(self) -> Any:
        return list, (list(self),)

    def __reduce_ex__(self, protocol: object) -> Any:
        return self.__reduce__()

    __hash__ = None
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse


class FrozenDict(dict[str, Any]):
    """A dict of plain data that cannot be changed."""

    __slots__ = ("__weakref__", "base", "came_from", "twin")

    base: FrozenDict | None
    """The dict that this one was made from, until this one was validated."""
    came_from: tuple[ref[FrozenDict], Collection[str]] | None
    """The same dict, as long as something else refers to it, and the keys that changed."""
    twin: Any

    def __init__(self, items: Mapping[str, Any]) -> None:
        """The values are already frozen, or immutable."""
        super().__init__(items)
        self.base, self.came_from, self.twin = None, None, None

    def updated(self, keys: Iterable[str], changes: Mapping[str, Any]) -> FrozenDict:
        """Return a dict with these keys, in their order. What did not change is from this one."""
        made, keys = FrozenDict(self), list(keys)
        dict.update(made, {key: freeze(value) for key, value in changes.items()})
        if list(made) != keys:
            made = FrozenDict({key: made[key] for key in keys})
        made.base = self if self.twin is not None else None
        made.came_from = ref(self), changes.keys()
        return made

    def __eq__(self, other: object) -> bool:
        next(_compared)
        return dict.__eq__(self, other)

    def __copy__(self) -> dict[str, Any]:
        return dict(self)

    def __deepcopy__(self, memo: object) -> dict[str, Any]:
        return {key: thaw(value) for key, value in self.items()}

    def __reduce__(self) -> Any:
        return dict, (dict(self),)

    def __reduce_ex__(self, protocol: object) -> Any:
        return self.__reduce__()

    __hash__ = None
    pop = popitem = clear = update = setdefault = _refuse
    __setitem__ = __delitem__ = __ior__ = _refuse


FROZEN: Final = frozenset({FrozenDict, FrozenList})
_EXACT: Final = frozenset({FrozenDict, FrozenList, str, type(None)})
_KINDS: Final[dict[type, type]] = {FrozenDict: dict, FrozenList: list}
_ABSENT: Final = object()
_BLOCK: Final = 1_024
"""How many items are compared at a time: fewer take more slices, more are searched one by one."""


def kind_of(value: object) -> type:
    """Return the type of plain data, frozen or not: a frozen list is a list."""
    kind = type(value)
    return _KINDS.get(kind, kind)


def freeze(value: Any) -> Any:
    """Return the same plain data, frozen at every level. Frozen parts are shared."""
    kind = type(value)
    if kind is dict:
        return FrozenDict({key: freeze(each) for key, each in value.items()})
    if kind is list:
        return FrozenList(map(freeze, value))
    return value


def thaw(value: Any) -> Any:
    """Return the same plain data in new lists and dicts, which can be changed."""
    kind = kind_of(value)
    if kind is dict:
        return {key: thaw(each) for key, each in value.items()}
    if kind is list:
        return [each if type(each) is str else thaw(each) for each in value]
    return value


def shared_items(old: list[Any], new: list[Any]) -> int:
    """Return how many items at the beginning of both are the very same values."""
    if type(new) is FrozenList and new.came_from is not None and new.came_from[0]() is old:
        return new.came_from[1]
    return _shared(old, new, min(len(old), len(new)))


def shared_ends(old: list[Any], new: list[Any]) -> tuple[int, int]:
    """Return how many items at the beginning, and at the end of the others, are the very same."""
    if type(new) is FrozenList and new.came_from is not None and new.came_from[0]() is old:
        return new.came_from[1:]
    head = shared_items(old, new)
    return head, _shared(old, new, min(len(old), len(new)) - head, from_end=True)


def _shared(old: list[Any], new: list[Any], most: int, *, from_end: bool = False) -> int:
    """Return how many of the first or last ``most`` items are the very same values.

    An exact list is compared in blocks, and one by one only in the block that differs.
    """
    is_exact = type(old) is FrozenList and old.is_exact
    block = _BLOCK if is_exact else max(most, 1)
    for found in range(0, most, block):
        size = min(block, most - found)
        place = slice(-found - size, -found or None) if from_end else slice(found, found + size)
        before, after = old[place], new[place]
        if is_exact and _are_same(before, after):
            continue
        if from_end:
            before.reverse()
            after.reverse()
        same: int = next(compress(count(), map(is_not, before, after)), size)
        if same < size:
            return found + same
    return most


def _are_same(exact: list[Any], other: list[Any]) -> bool:
    """Whether two lists hold the very same values, if the first is exact.

    Lists compare identical items without calling them. So if both are equal and no frozen item was
    called, every container in them is the same object, and equal text is the same text.
    """
    asked = next(_compared)
    equal = list.__eq__(exact, other)
    return equal is True and next(_compared) == asked + 1


def changed_keys(old: dict[str, Any], new: dict[Any, Any]) -> Collection[Any]:
    """Return the keys of ``new`` under which ``old`` does not hold the very same value."""
    if type(new) is FrozenDict and new.came_from is not None and new.came_from[0]() is old:
        return new.came_from[1]
    # Most values are the same ones, so the loops over all of them are in C.
    before = old.values() if list(old) == list(new) else map(old.get, new, repeat(_ABSENT))
    return list(compress(new, map(is_not, before, new.values())))
