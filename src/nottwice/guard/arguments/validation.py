"""Do a call's arguments fit their annotations, and which values do they mean?

All parameters of a tool are validated in one step, because this happens in every call. Validation
is lax, as in the frameworks that agents use: `"7"` is the integer 7 and `"2026-01-01"` a date. An
annotation that cannot be used counts as missing, with a note. It never affects the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from nottwice.errors import InvalidArguments
from nottwice.guard.plain_data.codec import build_adapter, explain, names_code, restore

# Parameters go by their names, even if a field declares an alias for its schema.
_CONFIG = ConfigDict(arbitrary_types_allowed=True, populate_by_name=True)
_make_typed_dict: Any = TypedDict


class Validator:
    """Validates the arguments of one tool, by the names and types of its parameters."""

    def __init__(self, types: Mapping[str, Any], *, tool: str) -> None:
        self._tool = tool
        self._adapter, self.notes = _build(types)
        self._validate = self._adapter.validator.validate_python

    def check(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the validated values of the arguments; InvalidArguments names the first fault."""
        try:
            checked: dict[str, Any] = self._validate(given)
        except Exception as error:
            self._refuse(error, "")
        return checked if len(checked) == len(given) else _only(checked, given)

    def check_recorded(self, given: dict[str, Any]) -> dict[str, Any]:
        """Like `check`, for plain data from the ledger."""
        try:
            checked: dict[str, Any] = restore(self._adapter, given)
        except Exception as error:
            self._refuse(error, "recorded ")
        return checked if len(checked) == len(given) else _only(checked, given)

    def _refuse(self, error: Exception, origin: str) -> NoReturn:
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


def _build(types: Mapping[str, Any]) -> tuple[TypeAdapter[Any], tuple[str, ...]]:
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
    # Not a model class: its attributes (`json`, `copy`) and its rule about a leading underscore
    # would forbid valid parameter names.
    arguments = _make_typed_dict("Arguments", dict(types), total=False)
    arguments.__pydantic_config__ = _CONFIG
    adapter: TypeAdapter[Any] = TypeAdapter(arguments)
    if names_code(adapter):
        raise ValueError("an annotation imports what a text names")
    return adapter


def _only(checked: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Drop what a `Field(default=…)` in an annotation added: the function has its own default."""
    return {name: value for name, value in checked.items() if name in given}
