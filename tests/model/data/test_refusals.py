"""Does every refusal say where the value is, what it is, and what to use instead?"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import io
import math
import pathlib
import sys
import types
import uuid
from typing import Any, NamedTuple

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nottwice.errors import NotPlainData
from nottwice.model.data.refusals import MAX_DEPTH, MAX_INTEGER_BITS, find_refusal
from nottwice.model.values import check_plain, is_plain


class Colour(enum.Enum):
    RED = 1


class Word(enum.StrEnum):
    YES = "yes"


class Level(enum.IntEnum):
    LOW = 1


class Name(str):
    pass


class Count(int):
    pass


class Share(float):
    pass


class Point(NamedTuple):
    x: int


@dataclasses.dataclass
class Order:
    number: int


class Model(pydantic.BaseModel):
    number: int = 1


class Secretive:
    """Every look at an instance is an error: a refusal may only look at its type."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)

    def __repr__(self) -> str:
        raise AssertionError("repr")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("==")

    __hash__ = None  # type: ignore[assignment]


async def answer() -> int:
    return 1


def generator() -> Any:
    yield 1


def closed(coroutine: Any) -> Any:
    coroutine.close()
    return coroutine


def itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


# What is refused, what the message calls it, and what it advises.
NOT_PLAIN: list[tuple[Any, str, str]] = [
    (math.nan, "is nan", "None"),
    (math.inf, "is inf", "None"),
    (-math.inf, "is -inf", "None"),
    ("ab\ud800", "lone surrogate (U+D800) at character 2", "replace"),
    ("\udfff\ud800", "lone surrogate (U+DFFF) at character 0", "replace"),
    (2**MAX_INTEGER_BITS, "an integer of 8193 bits; the limit is 8192", "text"),
    (-(10**5000), "an integer of 16610 bits", "text"),
    (itself(), "deeper than 128 levels, or it contains itself", "Flatten"),
    ({1: 1}, "has a key of type int", "text as the key"),
    ({None: 1}, "has a key of type NoneType", "text as the key"),
    ({True: 1}, "has a key of type bool", "text as the key"),
    ({("a",): 1}, "has a key of type tuple", "text as the key"),
    ({Name("a"): 1}, "has a key of type", "text as the key"),
    ({Word.YES: 1}, "has a key of type", ".value"),
    ({"fine": 1, "x\ud800": 1}, 'has the key "x\\ud800" with a lone surrogate', "replace"),
    (b"raw", "is of type bytes", "base64"),
    (bytearray(b"raw"), "is of type bytearray", "base64"),
    (memoryview(b"raw"), "is of type memoryview", "base64"),
    ({1, 2}, "is of type set", "sorted list"),
    (frozenset(), "is of type frozenset", "sorted list"),
    ((1, 2), "is of type tuple", "list(...)"),
    (Point(1), "Point", "list(...)"),
    (range(3), "is of type range", "list(...)"),
    (generator(), "is of type generator", "list(...)"),
    (map(str, []), "is of type map", "list(...)"),
    (collections.deque([1]), "is of type collections.deque", "list(...)"),
    (collections.OrderedDict(a=1), "is of type collections.OrderedDict", "dict(...)"),
    (collections.defaultdict(int), "is of type collections.defaultdict", "dict(...)"),
    (collections.UserDict(a=1), "is of type collections.UserDict", "dict(...)"),
    (types.MappingProxyType({}), "is of type mappingproxy", "dict(...)"),
    (Colour.RED, "Colour", ".value"),
    (Word.YES, "Word", ".value"),
    (Level.LOW, "Level", ".value"),
    (Name("a"), "Name", "str(...)"),
    (Count(1), "Count", "int(...)"),
    (Share(1.5), "Share", "float(...)"),
    (1j, "is of type complex", "real"),
    (decimal.Decimal("1.10"), "is of type decimal.Decimal", "smallest unit"),
    (fractions.Fraction(1, 3), "is of type fractions.Fraction", "smallest unit"),
    (datetime.datetime(2026, 1, 2), "is of type datetime.datetime", ".isoformat()"),
    (datetime.date(2026, 1, 2), "is of type datetime.date", ".isoformat()"),
    (datetime.time(1, 2), "is of type datetime.time", ".isoformat()"),
    (datetime.timedelta(1), "is of type datetime.timedelta", ".total_seconds()"),
    (uuid.UUID(int=1), "is of type uuid.UUID", "str(...)"),
    (pathlib.Path("a"), "Path", "str(...)"),
    (ValueError("secret"), "is of type ValueError", "str(...)"),
    (Order(1), "Order", "dataclasses.asdict"),
    (Model(), "Model", ".model_dump(mode='json')"),
    (closed(answer()), "is of type coroutine", "Await"),
    (generator, "is of type function", "Pass its name"),
    (lambda: 1, "is of type function", "Pass its name"),
    (len, "is of type builtin_function_or_method", "Pass its name"),
    ("".join, "is of type builtin_function_or_method", "Pass its name"),
    (io.StringIO().close, "is of type builtin_function_or_method", "Pass its name"),
    (Order, "is of type type", "Pass its name"),
    (Colour, "is of type enum.EnumType", "Pass its name"),
    (sys, "is of type module", "Pass its name"),
    (io.StringIO("secret"), "is of type _io.StringIO", "its path"),
    (object(), "is of type object", "Turn it into"),
    (..., "is of type ellipsis", "Turn it into"),
    (Secretive(), "Secretive", "Turn it into"),
]


