"""Keys come from the intent: the same for one call, different for two, and fit for any upstream."""

from __future__ import annotations

import copy
import itertools
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nottwice.errors import InvalidKey, InvalidTool
from nottwice.guard.keys import KeyFunction, KeyTemplate, check_key, stable_key


def template(text: Any, *parameters: str, volatile: tuple[str, ...] = ()) -> KeyTemplate:
    names = parameters or ("order_id", "a", "b", "c")
    return KeyTemplate(text, tool="refund", parameters=names, volatile=volatile)


@pytest.mark.parametrize(
    ("text", "values", "key"),
    [
        ("refund-{order_id}", {"order_id": 7}, "refund-7"),
        ("refund-{order_id}", {"order_id": "A-7"}, "refund-A-7"),
        ("refund-{order_id}", {"order_id": 10.0}, "refund-10"),
        ("refund-{order_id}", {"order_id": -0.0}, "refund-0"),
        ("refund-{order_id}", {"order_id": 2**63}, "refund-9223372036854775808"),
        ("{order_id}", {"order_id": "100%"}, "100%"),
        ("{{{order_id}}}", {"order_id": 7}, "{7}"),
        ("{a}-{b}", {"a": "1-2", "b": "3"}, "1%2D2-3"),
        ("{a}-{b}", {"a": "1", "b": "2-3"}, "1-2%2D3"),
        ("{a}-{b}", {"a": -1, "b": "50%"}, "%2D1-50%25"),
        ("pay-{a}-to-{b}", {"a": "total", "b": "x"}, "pay-total-to-x"),
        ("{a}x{b}", {"a": "axe", "b": "1"}, "a%78ex1"),
        ("{a}ü{b}", {"a": "für", "b": "1"}, "f%C3%BCrü1"),
        ("{a}}}{{{b}", {"a": "{}", "b": "1"}, "%7B%7D}{1"),
    ],
)
def test_a_template_gives_the_key_one_expects(text: str, values: dict[str, Any], key: str) -> None:
    assert template(text).render(values) == key


TEXTS = st.text(alphabet="ab-%:2DF7Ax{", max_size=6)
SCALARS = st.one_of(TEXTS, st.integers(-30, 30))
SEPARATORS = st.text(alphabet="-:%2DFxz {}", max_size=3)


@given(
    literals=st.tuples(SEPARATORS, SEPARATORS, SEPARATORS, SEPARATORS),
    one=st.tuples(SCALARS, SCALARS, SCALARS),
    other=st.tuples(SCALARS, SCALARS, SCALARS),
)
@example(literals=("", "-", "-", ""), one=(-1, "", 2), other=("", 1, -2))
@example(literals=("", "2", "2", ""), one=("%", "", ""), other=("", "5", ""))
@example(literals=("", "%-", "-", ""), one=("a%", "b", "c"), other=("a", "%b", "c"))
def test_two_different_intents_never_have_one_key(
    literals: tuple[str, ...], one: tuple[Any, ...], other: tuple[Any, ...]
) -> None:
    first, *rest = [text.replace("{", "{{").replace("}", "}}") for text in literals]
    text = first + "".join(f"{{{name}}}{tail}" for name, tail in zip("abc", rest, strict=True))
    try:
        made = template(text)
        keys = [made.render(dict(zip("abc", each, strict=True))) for each in (one, other)]
    except (InvalidTool, InvalidKey):
        return
    # 7 and "7" mean the same number in a key; the ledger distinguishes them by their hash.
    assert (keys[0] == keys[1]) == (list(map(str, one)) == list(map(str, other)))


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_two_text_fields_never_run_into_each_other(a: str, b: str, c: str, d: str) -> None:
    made = template("{a}-{b}")
    try:
        keys = [made.render({"a": a, "b": b}), made.render({"a": c, "b": d})]
    except InvalidKey:
        return
    assert (keys[0] == keys[1]) == ((a, b) == (c, d))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("refund", "every call would have the same key"),
        ("", "every call would have the same key"),
        ("refund-{order}", "no parameter 'order'"),
        ("refund-{}", "not just a parameter's name"),
        ("refund-{0}", "not just a parameter's name"),
        ("refund-{order_id.real}", "not just a parameter's name"),
        ("refund-{order_id[0]}", "not just a parameter's name"),
        ("refund-{order_id!r}", "not just a parameter's name"),
        ("refund-{order_id:>5}", "not just a parameter's name"),
        ("refund-{order_id", "cannot be read"),
        ("refund-order_id}", "cannot be read"),
        (7, "cannot be read"),
        ("{a}{b}", "nothing separates"),
        ("{a}2{b}", "nothing separates"),
        ("{a}%{b}", "nothing separates"),
        ("refund\n{order_id}", "unprintable"),
        (" {order_id}", "blank"),
        ("x" * 255 + "{order_id}", "256 characters"),
    ],
)
def test_a_bad_template_is_refused_when_the_tool_is_declared(text: Any, reason: str) -> None:
    with pytest.raises(InvalidTool, match=reason) as caught:
        template(text)
    assert "Tool 'refund' was not declared" in caught.value.message


def test_a_volatile_parameter_is_refused_in_a_template() -> None:
    with pytest.raises(InvalidTool, match="'a', which is volatile"):
        template("{order_id}-{a}", volatile=("a",))


