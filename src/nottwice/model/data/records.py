"""How are the roughly two hundred kinds of records made?

They are frozen dataclasses. The methods that ``dataclasses`` generates are the same for each kind,
and are compiled at every start; that took half of the time to import nottwice. So all kinds share
their repr, comparison, hash and freezing, and only ``__init__`` is generated for each.

Freezing costs time too. A frozen field is set through ``__setattr__``, several times slower than a
plain assignment, and filling the dozen records of one guarded call took longer than hashing its
arguments. So the few kinds that every call makes are frozen for the type checker only, which reads
all the code that handles them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

__all__ = ["frozen_record", "light_record"]
T = TypeVar("T")

if TYPE_CHECKING:
    # To the type checker both are the same: it refuses every assignment to a field.
    from dataclasses import dataclass as frozen_record
    from dataclasses import dataclass as light_record
else:

    def frozen_record(*, eq: bool = True, **options: bool) -> Callable[[type[T]], type[T]]:
        """Make a frozen dataclass with slots. Each field is set once."""

        def make(kind: type[T]) -> type[T]:
            made = _made(kind, eq=eq, **options)
            made.__setattr__, made.__delattr__ = _set_once, _refuse
            return made

        return make

    def light_record(**options: bool) -> Callable[[type[T]], type[T]]:
        """Make the same, but frozen for the type checker only, and faster to fill."""
        return lambda kind: _made(kind, eq=True, **options)


def _made(
    kind: type[Any], *, frozen: bool, slots: bool, eq: bool, kw_only: bool = False
) -> type[Any]:
    if not frozen or not slots:
        raise TypeError(f"{kind.__qualname__} is not a record: records are frozen and have slots.")
    made: Any = dataclass(repr=False, eq=False, slots=True, kw_only=kw_only)(kind)
    if "__repr__" not in kind.__dict__:
        made.__repr__ = _shown
    if eq:
        made.__eq__, made.__hash__ = _equals, _hashed
    return cast(type[Any], made)


def _shown(self: Any) -> str:
    said = ", ".join(f"{name}={getattr(self, name)!r}" for name in _names(self.__class__).shown)
    return f"{type(self).__qualname__}({said})"


def _equals(self: Any, other: Any) -> Any:
    return _compared(self) == _compared(other) if type(other) is type(self) else NotImplemented


def _hashed(self: Any) -> int:
    return hash(_compared(self))


def _compared(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, name) for name in _names(self.__class__).compared)


def _set_once(self: Any, name: str, value: object) -> None:
    if hasattr(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


class _Names(NamedTuple):
    """The names of the fields of one kind of record."""

    shown: tuple[str, ...]
    compared: tuple[str, ...]


@cache
def _names(kind: Any) -> _Names:
    # Computed on first use: most kinds are never compared, and hardly any is ever shown.
    declared = fields(kind)
    return _Names(
        tuple(field.name for field in declared if field.repr),
        tuple(field.name for field in declared if field.compare),
    )
