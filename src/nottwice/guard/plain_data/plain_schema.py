"""What is the JSON schema of an annotation that needs no classes? Answered without pydantic (P226).

It is what pydantic would say. A tool on record has a schema, and most tools return a dict: loading
pydantic for that would more than double the time until the first call.
"""

from __future__ import annotations

import types
import typing
from typing import Any

_SCALARS: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    None: "null",
    type(None): "null",
}


def plain_schema(annotation: Any) -> dict[str, Any] | None:
    """The schema of scalars, lists, dicts and unions of these; None: pydantic must be asked."""
    if annotation is Any:
        return {}
    try:
        scalar = _SCALARS.get(annotation)
    except TypeError:
        # An annotation with a part that cannot be hashed.
        return None
    if scalar is not None:
        return {"type": scalar}
    if annotation is list:
        return {"items": {}, "type": "array"}
    if annotation is dict:
        return {"additionalProperties": True, "type": "object"}
    return _generic(typing.get_origin(annotation), typing.get_args(annotation))


def _generic(origin: Any, parts: tuple[Any, ...]) -> dict[str, Any] | None:
    schemas = [plain_schema(part) for part in parts]
    known = [schema for schema in schemas if schema is not None]
    if len(known) < len(schemas):
        return None
    if origin is list:
        return {"items": known[0], "type": "array"}
    if origin is dict and parts[0] is str:
        values = True if parts[1] is Any else known[1]
        return {"additionalProperties": values, "type": "object"}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": known}
    return None
