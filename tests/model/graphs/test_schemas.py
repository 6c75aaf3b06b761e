"""Does data that was written under the old schema fit the new one?"""

from __future__ import annotations

from typing import Any

import pytest

from nottwice.model.graphs.schemas import Fit, compare, field_changes, normal

NUMBER: dict[str, Any] = {"type": "integer"}
TEXT: dict[str, Any] = {"type": "string"}
NULL: dict[str, Any] = {"type": "null"}


def thing(*required: str, **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(required)}


@pytest.mark.parametrize(
    ("old", "new", "fit"),
    [
        (None, None, Fit.SAME),
        (None, NUMBER, Fit.NARROWER),
        (NUMBER, None, Fit.WIDER),
        (NUMBER, {}, Fit.WIDER),
        (NUMBER, TEXT, Fit.NARROWER),
        (NUMBER, {**NUMBER, "title": "Count", "description": "of all"}, Fit.SAME),
        (NUMBER, {"anyOf": [NUMBER, NULL]}, Fit.WIDER),
        ({"anyOf": [NUMBER, NULL]}, NUMBER, Fit.NARROWER),
        ({"anyOf": [NUMBER, NULL]}, {"anyOf": [NULL, TEXT, NUMBER]}, Fit.WIDER),
        (thing("a", "b", a=NUMBER, b=TEXT), thing("b", "a", b=TEXT, a=NUMBER), Fit.SAME),
        (thing(a=NUMBER), thing(a=NUMBER, b=TEXT), Fit.WIDER),
        (thing(a=NUMBER), thing("b", a=NUMBER, b=TEXT), Fit.NARROWER),
        (thing(a=NUMBER, b=TEXT), thing(a=NUMBER), Fit.NARROWER),
        (thing(a=NUMBER), thing("a", a=NUMBER), Fit.NARROWER),
        (thing("a", a=NUMBER), thing(a=NUMBER), Fit.WIDER),
        (thing(a=NUMBER), thing(a=TEXT), Fit.NARROWER),
        (thing(a=thing(x=TEXT)), thing(a=thing(x=TEXT, y=TEXT)), Fit.WIDER),
        (thing(a=NUMBER), {**thing(a=NUMBER), "additionalProperties": False}, Fit.NARROWER),
        (thing(a={**NUMBER, "default": 1}), thing(a={**NUMBER, "default": 2}), Fit.WIDER),
    ],
)
def test_whether_old_data_still_fits(old: Any, new: Any, fit: Fit) -> None:
    assert compare(old, new) is fit


def test_a_reference_is_what_it_refers_to_and_a_field_may_be_called_title() -> None:
    inner = {"type": "object", "properties": {"title": TEXT}}
    one = {"$ref": "#/$defs/Inner", "$defs": {"Inner": {**inner, "title": "Inner"}}}
    other = {"$ref": "#/$defs/Renamed", "$defs": {"Renamed": inner}}
    assert normal(one) == inner
    assert compare(one, other) is Fit.SAME


def test_a_type_that_contains_itself_ends() -> None:
    tree = {
        "$defs": {"Tree": thing(left={"$ref": "#/$defs/Tree"})},
        "$ref": "#/$defs/Tree",
    }
    assert normal(tree) == thing(left={"$ref": "Tree"})
    assert compare(tree, tree) is Fit.SAME


def test_every_field_that_changed_is_named() -> None:
    old = thing("kept", kept=NUMBER, gone=TEXT, other=TEXT, more=TEXT)
    new = thing("kept", "hard", kept=NUMBER, other=NUMBER, more={"anyOf": [TEXT, NULL]}, hard=TEXT)
    assert [(each.field, each.what) for each in field_changes(old, new)] == [
        ("gone", "was removed"),
        ("hard", "was added and is required"),
        ("more", "allows more"),
        ("other", "has another type"),
    ]
    assert field_changes(None, new) == ()
