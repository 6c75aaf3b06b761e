"""Arguments are bound to parameters exactly as Python does it; each test compares with Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nottwice.errors import InvalidArguments, InvalidTool
from nottwice.guard.arguments.parameters import Parameters


# Each returns what its parameters got. `inspect` is no oracle: it refuses `hidden(b=1)`.
def nothing() -> Any:
    return locals()


def plain(a: Any, b: Any = 2) -> Any:
    return locals()


def by_position(a: Any, b: Any = 2, /) -> Any:
    return locals()


def mixed(a: Any, /, b: Any, c: Any = 3, *, d: Any, e: Any = 5) -> Any:
    return locals()


def collecting(a: Any, b: Any = 2, *args: Any, c: Any = 3, **kwargs: Any) -> Any:
    return locals()


def hidden(a: Any = 1, b: Any = 2, /, **kwargs: Any) -> Any:
    return locals()


def odd_names(self: Any, args: Any, kwargs: Any, tool: Any, function: Any = 0) -> Any:
    return locals()


FUNCTIONS = [nothing, plain, by_position, mixed, collecting, hidden, odd_names]
NAMES = ["a", "b", "c", "d", "e", "self", "args", "kwargs", "tool", "function"]


def parameters_of(function: Callable[..., Any], *, skip_first: bool = False) -> Parameters:
    return Parameters(inspect.signature(function), tool="tool", skip_first=skip_first)


@given(
    function=st.sampled_from(FUNCTIONS),
    args=st.lists(st.integers(10, 99), max_size=5).map(tuple),
    kwargs=st.dictionaries(st.sampled_from(NAMES), st.integers(10, 99), max_size=5),
)
def test_arguments_are_matched_as_python_matches_them(
    function: Callable[..., Any], args: tuple[int, ...], kwargs: dict[str, int]
) -> None:
    parameters = parameters_of(function)
    try:
        expected = function(*args, **kwargs)
    except TypeError:
        with pytest.raises(InvalidArguments, match="was not run"):
            parameters.assign(args, kwargs)
        return
    assert parameters.apply_defaults(parameters.assign(args, kwargs)) == expected


@given(
    function=st.sampled_from(FUNCTIONS),
    args=st.lists(st.integers(10, 99), max_size=5).map(tuple),
    kwargs=st.dictionaries(st.sampled_from(NAMES), st.integers(10, 99), max_size=5),
    left_out=st.sets(st.sampled_from(NAMES)),
)
def test_a_call_that_is_laid_out_again_means_the_same(
    function: Callable[..., Any],
    args: tuple[int, ...],
    kwargs: dict[str, int],
    left_out: set[str],
) -> None:
    parameters = parameters_of(function)
    try:
        given_values = parameters.assign(args, kwargs)
    except InvalidArguments:
        return
    # Any argument may have been found to equal its default, which leaves a gap in front of others.
    chosen = {
        name: value
        for name, value in given_values.items()
        if name not in left_out or name not in parameters.defaults
    }
    new_args, new_kwargs = parameters.arrange(chosen)
    assert function(*new_args, **new_kwargs) == parameters.apply_defaults(chosen)


def test_what_was_left_out_is_not_passed() -> None:
    assert parameters_of(plain).arrange({"a": 1}) == ((), {"a": 1})
    assert parameters_of(by_position).arrange({"a": 1}) == ((1,), {})


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "text", "parameter"),
    [
        (plain, (1, 2, 3), {}, "at most 2 arguments by position, and 3", None),
        (plain, (1,), {"a": 1}, "'a' was given twice", "a"),
        (plain, (), {"a": 1, "x": 1}, "takes no argument 'x'", "x"),
        (plain, (), {"b": 1}, "no value for 'a', which has no default", "a"),
        (by_position, (), {"a": 1}, "takes no argument 'a' by name", "a"),
        (collecting, (1,), {1: 2}, "takes no argument 1", "1"),
    ],
)
def test_an_error_names_the_tool_the_parameter_and_the_way_out(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[Any, Any],
    text: str,
    parameter: str | None,
) -> None:
    with pytest.raises(InvalidArguments, match=text) as caught:
        parameters_of(function).assign(args, kwargs)
    facts = dict(caught.value.facts)
    assert text in facts.pop("why")
    assert facts == {"tool": "tool", "parameter": parameter, "path": parameter}
    assert "Tool 'tool' was not run" in caught.value.message
    assert "Its parameters are: a, b" in caught.value.message


def test_the_instance_of_a_method_is_no_parameter() -> None:
    class Shop:
        def method(self, a: int) -> None: ...
        def collects(*args: int) -> None: ...
        def bare() -> None: ...  # type: ignore[misc]

    assert list(parameters_of(Shop.method, skip_first=True).by_name) == ["a"]
    assert list(parameters_of(Shop.collects, skip_first=True).by_name) == ["args"]
    with pytest.raises(InvalidTool, match="without a parameter for its instance"):
        parameters_of(Shop.bare, skip_first=True)


def test_a_mutable_default_is_handed_out_as_a_copy() -> None:
    client = object()
    deep = [{"a": 1}]
    odd = {"client": client}

    def tool(deep: Any = deep, odd: Any = odd, some: Any = {1}, **extra: Any) -> None: ...  # noqa: B006

    first = parameters_of(tool).apply_defaults({})
    first["deep"][0]["a"] = 2
    first["odd"]["client"] = None
    first["some"].clear()
    first["extra"]["a"] = 1
    assert parameters_of(tool).apply_defaults({}) == {
        "deep": [{"a": 1}],
        "odd": {"client": client},
        "some": {1},
        "extra": {},
    }
