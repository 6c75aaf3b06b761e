"""Which parts of an argument are secret? The annotations say so: ``Annotated[str, nt.Secret]``.

pydantic's ``SecretStr``, ``SecretBytes`` and ``Secret[T]`` are secret without a mark. A mark counts
anywhere: in a list, a dict, a dataclass, a model. If nottwice cannot tell which part of the
recorded form belongs to a mark, the whole of it is secret. Promise kept here: P101.

Python's own types hold no secrets. Only other types need pydantic and typing_extensions, so the
functions that look at them import the two (P226).
"""

from __future__ import annotations

import collections.abc
import dataclasses
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import TYPE_CHECKING, Any

from nottwice.guard.arguments.annotations import is_built_in

if TYPE_CHECKING:
    import pydantic


class Secret:
    """Marks an argument, part of an argument, or a result as secret: ``Annotated[str, nt.Secret]``.

    The tool gets the real value. The ledger gets a keyed fingerprint. People see ``•••``.
    """


@dataclass(slots=True, eq=False)
class Shape:
    """Where the secrets are in the recorded form of a type. It may contain itself, as types may."""

    whole: bool = False
    names: dict[str, Shape] = field(default_factory=dict)
    """The shapes of named fields."""
    items: list[Shape] = field(default_factory=list)
    """The shape of every item of a list and every value of a dict."""
    either: list[Shape] = field(default_factory=list)
    """Alternatives: the value may have any of these shapes."""


def find_secrets(types: Mapping[str, Any]) -> dict[str, Shape]:
    """Return the parameters that hold secrets, by name; the others are left out."""
    found: dict[str, Shape] = {}
    for name, annotation in types.items():
        shape = _shape(annotation, {})
        if _holds(shape, set()):
            found[name] = shape
    return found


def holds_secret(annotation: Any) -> bool:
    """Whether a value of this type, or part of it, is secret."""
    return bool(find_secrets({"it": annotation}))


def replace_secrets(plain: Any, shape: Shape, replace: Callable[[Any], Any]) -> Any:
    """Replace each secret in plain data. None is not a secret."""
    return _replace(plain, shape, replace, {})


def _replace(plain: Any, shape: Shape, replace: Callable[[Any], Any], done: dict[int, Any]) -> Any:
    """``done`` holds the replacements, which another shape of the same place leaves alone."""
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


def _shape(annotation: Any, known: _Known) -> Shape:
    if is_built_in(annotation):
        return Shape()
    import typing_extensions

    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        if _is_marked(annotation.__metadata__):
            return Shape(whole=True)
        return _shape(parts[0], known)
    if _is_wrapper(origin) or hasattr(annotation, "__supertype__"):
        return _shape(parts[0] if parts else annotation.__supertype__, known)
    if isinstance(annotation, typing_extensions.TypeAliasType):
        return _shape(annotation.__value__, known)
    if isinstance(annotation, typing.TypeVar):
        return _shape(annotation.__bound__, known)
    kind = origin or annotation
    if kind is Secret or (isinstance(kind, type) and _is_secret_class(kind)):
        return Shape(whole=True)
    if origin in (typing.Union, UnionType):
        return Shape(either=[_shape(part, known) for part in parts])
    if isinstance(kind, type) and _is_collection(kind) and not hasattr(kind, "_fields"):
        return _of_collection(kind, parts, known)
    if isinstance(annotation, type):
        return _of_class(annotation, known)
    return _whole_if_any([_shape(part, known) for part in parts])


def _is_wrapper(origin: Any) -> bool:
    import typing_extensions

    return origin in (
        typing.Required,
        typing.NotRequired,
        typing_extensions.Required,
        typing_extensions.NotRequired,
        typing_extensions.ReadOnly,
        typing.ClassVar,
        typing.Final,
    )


def _is_secret_class(kind: type) -> bool:
    import pydantic

    return issubclass(kind, pydantic.SecretStr | pydantic.SecretBytes | pydantic.Secret)


def _is_marked(metadata: typing.Iterable[Any]) -> bool:
    return any(each is Secret or isinstance(each, Secret) for each in metadata)


def _is_collection(kind: type) -> bool:
    import pydantic
    import typing_extensions

    if typing_extensions.is_typeddict(kind) or issubclass(kind, str | bytes):
        return False
    return issubclass(kind, collections.abc.Iterable) and not issubclass(kind, pydantic.BaseModel)


def _of_collection(kind: type, parts: tuple[Any, ...], known: _Known) -> Shape:
    if issubclass(kind, collections.abc.Mapping) and len(parts) == 2:
        keys, inner = (_shape(part, known) for part in parts)
        # A secret that is a dict key cannot be replaced on its own.
        return Shape(whole=_holds(keys, set()), items=[inner])
    return Shape(items=[_shape(part, known) for part in parts if part is not Ellipsis])


def _of_class(kind: type, known: _Known) -> Shape:
    """The fields of a model, a dataclass, a typed dict or a named tuple."""
    import pydantic
    import typing_extensions

    if kind in known:
        return known[kind]
    shape = known[kind] = Shape()
    if issubclass(kind, pydantic.BaseModel):
        _fill_from_model(shape, kind, known)
    elif typing_extensions.is_typeddict(kind) or dataclasses.is_dataclass(kind):
        _fill_from_hints(shape, kind, known)
    elif hasattr(kind, "_fields"):
        # A named tuple is recorded as a list, which has no field names.
        _fill_from_hints(shape, kind, known)
        shape.whole, shape.names = _holds(shape, set()), {}
    return shape


def _fill_from_model(shape: Shape, kind: type[pydantic.BaseModel], known: _Known) -> None:
    import pydantic

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
        # For example a class inside a function, whose names are gone.
        shape.whole = any(map(may_be_secret, getattr(kind, "__annotations__", {}).values()))
        return
    shape.names.update({name: _shape(each, known) for name, each in hints.items()})


def may_be_secret(unresolved: Any) -> bool:
    """Whether an annotation that cannot be looked up counts as a secret: if its text says so."""
    return "secret" in str(unresolved).lower()


def _whole_if_any(shapes: list[Shape]) -> Shape:
    return Shape(whole=any(_holds(shape, set()) for shape in shapes))