EACH = [f"{number} {what}" for number, (_, what, _) in enumerate(NOT_PLAIN)]


@pytest.mark.parametrize(("value", "what", "remedy"), NOT_PLAIN, ids=EACH)
def test_a_refusal_says_where_it_is_what_it_is_and_what_to_use_instead(
    value: Any, what: str, remedy: str
) -> None:
    with pytest.raises(NotPlainData) as caught:
        check_plain({"fine": [1, "é", None], "items": [1.5, {"price": value}]})
    message = str(caught.value)
    assert caught.value.path.startswith("$.items[1].price")
    assert message.startswith(f"Not plain data: {caught.value.path} ")
    assert what in message
    assert "neither hashed nor stored" in message
    assert remedy in message.rpartition("stored. ")[2]
    assert "secret" not in message
    # It goes to terminals, logs and ledgers, so it must be text itself.
    assert message.encode()


@pytest.mark.parametrize(("value", "what"), [case[:2] for case in NOT_PLAIN], ids=EACH)
def test_what_is_refused_inside_is_refused_at_the_root(value: Any, what: str) -> None:
    assert not is_plain(value)
    with pytest.raises(NotPlainData) as caught:
        check_plain(value)
    assert caught.value.path.startswith("$")
    assert what in str(caught.value)


def test_a_future_is_to_be_awaited() -> None:
    async def refused() -> str:
        task = asyncio.ensure_future(answer())
        await task
        return find_refusal([task]).remedy

    assert "Await" in asyncio.run(refused())


@dataclasses.dataclass
class NumpyScalar:
    """Plays a library that the tests do not need otherwise."""


NumpyScalar.__module__, NumpyScalar.__name__ = "numpy", "generic"


def test_an_array_library_is_recognised_by_the_name_of_its_class() -> None:
    assert find_refusal(type("int64", (NumpyScalar,), {})()).remedy == "Use its .tolist()."


# Paths


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (b"", "$"),
        ([b""], "$[0]"),
        ({"a": b""}, "$.a"),
        ({"items": [0, 1, 2, {"price": b""}]}, "$.items[3].price"),
        ({"a b": b""}, '$["a b"]'),
        ({"": b""}, '$[""]'),
        ({"1": b""}, '$["1"]'),
        ({'"': b""}, '$["\\""]'),
        ({"é": {"naïve key": b""}}, '$.é["naïve key"]'),
        ({"a\x1b[2J": b""}, '$["a\\u001b[2J"]'),
        ({"a\u202eb": b""}, '$["a\\u202eb"]'),
        ({"k" * 40: b""}, "$." + "k" * 40),
        ({"k" * 41: b""}, '$["' + "k" * 39 + '…"]'),
        ({"a": {"b": {1: 1}}}, "$.a.b"),
        ([[1], {2: 1}], "$[1]"),
    ],
)
def test_a_path_reads_like_the_expression_that_reaches_the_value(value: Any, path: str) -> None:
    with pytest.raises(NotPlainData) as caught:
        check_plain(value)
    assert caught.value.path == path


def test_the_first_fault_in_reading_order_is_named() -> None:
    value = {"a": [1, {"b": {"c": b""}}], "d": b"", "e": [b""]}
    assert find_refusal(value).path == "$.a[1].b.c"


def test_the_path_of_something_very_deep_is_shortened_in_the_middle() -> None:
    value: list[Any] = []
    for _ in range(MAX_DEPTH):
        value = [0, value]
    assert find_refusal(value).path == "$" + "[1]" * 8 + "…" + "[1]" * 7


def test_sixteen_steps_are_shown_in_full() -> None:
    value: Any = b""
    for _ in range(16):
        value = {"a": value}
    assert find_refusal(value).path == "$" + ".a" * 16
    assert "…" in find_refusal({"a": value}).path


@pytest.mark.parametrize(
    "make", [lambda value: [value, value], lambda value: {"a": value, "b": [value]}]
)
def test_data_that_contains_itself_many_times_is_refused_immediately(make: Any) -> None:
    inner: list[Any] = []
    inner.append(make(inner))
    with pytest.raises(NotPlainData, match="contains itself"):
        check_plain(make(inner))


@st.composite
def faults_with_paths(draw: st.DrawFn) -> tuple[Any, str]:
    """A fault, buried somewhere below plain neighbours, and the path that leads to it."""
    value: Any = draw(st.sampled_from([math.nan, b"", (), {1: 1}, "\ud800", 2**9000, Count(1)]))
    path = ""
    plain: list[Any] = [None, 1, 2.5, "é", [], {"a": [1]}, 2**64, "\U00010000"]
    neighbours = st.lists(st.sampled_from(plain), max_size=4)
    for _ in range(draw(st.integers(0, 8))):
        before, after = draw(neighbours), draw(neighbours)
        if draw(st.booleans()):
            value, path = [*before, value, *after], f"[{len(before)}]{path}"
        else:
            named = {f"n{index}": each for index, each in enumerate(before)}
            value, path = {**named, "here": value, "after": after}, f".here{path}"
    return value, f"${path}"


@given(faults_with_paths())
def test_the_quick_check_and_the_explanation_agree_on_every_fault(case: tuple[Any, str]) -> None:
    value, path = case
    assert not is_plain(value)
    assert find_refusal(value).path == path


def test_a_value_that_another_thread_repaired_meanwhile_is_still_explained() -> None:
    refusal = find_refusal({"a": 1}, root="arguments")
    assert refusal.path == "arguments"
    assert "changed while it was read" in refusal.what
