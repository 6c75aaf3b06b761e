"""What certainly is no result of a tool is refused, and nothing else. (P222)"""

from __future__ import annotations

from typing import Any

import pytest

from nottwice.model.tools.result_schema import misfit

POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (None, object()),
        ({}, "anything"),
        (POINT, {"x": 1, "more": 2}),
        (POINT, {"x": 1.0}),
        ({"type": "number"}, 1),
        ({"type": ["string", "null"]}, None),
        ({"anyOf": [{"type": "null"}, POINT]}, None),
        ({"anyOf": [{"type": "null"}, POINT]}, {"x": 2}),
        ({"$ref": "#/$defs/P", "$defs": {"P": POINT}}, {"x": 1}),
        ({"$ref": "elsewhere"}, 3),
        ({"type": "a kind of the future"}, 3),
        ({"enum": ["a", "b"]}, "b"),
        ({"type": "object", "additionalProperties": False}, {"a": "b"}),
    ],
)
def test_what_fits_or_is_not_understood_is_accepted(schema: Any, value: Any) -> None:
    assert misfit(schema, value) is None


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"type": "string"}, 1, "the result is int, and must be string"),
        ({"type": "integer"}, True, "must be integer"),
        ({"type": "integer"}, 1.5, "must be integer"),
        (POINT, {}, "has no 'x'"),
        (POINT, {"x": "1"}, "the result['x'] is str"),
        ({"type": "array", "items": POINT}, [{"x": 1}, 3], "the result[1] is int"),
        ({"anyOf": [{"type": "null"}, POINT]}, 3, "must be"),
        ({"$ref": "#/$defs/P", "$defs": {"P": POINT}}, [], "must be object"),
        ({"enum": ["a", "b"]}, "c", "must be one of"),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"a": "b"},
            "['a'] is str",
        ),
    ],
)
def test_what_certainly_does_not_fit_is_named_with_its_place(
    schema: Any, value: Any, said: str
) -> None:
    found = misfit(schema, value)
    assert found is not None
    assert said in found


def test_a_schema_that_contains_itself_ends() -> None:
    tree = {"$ref": "#/$defs/T", "$defs": {"T": {"$ref": "#/$defs/T"}}}
    assert misfit(tree, 1) is None