def test_a_tool_without_parameters_may_have_one_fixed_key() -> None:
    fixed = KeyTemplate("nightly", tool="refund", parameters=())
    assert fixed.render({}) == "nightly"
    only_volatile = KeyTemplate("nightly", tool="refund", parameters=("a",), volatile=("a",))
    assert only_volatile.render({}) == "nightly"
    with pytest.raises(InvalidTool, match="empty"):
        KeyTemplate("", tool="refund", parameters=())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "a boolean"),
        (None, "None"),
        (1.5, "a fraction"),
        ([1], "a list"),
        ({"a": 1}, "an object"),
    ],
)
def test_a_value_without_one_spelling_is_refused(value: Any, text: str) -> None:
    with pytest.raises(InvalidKey, match=text) as caught:
        template("refund-{order_id}").render({"order_id": value})
    assert caught.value.facts == {"tool": "refund", "parameter": "order_id"}
    assert "was not run" in caught.value.message
    assert "function as the key" in caught.value.message


def test_a_parameter_that_is_not_in_the_record_is_refused() -> None:
    with pytest.raises(InvalidKey, match="'order_id', which is not plain data"):
        template("refund-{order_id}").render({})


BAD_KEYS: list[tuple[Any, str]] = [
    ("", "empty"),
    ("x" * 256, "256 characters"),
    ("a\nb", "unprintable"),
    ("a\x00", "unprintable"),
    ("a\u2028b", "unprintable"),
    ("a\ud800", "unprintable"),
    (" a", "blank"),
    ("a ", "blank"),
    (7, "of type int"),
    (None, "of type NoneType"),
    (b"a", "of type bytes"),
]


@pytest.mark.parametrize(("key", "text"), BAD_KEYS)
def test_a_key_that_some_upstream_would_not_take_is_refused(key: Any, text: str) -> None:
    with pytest.raises(InvalidKey, match=text) as caught:
        check_key(key, tool="refund")
    assert caught.value.facts == {"tool": "refund"}
    with pytest.raises(InvalidKey, match=text):
        stable_key(lambda: key, {}, tool="refund")
    if isinstance(key, str) and key:
        with pytest.raises(InvalidKey, match=text):
            template("{order_id}").render({"order_id": key})


def test_the_longest_key_is_accepted() -> None:
    assert check_key("ü" * 255, tool="refund") == "ü" * 255


def test_a_function_is_asked_with_arguments_by_name() -> None:
    def key(order_id: int, *, cents: int) -> str:
        return f"{order_id}/{cents}"

    assert stable_key(key, {"cents": 5, "order_id": 7}, tool="refund") == "7/5"


@pytest.mark.parametrize(
    "function",
    [lambda: str(uuid.uuid4()), lambda counter=itertools.count(): f"key {next(counter)}"],  # noqa: B008
)
def test_a_function_whose_answer_changes_is_refused(function: Callable[[], str]) -> None:
    with pytest.raises(InvalidKey, match="two keys for one call"):
        stable_key(function, {}, tool="refund")


def test_a_function_that_fails_is_refused_with_its_reason() -> None:
    def key(order_id: int) -> str:
        raise ZeroDivisionError("oops")

    with pytest.raises(InvalidKey, match="ZeroDivisionError: oops"):
        stable_key(key, {"order_id": 7}, tool="refund")


def test_an_async_function_is_refused_without_a_stray_warning() -> None:
    async def key() -> str:
        return "key"

    with pytest.raises(InvalidKey, match="of type coroutine"):
        stable_key(key, {}, tool="refund")


def test_a_function_cannot_change_the_arguments() -> None:
    def key(items: list[str]) -> str:
        return items.pop()

    arguments = {"items": ["a", "b"]}
    before = copy.deepcopy(arguments)
    assert stable_key(key, arguments, tool="refund") == "b"
    assert arguments == before


def made(function: Callable[..., Any]) -> KeyFunction:
    return KeyFunction(
        function, tool="refund", parameters=("order_id", "cents", "trace"), volatile=("trace",)
    )


ARGUMENTS = {"order_id": 7, "cents": 5, "trace": "t"}


def test_a_function_gets_the_parameters_it_names_and_no_volatile_one() -> None:
    assert made(lambda order_id: f"o{order_id}").render(ARGUMENTS) == "o7"
    assert made(lambda cents, missing=1: f"c{cents}{missing}").render(ARGUMENTS) == "c51"
    assert made(lambda **all_: ",".join(all_)).render(ARGUMENTS) == "order_id,cents"
    assert made(lambda trace="none": trace).render(ARGUMENTS) == "none"
    assert made(lambda: "fixed").render(ARGUMENTS) == "fixed"


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda order: "", "'order', which is no parameter"),
        (lambda trace: "", "'trace', which is volatile"),
        (lambda order_id, /: "", "by position only"),
        (min, "cannot be read"),
        (7, "cannot be read"),
    ],
)
def test_a_function_that_could_never_be_called_is_refused_at_declaration(
    function: Any, text: str
) -> None:
    with pytest.raises(InvalidTool, match=text) as caught:
        made(function)
    assert "Tool 'refund' was not declared" in caught.value.message


def test_a_path_looks_into_a_parameter_and_says_what_is_missing() -> None:
    template = KeyTemplate("{order.id}-{order.line}", tool="ship", parameters=None, paths=True)
    assert template.render({"order": {"id": 7, "line": "a-b"}}) == "7-a%2Db"
    for normal in ({}, {"order": 7}, {"order": {"id": 7}}):
        with pytest.raises(InvalidKey, match="is missing"):
            template.render(normal)
    with pytest.raises(InvalidTool, match="every call would have the same key"):
        KeyTemplate("all", tool="ship", parameters=None, paths=True)
