"""Which records belong together? A dict of records that finds those of a group without a scan.

At every call, the engine asks for one visit, one key, or the calls in doubt among perhaps ten
thousand calls of a run. The groups of a kind are built when they are first asked for and kept up to
date from then on, so a copy that is only written to costs nothing extra.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Groups = Callable[[Any, Any], Iterable[Hashable]]
"""From a key and a record: the groups of one kind that it is in. Most are in one or none."""


class Indexed(dict[K, V]):
    """A dict whose values belong to groups; inside a group they keep the order of the dict."""

    def __init__(self, kinds: Mapping[str, Groups]) -> None:
        self._kinds = kinds
        self._members: dict[str, dict[Hashable, dict[K, None]]] = {}

    def of(self, kind: str, group: Hashable) -> list[V]:
        """The values of one group."""
        return [self[key] for key in self._of(kind).get(group, ())]

    def count(self, kind: str, group: Hashable) -> int:
        """The number of values in a group."""
        return len(self._of(kind).get(group, ()))

    def keys_of(self, kind: str, group: Hashable) -> list[K]:
        """The keys of one group, for example to remove them."""
        return list(self._of(kind).get(group, ()))

    def _of(self, kind: str) -> dict[Hashable, dict[K, None]]:
        found = self._members.get(kind)
        if found is None:
            groups = self._kinds[kind]
            found = {}
            for key, value in self.items():
                for group in groups(key, value):
                    found.setdefault(group, {})[key] = None
            self._members[kind] = found
        return found

    def copy(self) -> Indexed[K, V]:
        """A copy with the same kinds of groups."""
        made: Indexed[K, V] = Indexed(self._kinds)
        dict.update(made, self)
        return made

    # Every method that changes a dict is here, so that no change misses the groups.

    def __setitem__(self, key: K, value: V) -> None:
        if self._members:
            self._move(key, value)
        super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        if self._members and key in self:
            self._leave(key)
        super().__delitem__(key)

    def setdefault(self, key: K, default: V) -> V:
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *others: Any, **named: Any) -> None:
        if not self._members:
            super().update(*others, **named)
            return
        for key, value in dict(*others, **named).items():
            self[key] = value

    def __ior__(self, other: Any) -> Indexed[K, V]:  # type: ignore[misc, override]
        self.update(other)
        return self

    def pop(self, key: K, *default: Any) -> Any:
        if self._members and key in self:
            self._leave(key)
        return super().pop(key, *default)

    def popitem(self) -> tuple[K, V]:
        key = next(reversed(self))
        return key, self.pop(key)

    def clear(self) -> None:
        self._members.clear()
        super().clear()

    def _move(self, key: K, value: V) -> None:
        known, before = key in self, self.get(key)
        for kind, members in self._members.items():
            groups = self._kinds[kind]
            new = tuple(groups(key, value))
            old = tuple(groups(key, before)) if known else ()
            if new != old:
                _take(members, (group for group in old if group not in new), key)
                for group in new:
                    members.setdefault(group, {})[key] = None

    def _leave(self, key: K) -> None:
        value = self[key]
        for kind, members in self._members.items():
            _take(members, self._kinds[kind](key, value), key)


def _take(
    members: dict[Hashable, dict[Any, None]], groups: Iterable[Hashable], key: Hashable
) -> None:
    for group in groups:
        found = members.get(group, {})
        found.pop(key, None)
        if not found:
            members.pop(group, None)
