"""Arguments are validated as agent frameworks do it, all in one step, whatever they are called."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ImportString,
    SecretStr,
    TypeAdapter,
    ValidationError,
)

from nottwice.errors import InvalidArguments
from nottwice.guard.arguments.validation import Validator


def test_validation_is_lax() -> None:
    validator = Validator({"count": int, "day": date, "path": Path, "flag": bool}, tool="t")
    checked = validator.check({"count": "7", "day": "2026-01-01", "path": "a/b", "flag": "yes"})
    assert checked == {"count": 7, "day": date(2026, 1, 1), "path": Path("a/b"), "flag": True}


def test_every_python_name_can_be_a_parameter() -> None:
    names = ["json", "copy", "_x", "__y", "model_config", "self", "args", "kwargs", "schema", "ü"]
    validator = Validator(dict.fromkeys(names, int), tool="t")
    assert validator.check(dict.fromkeys(names, "1")) == dict.fromkeys(names, 1)
    assert validator.notes == ()


def test_only_what_was_given_is_validated_and_returned() -> None:
    types = {"a": int, "b": Annotated[int, Field(default=5)], "c": Annotated[int, Field(alias="x")]}
    validator = Validator(types, tool="t")
    assert validator.check({"a": 1}) == {"a": 1}
    assert validator.check({"c": "3"}) == {"c": 3}


def test_an_error_names_tool_parameter_path_and_type_but_not_the_value() -> None:
    class Order(BaseModel):
        lines: list[dict[str, int]]

    validator = Validator({"order": Order}, tool="place")
    with pytest.raises(InvalidArguments) as caught:
        validator.check({"order": {"lines": [{"a": 1}, {"b c": "hunter2"}]}})
    facts = dict(caught.value.facts)
    why = facts.pop("why")
    assert "does not fit" in why
    assert "hunter2" not in why
    assert facts == {
        "tool": "place",
        "parameter": "order",
        "path": 'order.lines[1]["b c"]',
    }
    assert "Tool 'place' was not run" in caught.value.message
    assert "(got str)" in caught.value.message
    assert "hunter2" not in caught.value.message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_several_faults_are_counted() -> None:
    with pytest.raises(InvalidArguments, match="and 1 more"):
        Validator({"a": int, "b": int}, tool="t").check({"a": "x", "b": "y"})


def test_a_validator_that_crashes_is_an_error_of_the_arguments() -> None:
    def crash(value: Any) -> Any:
        raise KeyError("lost")

    validator = Validator({"a": Annotated[int, AfterValidator(crash)]}, tool="t")
    with pytest.raises(InvalidArguments, match="KeyError"):
        validator.check({"a": 1})


def test_a_class_that_pydantic_does_not_know_is_checked_by_instance() -> None:
    class Client: ...

    client = Client()
    validator = Validator({"client": Client}, tool="t")
    assert validator.check({"client": client}) == {"client": client}
    with pytest.raises(InvalidArguments, match="client"):
        validator.check({"client": 1})


def test_an_unusable_annotation_is_noted_and_spoils_no_other() -> None:
    validator = Validator({"bad": 5, "good": int}, tool="t")
    assert validator.check({"bad": "x", "good": "1"}) == {"bad": "x", "good": 1}
    assert len(validator.notes) == 1
    assert "'bad'" in validator.notes[0]


def test_no_argument_imports_code_by_name() -> None:
    class Job(BaseModel):
        handler: ImportString  # type: ignore[type-arg]

    validator = Validator({"direct": ImportString, "job": Job, "count": int}, tool="t")
    given = {"direct": "os.getcwd", "job": {"handler": "os.getcwd"}, "count": "1"}
    assert validator.check(given) == {**given, "count": 1}
    assert len(validator.notes) == 2


def test_recorded_data_is_read_as_json_where_a_model_is_strict() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        day: date

    validator = Validator({"order": Strict}, tool="t")
    record = {"order": {"day": "2026-01-01"}}
    assert validator.check_recorded(record) == {"order": Strict(day=date(2026, 1, 1))}
    with pytest.raises(InvalidArguments, match=r"recorded argument 'order\.day'"):
        validator.check_recorded({"order": {"day": "never"}})


def test_a_secret_stays_a_secret() -> None:
    checked = Validator({"token": SecretStr}, tool="t").check({"token": "hunter2"})
    assert checked == {"token": SecretStr("hunter2")}


SCALARS: list[Any] = [str, int, float, bool, type(None), Any, str | None, int | float, bool | int]
VALUES: list[Any] = ["", "7", "\ud800", "ü", 0, 7, 10**30, 1.5, float("inf"), True, False, None]


class Name(str):
    """A text that is more than a text."""


@pytest.mark.parametrize("annotation", SCALARS, ids=str)
@pytest.mark.parametrize("value", [*VALUES, Name("x"), b"x", [1]], ids=ascii)
def test_a_scalar_means_what_pydantic_says_it_means(annotation: Any, value: Any) -> None:
    """P226: a scalar of the right type is taken as it is, and anything else is validated."""
    validator = Validator({"a": annotation}, tool="t")
    try:
        expected: Any = TypeAdapter(annotation).validate_python(value)
    except ValidationError:
        with pytest.raises(InvalidArguments, match=r"'a.* does not fit"):
            validator.check({"a": value})
        return
    found = validator.check({"a": value})["a"]
    assert (type(found), found) == (type(expected), expected)


def test_scalars_come_in_the_order_of_the_signature_and_only_what_was_given() -> None:
    validator = Validator({"a": int, "b": str | None, "c": Any}, tool="t")
    given = {"c": [1], "a": 1}
    found = validator.check(given)
    assert list(found.items()) == [("a", 1), ("c", [1])]
    assert found is not given
    assert validator.check_recorded({"b": None, "a": 2}) == {"a": 2, "b": None}
