"""Does a stored value have the types that its record declares?

Anyone who can write to a ledger may have changed it. A record is only made from what nottwice can
have written: text where text belongs, a number where a number does. So no inner code meets an
impossible type, and a spoiled row is named where it is read.
Promise kept here: P95.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from nottwice.errors import LedgerCorrupt

T = TypeVar("T")
UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading raises for a value that nottwice cannot have written."""


def checked(record: T) -> T:
    """Return the record if each field has its declared type. Raises TypeError otherwise.

    JSON also spells numbers that no float can hold.
    """
    for name, allowed, items in _declared(type(record)):  # type: ignore[arg-type]
        value = getattr(record, name)
        if type(value) not in allowed:
            raise TypeError(f"{name} is {type(value).__name__}")
        if float in allowed and value is not None and not abs(value) <= sys.float_info.max:
            raise TypeError(f"{name} is not a finite number")
        if items and type(value) is tuple and not {type(item) for item in value}.issubset(items):
            raise TypeError(f"{name} holds an item of the wrong type")
    return record


@contextlib.contextmanager
def not_believed(what: str) -> Iterator[None]:
    """Raise LedgerCorrupt for a value that cannot be read, instead of an arbitrary error."""
    try:
        yield
    except UNREADABLE as error:
        raise LedgerCorrupt(
            f"{what} cannot be read ({error!r}): it is not what nottwice writes. It was not "
            "used, and nothing was changed. Restore the ledger from a backup."
        ) from error


_Field = tuple[str, frozenset[type], frozenset[type]]


@cache
def _declared(kind: type[Any]) -> tuple[_Field, ...]:
    """Return each field of a record with its allowed types, and those of the items of a tuple."""
    hints = get_type_hints(kind)
    return tuple(
        (field.name, frozenset(_types(hints[field.name])), frozenset(_items(hints[field.name])))
        for field in fields(kind)
        if hints[field.name] is not Any and not isinstance(hints[field.name], TypeVar)
    )


def _types(hint: Any) -> Iterator[type]:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        for each in get_args(hint):
            yield from _types(each)
    elif origin is Literal:
        yield from map(type, get_args(hint))
    elif hint is float:
        # JSON spells a whole number without a point.
        yield from (float, int)
    else:
        yield dict if origin is Mapping else origin or hint


def _items(hint: Any) -> Iterator[type]:
    if get_origin(hint) is tuple:
        yield from _types(get_args(hint)[0])
