"""Which parts of an argument are secret? What the annotations say: ``Annotated[str, nt.Secret]``.

pydantic's ``SecretStr``, ``SecretBytes`` and ``Secret[T]`` are secret without a mark. Marks count
wherever they stand: in a list, a dict, a dataclass, a model. Where it cannot be told which part of
the written form belongs to a mark, all of it is secret. Promise kept here: P101.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any

import pydantic
import typing_extensions


class Secret:
    """Marks an argument, or a part of one, or a result, as secret: ``Annotated[str, nt.Secret]``.

    The tool gets the real value. The ledger gets a keyed fingerprint, people see ``•••``.
    """


@dataclass(slots=True, eq=False)
class Shape:
    """Where in the written form of one type its secrets are; may contain itself, as types may."""

    whole: bool = False
    names: dict[str, Shape] = field(default_factory=dict)
    """By the name of a field."""
    items: list[Shape] = field(default_factory=list)
    """Of every item of a list, and every value of a dict."""
    either: list[Shape] = field(default_factory=list)
    """Any of these may be meant."""


def find_secrets(types: Mapping[str, Any]) -> dict[str, Shape]:
    """The parameters that hold secrets, by name; those without any are left out."""
    found: dict[str, Shape] = {}
    for name, annotation in types.items():
        shape = _shape(annotation, {})
        if _holds(shape, set()):
            found[name] = shape
    return found


def holds_secret(annotation: Any) -> bool:
    """Whether a value of this type is secret, or a part of it."""
    return bool(find_secrets({"it": annotation}))


def replace_secrets(plain: Any, shape: Shape, replace: Callable[[Any], Any]) -> Any:
    """Plain data with something else in place of each secret. Nothing is not a secret."""
    return _replace(plain, shape, replace, {})


def _replace(plain: Any, shape: Shape, replace: Callable[[Any], Any], done: dict[int, Any]) -> Any:
    """``done`` is what was put in, which another shape of the same place leaves alone."""
    if plain is None or id(plain) in done:
        return plain
    if shape.whole:
        put = replace(plain)
        done[id(put)] = put
        return put
    if type(plain) is dict and shape.names:
        inside = {
            name: _replace(plain[name], inner, replace, done)
            for name, inner in shape.names.items()
            if name in plain
        }
        plain = {**plain, **inside}
    for inner in shape.items:
        if type(plain) is dict:
            plain = {name: _replace(each, inner, replace, done) for name, each in plain.items()}
        elif type(plain) is list:
            plain = [_replace(each, inner, replace, done) for each in plain]
    for other in shape.either:
        plain = _replace(plain, other, replace, done)
    return plain


def _holds(shape: Shape, seen: set[int]) -> bool:
    if id(shape) in seen:
        return False
    seen.add(id(shape))
    inner = (*shape.names.values(), *shape.items, *shape.either)
    return shape.whole or any(_holds(each, seen) for each in inner)


_Known = dict[Any, Shape]
_WRAPPERS = (
    typing.Required,
    typing.NotRequired,
    typing_extensions.Required,
    typing_extensions.NotRequired,
    typing_extensions.ReadOnly,
    typing.ClassVar,
    typing.Final,
)
_MARKED = (pydantic.SecretStr, pydantic.SecretBytes, pydantic.Secret)


def _shape(annotation: Any, known: _Known) -> Shape:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        if _is_marked(annotation.__metadata__):
            return Shape(whole=True)
        return _shape(parts[0], known)
    if origin in _WRAPPERS or hasattr(annotation, "__supertype__"):
        return _shape(parts[0] if parts else annotation.__supertype__, known)
    if isinstance(annotation, typing_extensions.TypeAliasType):
        return _shape(annotation.__value__, known)
    if isinstance(annotation, typing.TypeVar):
        return _shape(annotation.__bound__, known)
    kind = origin or annotation
    if kind is Secret or (isinstance(kind, type) and issubclass(kind, _MARKED)):
        return Shape(whole=True)
    if origin in (typing.Union, UnionType):
        return Shape(either=[_shape(part, known) for part in parts])
    if isinstance(kind, type) and _is_collection(kind) and not hasattr(kind, "_fields"):
        return _of_collection(kind, parts, known)
    if isinstance(annotation, type):
        return _of_class(annotation, known)
    return _whole_if_any([_shape(part, known) for part in parts])


def _is_marked(metadata: typing.Iterable[Any]) -> bool:
    return any(each is Secret or isinstance(each, Secret) for each in metadata)


def _is_collection(kind: type) -> bool:
    if typing_extensions.is_typeddict(kind) or issubclass(kind, str | bytes):
        return False
    return issubclass(kind, collections.abc.Iterable) and not issubclass(kind, pydantic.BaseModel)


def _of_collection(kind: type, parts: tuple[Any, ...], known: _Known) -> Shape:
    if issubclass(kind, collections.abc.Mapping) and len(parts) == 2:
        keys, inner = (_shape(part, known) for part in parts)
        # A secret that is a key has no place of its own to be replaced at.
        return Shape(whole=_holds(keys, set()), items=[inner])
    return Shape(items=[_shape(part, known) for part in parts if part is not Ellipsis])


def _of_class(kind: type, known: _Known) -> Shape:
    """The fields of a model, a dataclass, a typed dict or a named tuple."""
    if kind in known:
        return known[kind]
    shape = known[kind] = Shape()
    if issubclass(kind, pydantic.BaseModel):
        _fill_from_model(shape, kind, known)
    elif typing_extensions.is_typeddict(kind) or dataclasses.is_dataclass(kind):
        _fill_from_hints(shape, kind, known)
    elif hasattr(kind, "_fields"):
        # A named tuple is written as a list, where no name tells its fields apart.
        _fill_from_hints(shape, kind, known)
        shape.whole, shape.names = _holds(shape, set()), {}
    return shape


def _fill_from_model(shape: Shape, kind: type[pydantic.BaseModel], known: _Known) -> None:
    for name, about in kind.model_fields.items():
        inner = _shape(about.annotation, known)
        if _is_marked(about.metadata):
            inner = Shape(whole=True)
        aliases = (about.alias, about.serialization_alias, about.validation_alias)
        for each in (name, *aliases):
            if isinstance(each, str):
                shape.names[each] = inner
    if issubclass(kind, pydantic.RootModel):
        shape.either.append(shape.names.pop("root"))
    written = kind.__pydantic_decorators__
    if (written.model_serializers or written.field_serializers) and _holds(shape, set()):
        # It may write its fields in any form, under any name.
        shape.whole = True


def _fill_from_hints(shape: Shape, kind: type, known: _Known) -> None:
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception:
        # A class inside of a function, say, whose names are gone.
        shape.whole = any(map(may_be_secret, getattr(kind, "__annotations__", {}).values()))
        return
    shape.names.update({name: _shape(each, known) for name, each in hints.items()})


def may_be_secret(unresolved: Any) -> bool:
    """Whether an annotation that cannot be looked up is to be taken for a secret: if it says so."""
    return "secret" in str(unresolved).lower()


def _whole_if_any(shapes: list[Shape]) -> Shape:
    return Shape(whole=any(_holds(shape, set()) for shape in shapes))
