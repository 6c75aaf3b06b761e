"""Annotations are looked up late, one by one, and a bad one spoils no other."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest

from nottwice.guard.arguments.annotations import (
    RETURN,
    Annotations,
    capture_local_names,
    describe,
    read_into_lists,
    read_signature,
    resolve,
)


def look_up(function: Callable[..., Any]) -> Annotations:
    signature = read_signature(function)
    return resolve(function, signature, local_names=capture_local_names(function, signature))


def test_text_is_looked_up_in_the_module_of_the_function() -> None:
    def tool(day: date, count: int, free) -> list[date]:  # type: ignore[no-untyped-def]
        return [day] * count

    assert look_up(tool).types == {"day": date, "count": int, RETURN: list[date]}


def test_a_class_that_is_defined_later_in_the_module_is_found_when_it_is_needed() -> None:
    assert look_up(_uses_a_later_class).types["order"] is _Later


def _uses_a_later_class(order: _Later) -> None: ...


@dataclass
class _Later:
    number: int


def test_a_local_class_is_found_after_its_function_has_returned() -> None:
    def declare() -> tuple[type, Callable[[], Annotations]]:
        @dataclass
        class Order:
            number: int

        def tool(order: Order, orders: list[Order]) -> None: ...

        signature = read_signature(tool)
        names = capture_local_names(tool, signature)
        return Order, lambda: resolve(tool, signature, local_names=names)

    order, look_up_later = declare()
    assert look_up_later().types == {"order": order, "orders": list[order], RETURN: type(None)}  # type: ignore[valid-type]


def test_a_local_class_of_an_outer_function_is_found() -> None:
    class Order: ...

    def declare() -> Annotations:
        def tool(order: Order) -> None: ...

        return look_up(tool)

    assert declare().types["order"] is Order


def test_a_local_class_hides_one_of_the_module() -> None:
    class _Later: ...

    def tool(order: _Later) -> None: ...

    assert look_up(tool).types["order"] is _Later


def test_a_local_class_that_is_defined_later_is_found_if_the_function_uses_it() -> None:
    def tool(order: Order) -> bool:
        return isinstance(order, Order)

    signature = read_signature(tool)
    names = capture_local_names(tool, signature)

    class Order: ...

    assert resolve(tool, signature, local_names=names).types["order"] is Order


def test_only_names_that_annotations_use_are_kept_alive() -> None:
    class Order: ...

    unrelated = object()

    def tool(order: Order, count: int) -> None: ...

    assert capture_local_names(tool, read_signature(tool)) == {"Order": Order}
    assert unrelated is not None


def test_a_name_of_the_caller_is_not_taken_for_a_name_of_the_definition() -> None:
    tool = _declare_with_a_missing_name()

    class Missing: ...

    assert "order" not in look_up(tool).types
    assert Missing is not None


def test_a_function_of_the_same_name_in_another_file_is_not_searched(tmp_path: Path) -> None:
    file = tmp_path / "other.py"
    file.write_text(
        "def _declare_with_a_missing_name(callback):\n    Missing = int\n    return callback()\n"
    )
    spec = importlib.util.spec_from_file_location("other", file)
    assert spec is not None
    assert spec.loader is not None
    other = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(other)
    tool = _declare_with_a_missing_name()
    found = other._declare_with_a_missing_name(
        lambda: capture_local_names(tool, read_signature(tool))
    )
    assert found == {}


def _declare_with_a_missing_name() -> Callable[..., None]:
    def tool(order: object) -> None: ...

    tool.__annotations__["order"] = "Missing"
    return tool


def test_what_cannot_be_looked_up_is_noted_and_spoils_no_other() -> None:
    def tool(first: object, second: int, third: object) -> None: ...

    tool.__annotations__.update(first="Missing", third="a description", **{"return": "Gone"})
    found = look_up(tool)
    assert found.types == {"second": int}
    assert len(found.notes) == 3
    assert "'Missing'" in found.notes[0]
    assert "'first'" in found.notes[0]
    assert "the result" in found.notes[2]


def test_wrapped_partial_and_callable_objects_are_looked_up_where_they_were_written() -> None:
    @functools.wraps(_uses_a_later_class)
    def wrapped(*args: Any) -> None: ...

    class Caller:
        def __call__(self, order: _Later) -> None: ...

        def method(self, order: _Later) -> None: ...

    for function in (
        wrapped,
        functools.partial(_uses_a_later_class),
        functools.partial(wrapped),
        Caller(),
        Caller().method,
    ):
        assert look_up(function).types["order"] is _Later


def test_a_function_written_in_c_has_no_annotations_and_no_error() -> None:
    assert look_up(len).types == {}


def test_iterables_are_read_into_lists_wherever_they_stand() -> None:
    assert read_into_lists(Iterable) is list
    assert read_into_lists(Iterable[int]) == list[int]
    assert read_into_lists(Iterable[int] | None) == list[int] | None
    assert read_into_lists(Annotated[Iterable[int], "why"]) == Annotated[list[int], "why"]
    assert read_into_lists(dict[str, int]) == dict[str, int]


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (int, "int"),
        (None, "None"),
        (Any, "Any"),
        (Optional[_Later], "_Later | None"),  # noqa: UP045
        (dict[str, date | None], "dict[str, date | None]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Callable[[int], str], "Callable[[int], str]"),
        (Literal["a", 1], "Literal['a', 1]"),
        (Annotated[int, lambda: 1], "int"),
        (5, "5"),
    ],
)
def test_a_description_holds_no_module_and_no_address(annotation: Any, text: str) -> None:
    assert describe(annotation) == text


def test_a_local_class_is_described_by_its_own_name() -> None:
    class Order: ...

    assert describe(list[Order]) == "list[Order]"
