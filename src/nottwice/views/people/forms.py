"""How does a person without the code type a result? A form, made from the schema on record.

A form is a list of fields. What cannot be a field, such as a list inside of a result, is typed as
JSON. Promise kept here: P324.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from nottwice.errors import UsageError
from nottwice.model import values
from nottwice.model.data.records import frozen_record

FieldKind = Literal["text", "integer", "number", "yes or no", "choice", "json"]
_NOTHING = "Nothing was recorded."
_KINDS: dict[str, FieldKind] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "yes or no",
}
_ALONE = ""
"""The name of the only field of a value that is not an object."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class FieldView:
    """One field of a form."""

    name: Annotated[str, "the name of the property; empty if the value is not an object"]
    kind: Annotated[FieldKind, "text, integer, number, yes or no, choice, or json"]
    required: Annotated[bool, "whether the value must have it"]
    nullable: Annotated[bool, "whether it may be null"]
    options: Annotated[tuple[str, ...], "what can be chosen, as JSON; empty unless it is a choice"]
    hint: Annotated[str, "what the schema says about it; may be empty"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class FormView:
    """The fields that make up one value."""

    fields: Annotated[tuple[FieldView, ...], "its fields, in order; empty: the value is null"]
    is_object: Annotated[bool, "whether the fields are the properties of an object"]
    suggested: Annotated[str | None, "the value to begin with, as JSON, or null"]


def form_of(schema: Any, *, suggested: Any = None) -> FormView:
    """The form for a value that fits a JSON schema; None means that anything fits."""
    whole = schema if isinstance(schema, Mapping) else {}
    known, _ = _resolved(whole, whole)
    begin = None if suggested is None else values.encode(suggested)
    properties = known.get("properties")
    if known.get("type") == "null":
        return FormView(fields=(), is_object=False, suggested=begin)
    if known.get("type") == "object" and isinstance(properties, Mapping) and properties:
        required = known.get("required")
        needed = required if isinstance(required, list) else []
        fields = tuple(
            _field(str(name), inner, whole, required=name in needed)
            for name, inner in properties.items()
        )
        return FormView(fields=fields, is_object=True, suggested=begin)
    alone = _field(_ALONE, whole, whole, required=True)
    return FormView(fields=(alone,), is_object=False, suggested=begin)


def read_form(form: FormView, given: Mapping[str, str], *, as_json: str = "") -> Any:
    """The value that a person has typed, by the names of fields; UsageError if a part is missing.

    ``as_json``: the whole value as JSON, which then counts instead of the fields.
    """
    if as_json.strip():
        return _parsed(as_json, "The value")
    if not form.fields:
        return None
    if not form.is_object:
        return _read_field(form.fields[0], given.get(_ALONE, ""), "The value")
    found: dict[str, Any] = {}
    for field in form.fields:
        text = given.get(field.name, "")
        if not text.strip() and not field.required:
            continue
        found[field.name] = _read_field(field, text, f"The field {field.name!r}")
    return found


def _read_field(field: FieldView, text: str, what: str) -> Any:
    stripped = text.strip()
    if not stripped:
        if field.nullable:
            return None
        raise UsageError(
            f"{what} is empty. {_NOTHING} Fill it in. If it really is empty text, write the "
            'whole value as JSON, with "".'
        )
    match field.kind:
        case "text":
            return text.replace("\r\n", "\n")
        case "integer" | "number":
            return _number(field.kind, stripped, what)
        case _:
            return _parsed(stripped, what)


def _number(kind: str, text: str, what: str) -> int | float:
    found = _parsed(text, what)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise UsageError(f"{what} must be a number, not {text[:80]!r}. {_NOTHING}")
    if kind == "integer" and not isinstance(found, int):
        raise UsageError(f"{what} must be a whole number, not {text[:80]!r}. {_NOTHING}")
    return found


def _parsed(text: str, what: str) -> Any:
    try:
        return values.decode(values.encode(json.loads(text)))
    except (ValueError, RecursionError):
        raise UsageError(
            f'{what} is not JSON: {text[:80]!r}. {_NOTHING} Text has quotes in JSON: "re_7"'
        ) from None


def _field(name: str, schema: Any, whole: Mapping[str, Any], *, required: bool) -> FieldView:
    known, nullable = _resolved(schema if isinstance(schema, Mapping) else {}, whole)
    options = known.get("enum")
    kind: FieldKind = _KINDS.get(str(known.get("type")), "json")
    chosen: tuple[str, ...] = ()
    if isinstance(options, list) and options:
        kind, chosen = "choice", tuple(values.encode(one) for one in options)
    elif kind == "yes or no":
        chosen = ("true", "false")
    hint = known.get("description") or ""
    return FieldView(
        name=name,
        kind=kind,
        required=required,
        nullable=nullable,
        options=chosen,
        hint=hint if isinstance(hint, str) else "",
    )


def _resolved(
    schema: Mapping[str, Any], whole: Mapping[str, Any]
) -> tuple[Mapping[str, Any], bool]:
    """The schema behind references and behind "or null", and whether it may be null."""
    nullable = False
    for _ in range(10):
        reference, choices = schema.get("$ref"), schema.get("anyOf")
        if isinstance(reference, str):
            schema = _found(reference, whole)
        elif isinstance(choices, list):
            rest = [one for one in choices if isinstance(one, Mapping)]
            others = [one for one in rest if one.get("type") != "null"]
            nullable = nullable or len(others) < len(rest)
            if len(others) != 1:
                return {}, nullable
            schema = others[0]
        else:
            return schema, nullable
    return {}, nullable


def _found(reference: str, whole: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = whole
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
