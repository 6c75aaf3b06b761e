"""Do a call's arguments fit their annotations, and which values do they mean?

All parameters of a tool are validated in one step, because this happens in every call. Validation
is lax, as in the frameworks that agents use: `"7"` is the integer 7 and `"2026-01-01"` a date. An
annotation that cannot be used counts as missing, with a note. It never affects the others.

Arguments that are scalars already, as the annotations ask for, mean what they are. A program that
passes nothing else does not load pydantic (P226).
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, NoReturn

from nottwice.errors import InvalidArguments

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_SCALARS = (str, int, float, bool, type(None))


class Validator:
    """Validates the arguments of one tool, by the names and types of its parameters."""

    def __init__(self, types: Mapping[str, Any], *, tool: str) -> None:
        self._tool = tool
        self._types = types
        self._scalars = _scalars(types)
        self._adapter: TypeAdapter[Any] | None = None
        self.notes: tuple[str, ...] = ()
        if self._scalars is None:
            self._adapter, self.notes = _build(types)

    def check(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the validated values of the arguments; InvalidArguments names the first fault."""
        plain = self._take(given)
        if plain is not None:
            return plain
        adapter = self._adapter or self._adapt()
        try:
            checked: dict[str, Any] = adapter.validator.validate_python(given)
        except Exception as error:
            self._refuse(error, "")
        return checked if len(checked) == len(given) else _only(checked, given)

    def check_recorded(self, given: dict[str, Any]) -> dict[str, Any]:
        """Like `check`, for plain data from the ledger."""
        plain = self._take(given)
        if plain is not None:
            return plain
        from nottwice.guard.plain_data.typed_form import restore

        adapter = self._adapter or self._adapt()
        try:
            checked: dict[str, Any] = restore(adapter, given)
        except Exception as error:
            self._refuse(error, "recorded ")
        return checked if len(checked) == len(given) else _only(checked, given)

    def _take(self, given: dict[str, Any]) -> dict[str, Any] | None:
        """Return the arguments in the order of the signature, if none needs to be validated."""
        if self._scalars is None:
            return None
        taken: dict[str, Any] = {}
        for name, kinds in self._scalars.items():
            if name in given:
                value = given[name]
                if kinds is not None and type(value) not in kinds:
                    return None
                taken[name] = value
        return taken

    def _adapt(self) -> TypeAdapter[Any]:
        # Scalars always have an adapter, so there are no notes. Two threads may both build it.
        self._adapter, _ = _build(self._types)
        return self._adapter

    def _refuse(self, error: Exception, origin: str) -> NoReturn:
        from nottwice.guard.plain_data.typed_form import explain

        path, text = explain(error, root="")
        path = path.removeprefix(".")
        name = path.partition(".")[0].partition("[")[0]
        what = f"the {origin}argument {path!r} does not fit" if path else "they cannot be validated"
        # Without the cause, which would print the values: one of them may be a secret.
        raise InvalidArguments(
            f"Tool {self._tool!r} was not run, because of its arguments: {what}: {text}. "
            "Pass what its signature asks for.",
            tool=self._tool,
            parameter=name or None,
            path=path or None,
            why=f"{what}: {text}",
        ) from None


def _scalars(types: Mapping[str, Any]) -> dict[str, tuple[Any, ...] | None] | None:
    """Return the types that each parameter takes, if all are scalars; None stands for any type."""
    found: dict[str, tuple[Any, ...] | None] = {}
    for name, annotation in types.items():
        if annotation is Any:
            found[name] = None
            continue
        is_union = typing.get_origin(annotation) in (typing.Union, UnionType)
        kinds = typing.get_args(annotation) if is_union else (annotation,)
        if not all(any(kind is scalar for scalar in _SCALARS) for kind in kinds):
            return None
        found[name] = kinds
    return found


def _build(types: Mapping[str, Any]) -> tuple[TypeAdapter[Any], tuple[str, ...]]:
    from nottwice.guard.plain_data.typed_form import build_adapter

    try:
        return _adapt(types), ()
    except Exception as error:
        reason = str(error).partition("\n")[0]
    usable: dict[str, Any] = {}
    notes: list[str] = []
    for name, annotation in types.items():
        _, note = build_adapter(annotation)
        usable[name] = annotation if note is None else Any
        if note is not None:
            notes.append(f"parameter {name!r}: {note}")
    try:
        return _adapt(usable), tuple(notes)
    except Exception:
        notes.append(f"no annotation can be used: {reason}")
        return _adapt(dict.fromkeys(types, Any)), tuple(notes)


def _adapt(types: Mapping[str, Any]) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter
    from typing_extensions import TypedDict

    from nottwice.guard.plain_data.typed_dicts import readable
    from nottwice.guard.plain_data.typed_form import names_code

    # Not a model class: its attributes (`json`, `copy`) and its rule about a leading underscore
    # would forbid valid parameter names.
    make_typed_dict: Any = TypedDict
    readable_types = {name: readable(annotation) for name, annotation in types.items()}
    arguments = make_typed_dict("Arguments", readable_types, total=False)
    # Parameters go by their names, even if a field declares an alias for its schema.
    arguments.__pydantic_config__ = ConfigDict(arbitrary_types_allowed=True, populate_by_name=True)
    adapter: TypeAdapter[Any] = TypeAdapter(arguments)
    if names_code(adapter):
        raise ValueError("an annotation imports what a text names")
    return adapter


def _only(checked: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Drop what a `Field(default=…)` in an annotation added: the function has its own default."""
    return {name: value for name, value in checked.items() if name in given}
