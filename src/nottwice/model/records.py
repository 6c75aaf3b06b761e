"""How are records made, of which there are some two hundred kinds?

They are frozen dataclasses. What ``dataclasses`` writes for each kind is the same again and again,
and is compiled at every start: half of the time that it took to import nottwice. So all kinds share
one way to be shown, compared, hashed and frozen, and only ``__init__`` is made for each.

Freezing costs, too: a frozen field is set by way of ``__setattr__``, several times as slow as a
plain assignment, and the dozen records of one guarded call took longer to fill than its arguments
took to hash. So the few kinds that every call makes are frozen for the type checker only, which
reads all the code there is that handles them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

__all__ = ["frozen_record", "light_record"]
T = TypeVar("T")

if TYPE_CHECKING:
    # One and the same to the type checker: it refuses every assignment to a field.
    from dataclasses import dataclass as frozen_record
    from dataclasses import dataclass as light_record
else:

    def frozen_record(*, eq: bool = True, **options: bool) -> Callable[[type[T]], type[T]]:
        """A frozen dataclass with slots: each field is set once."""

        def make(kind: type[T]) -> type[T]:
            made = _made(kind, eq=eq, **options)
            made.__setattr__, made.__delattr__ = _set_once, _refuse
            return made

        return make

    def light_record(**options: bool) -> Callable[[type[T]], type[T]]:
        """The same, frozen for the type checker only, and filled without detours."""
        return lambda kind: _made(kind, eq=True, **options)


def _made(
    kind: type[Any], *, frozen: bool, slots: bool, eq: bool, kw_only: bool = False
) -> type[Any]:
    if not frozen or not slots:
        raise TypeError(f"{kind.__qualname__} is no record: records are frozen and have slots.")
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
    """Of the fields of one kind of record."""

    shown: tuple[str, ...]
    compared: tuple[str, ...]


@cache
def _names(kind: Any) -> _Names:
    # Not before it is asked for: most kinds are never compared, and hardly any is ever shown.
    declared = fields(kind)
    return _Names(
        tuple(field.name for field in declared if field.repr),
        tuple(field.name for field in declared if field.compare),
    )
