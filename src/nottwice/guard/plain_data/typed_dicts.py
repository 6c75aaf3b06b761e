"""Makes a TypedDict that pydantic accepts: before Python 3.12, it refuses that of ``typing``."""

from __future__ import annotations

import functools
import operator
import sys
import types
import typing
from typing import Any

import typing_extensions

_IS_NEEDED = sys.version_info < (3, 12)


def readable(annotation: Any) -> Any:
    """Return an annotation that pydantic accepts, whatever TypedDict it names at any depth."""
    return _readable(annotation, ()) if _IS_NEEDED else annotation


def spelled_out(annotation: Any) -> Any:
    """Return a TypedDict that knows which of its keys are required, also of hints that are texts.

    Any other annotation is returned as it is.
    """
    is_one = typing_extensions.is_typeddict(annotation)
    return _rebuilt(annotation, (annotation,)) if is_one else annotation


def _readable(annotation: Any, around: tuple[Any, ...]) -> Any:
    if annotation in around:
        # It contains itself.
        return annotation
    if typing_extensions.is_typeddict(annotation):
        return _rebuilt(annotation, (*around, annotation))
    origin, parts = typing_extensions.get_origin(annotation), typing.get_args(annotation)
    if origin is None or origin is typing.Literal:
        return annotation
    if origin is typing.Annotated:
        inner = _readable(parts[0], around)
        return (
            annotation if inner is parts[0] else typing.Annotated[(inner, *annotation.__metadata__)]
        )
    found = tuple(_readable(part, around) for part in parts)
    if all(new is old for new, old in zip(found, parts, strict=True)):
        return annotation
    if origin is types.UnionType:
        return functools.reduce(operator.or_, found)
    return (
        origin[found] if isinstance(annotation, types.GenericAlias) else annotation.copy_with(found)
    )


def _rebuilt(annotation: Any, around: tuple[Any, ...]) -> Any:
    hints = typing_extensions.get_type_hints(annotation, include_extras=True)
    parts: dict[str, Any] = {}
    for name, hint in hints.items():
        # What a text says of that is missing from the class's required keys.
        origin: Any = typing_extensions.get_origin(hint)
        if origin in (typing.Required, typing.NotRequired):
            hint = origin[_readable(typing.get_args(hint)[0], around)]
        else:
            known = name in annotation.__required_keys__
            hint = (typing.Required if known else typing.NotRequired)[_readable(hint, around)]
        parts[name] = hint
    make: Any = typing_extensions.TypedDict
    made = make(annotation.__name__, parts)
    if hasattr(annotation, "__pydantic_config__"):
        made.__pydantic_config__ = annotation.__pydantic_config__
    return made
