"""Can this be the result of a tool? Checked against the recorded JSON schema, without its code.

The check is careful in one direction only: it refuses what certainly does not fit. What it does not
understand, it accepts, because the run checks the result again with the tool's own annotations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MOST_DEPTH = 50
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def misfit(schema: Any, value: Any) -> str | None:
    """Say what does not fit, and where. None: nothing that this check understands."""
    whole = schema if isinstance(schema, Mapping) else {}
    return _misfit(schema, value, whole, "the result", 0)


def _misfit(
    schema: Any, value: Any, whole: Mapping[str, Any], where: str, depth: int
) -> str | None:
    if not isinstance(schema, Mapping) or depth > _MOST_DEPTH:
        return None
    if "$ref" in schema:
        return _misfit(_found(schema["$ref"], whole), value, whole, where, depth + 1)
    choices = schema.get("anyOf")
    if isinstance(choices, list):
        said = [_misfit(choice, value, whole, where, depth + 1) for choice in choices]
        return None if None in said or not said else said[0]
    kinds = schema.get("type")
    names = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    if names and all(name in _TYPES for name in names):
        if not any(_is_of(value, name) for name in names):
            return f"{where} is {type(value).__name__}, and must be {' or '.join(names)}"
    options = schema.get("enum")
    if isinstance(options, list) and value not in options:
        return f"{where} must be one of {options!r}"
    if isinstance(value, dict):
        return _misfit_inside(schema, value, whole, where, depth)
    if isinstance(value, list):
        for number, item in enumerate(value):
            said_of = _misfit(schema.get("items"), item, whole, f"{where}[{number}]", depth + 1)
            if said_of is not None:
                return said_of
    return None


def _misfit_inside(
    schema: Mapping[str, Any],
    value: dict[str, Any],
    whole: Mapping[str, Any],
    where: str,
    depth: int,
) -> str | None:
    required = schema.get("required")
    missing = [one for one in required if one not in value] if isinstance(required, list) else []
    if missing:
        return f"{where} has no {missing[0]!r}"
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    for name, inner in value.items():
        wanted = known.get(name, schema.get("additionalProperties"))
        said = _misfit(wanted, inner, whole, f"{where}[{name!r}]", depth + 1)
        if said is not None:
            return said
    return None


def _is_of(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _found(reference: Any, whole: Mapping[str, Any]) -> Any:
    """What ``#/$defs/Name`` refers to; None if it is something else."""
    found: Any = whole
    steps = str(reference).removeprefix("#/").split("/")
    for step in steps:
        found = found.get(step) if isinstance(found, Mapping) else None
    return found
