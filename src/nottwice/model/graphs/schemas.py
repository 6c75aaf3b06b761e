"""What does a change of a JSON schema mean for data that was written under the old one?

Titles and descriptions do not count, and references are resolved, because versions of a library
spell the same type differently.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

from nottwice.model import values
from nottwice.model.data.records import frozen_record

_WORDS_ONLY = ("title", "description", "examples", "$defs", "deprecated")
_MOST_DEPTH = 32


class Fit(enum.Enum):
    """Whether old data still fits."""

    SAME = "same"
    WIDER = "wider"
    NARROWER = "narrower"


@frozen_record(frozen=True, slots=True)
class FieldChange:
    """What happened to one field of an object."""

    field: str
    what: str
    """As a person would say it: ``added``, ``removed``, ``is required now``…"""
    fit: Fit
    changes_default: bool = False
    """Data that leaves the field out now means something else, or is spelled differently."""


def normal(schema: Any) -> Any:
    """Return the schema with its references resolved, without titles and descriptions."""
    definitions = schema.get("$defs") if isinstance(schema, dict) else None
    return _normal(schema, definitions if isinstance(definitions, dict) else {}, ())


def _normal(schema: Any, definitions: Any, within: tuple[str, ...]) -> Any:
    if isinstance(schema, list):
        return [_normal(each, definitions, within) for each in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        if name in within or len(within) > _MOST_DEPTH or name not in definitions:
            # A type that contains itself is represented by its name.
            return {"$ref": name}
        return _normal(definitions[name], definitions, (*within, name))
    shown: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "patternProperties") and isinstance(value, dict):
            # Here the keys are field names, and a field may be called "title".
            shown[key] = {name: _normal(each, definitions, within) for name, each in value.items()}
        elif key == "required":
            shown[key] = sorted(_names(value))
        elif key not in _WORDS_ONLY:
            shown[key] = _normal(value, definitions, within)
    return shown


def compare(old: Any, new: Any) -> Fit:
    """Whether data that fitted the old schema fits the new one, as far as that can be decided."""
    old, new = normal(old), normal(new)
    if same(old, new):
        return Fit.SAME
    if new in (None, {}, True):
        return Fit.WIDER
    if old in (None, {}, True):
        return Fit.NARROWER
    if _is_object(old) and _is_object(new):
        fits = {change.fit for change in _field_changes(old, new)}
        rest = same(_without_fields(old), _without_fields(new))
        if rest and Fit.NARROWER not in fits:
            return Fit.WIDER
        return Fit.NARROWER
    alternatives, wanted = _alternatives(new) or [], _alternatives(old) or [old]
    if alternatives and all(any(_fits(one, each) for each in alternatives) for one in wanted):
        return Fit.WIDER
    return Fit.NARROWER


def field_changes(old: Any, new: Any) -> tuple[FieldChange, ...]:
    """Return what happened to each field. Empty unless both are objects with fields."""
    old, new = normal(old), normal(new)
    if not (_is_object(old) and _is_object(new)):
        return ()
    return tuple(_field_changes(old, new))


def _field_changes(old: dict[str, Any], new: dict[str, Any]) -> Iterator[FieldChange]:
    before, after = old["properties"], new["properties"]
    was_needed, needed = _names(old.get("required")), _names(new.get("required"))
    for name in sorted(before.keys() - after.keys()):
        yield FieldChange(name, "was removed", Fit.NARROWER)
    for name in sorted(after.keys() - before.keys()):
        if name in needed:
            yield FieldChange(name, "was added and is required", Fit.NARROWER)
        else:
            yield FieldChange(name, "was added, optional", Fit.WIDER)
    for name in sorted(before.keys() & after.keys()):
        if name in needed - was_needed:
            yield FieldChange(name, "is required now", Fit.NARROWER)
        fit = compare(_without_default(before[name]), _without_default(after[name]))
        optional_now = name in was_needed - needed
        moved = optional_now or not same(_default(before[name]), _default(after[name]))
        if fit is Fit.NARROWER:
            yield FieldChange(name, "has another type", fit, changes_default=moved)
        elif fit is Fit.WIDER:
            yield FieldChange(name, "allows more", fit, changes_default=moved)
        elif optional_now:
            yield FieldChange(name, "is optional now", Fit.WIDER, changes_default=moved)
        elif moved:
            yield FieldChange(name, "has another default", Fit.WIDER, changes_default=moved)


def same(one: Any, other: Any) -> bool:
    """Whether two plain values are equal, whatever the order of their keys."""
    return values.canonical(one) == values.canonical(other)


def _fits(old: Any, new: Any) -> bool:
    return compare(old, new) is not Fit.NARROWER


def _names(required: Any) -> set[str]:
    """Return the names in a list. Anything in it that is not a name requires nothing."""
    found = required if isinstance(required, list) else []
    return {name for name in found if isinstance(name, str)}


def _alternatives(schema: Any) -> list[Any] | None:
    found = schema.get("anyOf") if isinstance(schema, dict) else None
    return found if isinstance(found, list) else None


def _is_object(schema: Any) -> bool:
    return isinstance(schema, dict) and isinstance(schema.get("properties"), dict)


def _without_fields(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: schema[key] for key in schema if key not in ("properties", "required")}


def _default(schema: Any) -> list[Any]:
    """Return the default in a list. Empty if there is none, which differs from the default null."""
    return [schema["default"]] if isinstance(schema, dict) and "default" in schema else []


def _without_default(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    return {key: value for key, value in schema.items() if key != "default"}
