"""Does a form ask for what a schema says, and read what a person typed?"""

from __future__ import annotations

from typing import Any

import pytest

from nottwice.errors import UsageError
from nottwice.model.tools.result_schema import misfit
from nottwice.views.people.forms import form_of, read_form

MAIL = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "of the mail"},
        "words": {"type": "integer"},
        "sent": {"type": "boolean"},
        "price": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "kind": {"$ref": "#/$defs/Kind"},
        "parts": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["id", "price"],
    "$defs": {"Kind": {"enum": ["a", "b"], "type": "string"}},
}


def test_an_object_becomes_a_field_for_each_property() -> None:
    form = form_of(MAIL)
    assert form.is_object
    kinds = {one.name: (one.kind, one.required, one.nullable) for one in form.fields}
    assert kinds == {
        "id": ("text", True, False),
        "words": ("integer", False, False),
        "sent": ("yes or no", False, False),
        "price": ("number", True, True),
        "kind": ("choice", False, False),
        "parts": ("json", False, False),
    }
    assert {one.name: one.options for one in form.fields if one.options} == {
        "sent": ("true", "false"),
        "kind": ('"a"', '"b"'),
    }
    assert form.fields[0].hint == "of the mail"


def test_what_was_typed_fits_the_schema() -> None:
    given = {"id": "m-1\r\nx", "words": " 3 ", "sent": "true", "kind": '"b"', "parts": '["p"]'}
    value = read_form(form_of(MAIL), given)
    assert value == {
        "id": "m-1\nx",
        "words": 3,
        "sent": True,
        "price": None,
        "kind": "b",
        "parts": ["p"],
    }
    assert misfit(MAIL, value) is None
    # What may be missing and is empty is left out, so that the code's own default counts.
    assert read_form(form_of(MAIL), {"id": "m", "price": "2.5"}) == {"id": "m", "price": 2.5}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "The field 'id' is empty"),
        ({"id": "  "}, "The field 'id' is empty"),
        ({"id": "m", "words": "2.5"}, "must be a whole number"),
        ({"id": "m", "words": "true"}, "must be a number"),
        ({"id": "m", "words": "many"}, "is not JSON"),
        ({"id": "m", "price": "NaN"}, "JSON cannot write"),
        ({"id": "m", "parts": "[" * 100_000}, "is not JSON"),
    ],
)
def test_what_is_missing_or_odd_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_form(form_of(MAIL), given)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "true", "true"),
        ({"type": "integer"}, "7", 7),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "", None),
        (None, '{"any": 1}', {"any": 1}),
        ({}, "[1]", [1]),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, '"7"', "7"),
        ({"type": "array"}, "[]", []),
        ({"$ref": "#/$defs/Gone"}, "1", 1),
        ({"type": "object"}, "{}", {}),
    ],
)
def test_a_value_that_is_not_an_object_has_one_field(schema: Any, text: str, value: Any) -> None:
    form = form_of(schema)
    assert (len(form.fields), form.is_object) == (1, False)
    assert read_form(form, {"": text}) == value


def test_a_tool_that_returns_nothing_has_no_field() -> None:
    form = form_of({"type": "null"})
    assert form.fields == ()
    assert read_form(form, {}) is None


def test_the_whole_value_may_be_given_as_json() -> None:
    assert read_form(form_of(MAIL), {"id": "m"}, as_json=' {"id": ""} ') == {"id": ""}
    with pytest.raises(UsageError, match="The value is not JSON"):
        read_form(form_of(MAIL), {}, as_json="{")


def test_a_schema_that_refers_to_itself_ends() -> None:
    assert form_of({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}).fields
    assert form_of(None, suggested={"usd": 2}).suggested == '{"usd":2}'
