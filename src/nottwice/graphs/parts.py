"""How are the parts of a typed state validated one by one, and lent without a copy?

If one number changes in a state of megabytes, the whole state is not validated again. Each part has
its own validator. A part that cannot be changed (text, numbers, dates, frozen models and
dataclasses, lists and dicts of these) keeps its validated twin as long as it stays the same. If
some items of a list change, or some values of a dict, only these are validated.

This is correct only for types without rules across parts. A model with its own validators, a
dataclass with ``__post_init__`` and the like are validated as a whole.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import pathlib
import typing
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import typing_extensions
from pydantic import BaseModel, TypeAdapter

from nottwice.guard.plain_data.typed_form import build_adapter, restore
from nottwice.model.saving.delta import same
from nottwice.model.saving.frozen import FROZEN, FrozenDict, FrozenList, kind_of

_ATOMS = (
    str,
    int,
    float,
    bool,
    bytes,
    type(None),
    decimal.Decimal,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    uuid.UUID,
    enum.Enum,
    pathlib.PurePath,
)
# Model settings that do not affect how a part is read.
_HARMLESS = frozenset({"arbitrary_types_allowed", "extra", "frozen", "title"})


_ITSELF: Any = object()
"""Instead of a twin: the plain data already has the declared type, such as a list of texts."""


class Changeable(Exception):
    """A value that can be changed, so two nodes cannot share it. Internal."""


class Parts:
    """The parts of a typed state, each with its own validator."""

    def __init__(
        self, types: Mapping[str, Any], make: Callable[[dict[str, Any]], Any], required: set[str]
    ) -> None:
        self._make = make
        self._required = required
        self._adapters: dict[str, TypeAdapter[Any]] = {}
        self._lists: set[str] = set()
        """The parts whose items are validated one by one."""
        self._dicts: set[str] = set()
        """The parts whose values are validated one by one."""
        for name, annotation in types.items():
            self._adapters[name], note = build_adapter(annotation)
            if note is not None:
                raise Changeable(note)
            if typing.get_origin(annotation) is list:
                self._lists.add(name)
            if typing.get_origin(annotation) is dict and typing.get_args(annotation)[0] is str:
                self._dicts.add(name)

    def lend(self, state: Mapping[str, Any]) -> Any:
        """Return the state in its type, sharing parts where possible. Raises on invalid data."""
        if not self._required <= state.keys() <= self._adapters.keys():
            raise KeyError("the state has other parts than its type")
        return self._make({name: self.value(name, plain) for name, plain in state.items()})

    def value(self, name: str, plain: Any) -> Any:
        """Return one part in its type, or raise what validation raises."""
        if type(plain) in FROZEN:
            self.check(name, plain)
            owner, twin, is_shared = plain.twin
            if is_shared and owner is self:
                return plain if twin is _ITSELF else twin
        return restore(self._adapters[name], plain)

    def check(self, name: str, plain: Any) -> None:
        """Validate a part, unless it already was. Raises what validation raises."""
        if type(plain) not in FROZEN:
            restore(self._adapters[name], plain)
        elif plain.twin is None:
            plain.twin = self, *self._validate(name, plain)

    def check_added(self, name: str, old: Any, items: FrozenList) -> None:
        """Validate what is added to a list. Raises what validation raises."""
        self.check(name, items if name in self._lists else old.grown(items))

    def is_lent(self, plain: Any, value: Any) -> bool:
        """Whether a value is the unchangeable object that was lent for this part."""
        if type(plain) not in FROZEN or plain.twin is None:
            return False
        twin = plain.twin[1]
        return (plain if twin is _ITSELF else twin) is value

    def is_unchanged(self, name: str, plain: Any, value: Any) -> bool:
        """Whether a node left a part as it was."""
        if self.is_lent(plain, value):
            return True
        adapter = self._adapters[name]
        shown = adapter.dump_python(value, warnings=False)
        if shown == plain:
            return True
        # The stored form of some types differs from their values, for example of a date.
        fresh = restore(adapter, plain)
        return bool(shown == adapter.dump_python(fresh, warnings=False))

    def are_alone(self, name: str) -> bool:
        """Whether a list or dict that partly changed is valid if its new entries are."""
        return name in self._lists or name in self._dicts

    def _validate(self, name: str, plain: Any) -> tuple[Any, bool]:
        """Return a part in its type, and whether it may be shared. If not, it is rebuilt on use."""
        base, plain.base = plain.base, None
        is_known = base is not None and self.are_alone(name) and base.twin[0] is self
        try:
            if is_known:
                return self._validate_changed(name, plain, base)
            made = _unchangeable(restore(self._adapters[name], plain))
            return (_ITSELF if _is_identical(made, plain) else made), True
        except Changeable:
            return None, False

    def _validate_changed(self, name: str, plain: Any, base: Any) -> tuple[Any, bool]:
        """Validate only what distinguishes a list or dict from the valid one it was made from."""
        is_list, (_, *known) = type(plain) is FrozenList, plain.came_from
        changed: Any
        if is_list:
            head, rest = known
            changed = plain[head : len(plain) - rest]
        else:
            changed = {key: plain[key] for key in known[0]}
        made = restore(self._adapters[name], changed)
        _, twin, is_shared = base.twin
        if not is_shared:
            return None, False
        made = _unchangeable(made)
        if twin is _ITSELF and _is_identical(made, changed):
            return _ITSELF, True
        before = base if twin is _ITSELF else twin
        made = before.spliced(head, rest, made) if is_list else before.updated(plain, made)
        return made, True


def parts_of(annotation: Any, fields: Mapping[str, Any]) -> Parts | None:
    """Return the parts of a type without rules across them, or None for any other type."""
    required, types = set(fields), dict(fields)
    make: Callable[[dict[str, Any]], Any]
    if hasattr(annotation, "__pydantic_config__"):
        return None
    if typing_extensions.is_typeddict(annotation):
        required, make = set(annotation.__required_keys__), FrozenDict
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if not _is_simple_model(annotation):
            return None
        for name, field in annotation.model_fields.items():
            for metadata in field.metadata:
                types[name] = typing.Annotated[types[name], metadata]
        make = partial(_construct, annotation)
    elif _is_simple_dataclass(annotation):
        make = partial(_call, annotation)
    else:
        return None
    try:
        return Parts(types, make, required)
    except Changeable:
        return None


def _is_simple_model(model: type[BaseModel]) -> bool:
    rules = model.__pydantic_decorators__
    tied = rules.validators or rules.field_validators or rules.root_validators
    return not (
        tied
        or rules.model_validators
        or model.__private_attributes__
        or model.model_config.get("extra") == "allow"
        or not _HARMLESS.issuperset(model.model_config)
        or any(field.validation_alias for field in model.model_fields.values())
        or model.model_post_init is not BaseModel.model_post_init
        or model.__init__ is not BaseModel.__init__
        or model.__new__ is not BaseModel.__new__
    )


def _construct(model: type[BaseModel], values: dict[str, Any]) -> Any:
    return model.model_construct(_fields_set=set(values), **values)


def _call(kind: Callable[..., Any], values: dict[str, Any]) -> Any:
    return kind(**values)


def _is_simple_dataclass(kind: Any) -> bool:
    return (
        not hasattr(kind, "__pydantic_fields__")
        and not hasattr(kind, "__post_init__")
        and all(field.init for field in dataclasses.fields(kind))
        # Generated code has this file name. A hand-written ``__init__`` has a real one.
        and kind.__init__.__code__.co_filename == "<string>"
    )


def _unchangeable(value: Any) -> Any:
    """Return the value with frozen lists and dicts. Changeable if anything else can be changed."""
    if isinstance(value, _ATOMS):
        return value
    if type(value) is list:
        return FrozenList(map(_unchangeable, value))
    if type(value) is dict:
        return FrozenDict({_unchangeable(key): _unchangeable(each) for key, each in value.items()})
    if type(value) is tuple:
        return tuple(map(_unchangeable, value))
    if _is_unchangeable(value):
        return value
    raise Changeable(type(value).__name__)


def _is_identical(made: Any, plain: Any) -> bool:
    """Whether data in its declared type is what the plain data is, with its keys in their order."""
    if kind_of(plain) is list:
        return (
            type(made) is FrozenList
            and len(made) == len(plain)
            and all(map(_is_identical, made, plain))
        )
    if kind_of(plain) is dict:
        return (
            type(made) is FrozenDict
            and list(made) == list(plain)
            and all(_is_identical(each, plain[key]) for key, each in made.items())
        )
    return same(made, plain)


def _is_unchangeable(value: Any) -> bool:
    """Whether nothing in a value can be changed as it is, for example a frozen model of texts."""
    if isinstance(value, _ATOMS) or type(value) in FROZEN:
        return True
    if type(value) is tuple:
        return all(map(_is_unchangeable, value))
    if isinstance(value, BaseModel):
        frozen = value.model_config.get("frozen") and not value.__private_attributes__
        return bool(frozen) and not value.__pydantic_extra__ and _has_unchangeable_parts(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        frozen = getattr(type(value), "__dataclass_params__").frozen  # noqa: B009
        return bool(frozen) and _has_unchangeable_parts(value)
    return False


def _has_unchangeable_parts(value: Any) -> bool:
    names = type(value).model_fields if isinstance(value, BaseModel) else dataclasses.fields(value)
    found = (name if isinstance(name, str) else name.name for name in names)
    return all(_is_unchangeable(getattr(value, name)) for name in found)
