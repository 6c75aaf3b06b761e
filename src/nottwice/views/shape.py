"""How does a view become JSON, and what does each field of it mean?

A view is a frozen record. A field whose type is ``Annotated[..., "its meaning"]`` is part of the
JSON document; a field without a meaning is for programs only. So one class is the document, its
documentation, and what the terminal renders. The fields are a promise to scripts: they are only
ever added to.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from nottwice.views.text import iso_text

LEDGER = "the absolute path of the ledger"


class Timestamp(float):
    """A point in time: seconds since 1970 in UTC, and ISO 8601 in JSON."""

    __slots__ = ()


def moment(seconds: float | None) -> Timestamp | None:
    """A point in time that may be missing."""
    return None if seconds is None else Timestamp(seconds)


def one_of(choices: type[enum.Enum]) -> str:
    """The meaning of a field that has one of a few values: ``open, decided or closed``."""
    *others, last = (choice.value for choice in choices)
    return f"{', '.join(others)} or {last}"


def to_plain(value: Any) -> Any:
    """A view as plain data: what ``--json`` prints."""
    match value:
        case Timestamp():
            return iso_text(value)
        case enum.Enum():
            return value.value
        case str() | bool() | int() | float() | None:
            return value
        case Mapping():
            return {name: to_plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [to_plain(inner) for inner in value]
        case _:
            kind: Any = type(value)
            fields = _documented(kind)
            return {name.removesuffix("_"): to_plain(getattr(value, name)) for name in fields}


def meanings(kind: Any) -> dict[str, str]:
    """The fields of a view in its JSON document, each with its meaning."""
    return {name.removesuffix("_"): meaning for name, meaning in _documented(kind).items()}


@cache
def _documented(kind: Any) -> dict[str, str]:
    hints = get_type_hints(kind, include_extras=True)
    found: dict[str, str] = {}
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        if get_origin(hint) is Annotated:
            found[field.name] = str(get_args(hint)[1])
    return found
