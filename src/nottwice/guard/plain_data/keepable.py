"""Can a value of this type ever be kept? Answered before a person is asked for one.

The answer of a person is JSON, so only its type says what it becomes. A type that is not known here
may still be refused, when there is a value of it.
"""

from __future__ import annotations

import collections
import collections.abc
import types
import typing
from typing import Any

_NEVER_KEPT = (
    bytes,
    bytearray,
    memoryview,
    complex,
    range,
    collections.deque,
    collections.abc.Set,
    collections.abc.Iterator,
)
_SECRETS = frozenset({"SecretStr", "SecretBytes", "Secret"})


def never_kept(annotation: Any) -> Any:
    """Return the type in an annotation whose values are never kept. None: there is none.

    A union can be kept if one of its types can, except None: an optional set is still a set.
    """
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return never_kept(parts[0])
    if origin is typing.Literal:
        return None
    if origin in (typing.Union, types.UnionType):
        found = [never_kept(part) for part in parts if part is not type(None)]
        return found[0] if None not in found else None
    kind = origin or annotation
    if not isinstance(kind, type):
        return None
    if issubclass(kind, _NEVER_KEPT) or _is_secret(kind):
        return annotation
    return next((bad for bad in map(never_kept, parts) if bad is not None), None)


def _is_secret(kind: type) -> bool:
    # By name, because answers of plain types do not need pydantic (P226).
    return kind.__module__.startswith("pydantic.") and kind.__name__ in _SECRETS
