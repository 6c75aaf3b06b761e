"""Rich values have one obvious plain form, and the judge of round trips sees every difference."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nottwice.errors import NotPlainData
from nottwice.guard.plain_data.flatten import (
    CannotFlatten,
    difference,
    flatten,
    step_into,
)
from nottwice.model import values

BERLIN = ZoneInfo("Europe/Berlin")


class Color(str, Enum):  # noqa: UP042 - the older way, still the usual one
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: date


@dataclasses.dataclass
class Line:
    number: int
    price: Decimal = Decimal("1")


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    number: int
    _hidden: int = pydantic.PrivateAttr(default=0)


def exact(value: Any) -> Any:
    return flatten(value, path="$", normalise=False)


def normal(value: Any) -> Any:
    return flatten(value, path="$", normalise=True)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Color.RED, "red"),
        (Level.LOW, 1),
        (date(2026, 1, 2), "2026-01-02"),
        (time(1, 2, 3), "01:02:03"),
        (datetime(2026, 1, 2, 3, 4), "2026-01-02T03:04:00"),
        (timedelta(days=1, seconds=2, microseconds=3), "P1DT2.000003S"),
        (timedelta(microseconds=-1), "-P0DT0.000001S"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("a/b"), "a/b"),
        (Point(1, date(2026, 1, 2)), [1, "2026-01-02"]),
        ((1, (2, 3)), [1, [2, 3]]),
        ({Color.RED: 1, 7: 2, date(2026, 1, 2): 3}, {"red": 1, "7": 2, "2026-01-02": 3}),
        (OrderedDict(a=1), {"a": 1}),
    ],
)
def test_what_has_one_obvious_spelling_becomes_exactly_plain(value: Any, plain: Any) -> None:
    assert exact(value) == normal(value) == plain
    values.check_plain(exact(value))


@pytest.mark.parametrize("value", [True, 1.5, None, "text", 2**70, [], {}])
def test_plain_data_stays_as_it_is(value: Any) -> None:
    assert exact(value) == value
    assert type(exact(value)) is type(value)


def test_an_instant_has_one_normal_spelling_and_keeps_its_offset_in_the_record() -> None:
    here = datetime(2026, 7, 1, 2, tzinfo=BERLIN)
    there = here.astimezone(timezone(timedelta(hours=-5)))
    assert normal(here) == normal(there) == "2026-07-01T00:00:00+00:00"
    assert exact(here) == "2026-07-01T02:00:00+02:00"
    assert exact(there) == "2026-06-30T19:00:00-05:00"


def test_the_two_hours_of_a_clock_that_is_set_back_are_two_instants() -> None:
    first = datetime(2025, 10, 26, 2, 30, tzinfo=BERLIN)
    second = first.replace(fold=1)
    assert normal(first) != normal(second)
    assert exact(first) != exact(second)


def test_an_instant_that_no_utc_year_holds_is_refused() -> None:
    with pytest.raises(CannotFlatten, match="years 1 to 9999"):
        normal(datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("10.00", "10"),
        ("10", "10"),
        ("1E+1", "10"),
        ("100", "100"),
        ("-0.00", "0"),
        ("0E+5", "0"),
        ("0.10", "0.1"),
        ("-1.50", "-1.5"),
        ("1E-7", "0.0000001"),
        ("1." + "1" * 60, "1." + "1" * 60),
    ],
)
def test_equal_decimals_have_one_normal_spelling(text: str, plain: str) -> None:
    assert normal(Decimal(text)) == plain
    assert exact(Decimal(text)) == text
    assert Decimal(normal(Decimal(text))) == Decimal(text)


@given(one=st.decimals(allow_nan=False, allow_infinity=False, places=6), other=st.decimals(-9, 9))
def test_decimals_are_spelled_alike_exactly_when_they_are_equal(
    one: Decimal, other: Decimal
) -> None:
    for left, right in ((one, other), (one, one + 0), (other, other * Decimal("1.00"))):
        try:
            spelled_alike = normal(left) == normal(right)
        except CannotFlatten:
            continue
        assert spelled_alike == (left == right)


@pytest.mark.parametrize("text", ["NaN", "sNaN", "Infinity", "-Infinity"])
def test_a_decimal_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(CannotFlatten, match="not a number"):
        exact({"a": Decimal(text)})


@pytest.mark.parametrize("text", ["1E+999999", "1E-999999", "0E-999999", "9" * 401])
def test_a_decimal_that_would_fill_the_memory_is_refused(text: str) -> None:
    for spell in (exact, normal):
        with pytest.raises(CannotFlatten, match="more than 400 digits"):
            spell(Decimal(text))


def test_secrets_iterators_and_classes_are_refused_with_their_path() -> None:
    for value, text in [
        (pydantic.SecretStr("hunter2"), "is a secret"),
        (pydantic.SecretBytes(b"hunter2"), "is a secret"),
        (iter([1]), "read only once"),
        ((each for each in [1]), "read only once"),
        (Line(1), "come back as dict, not Line"),
        (Model(number=1), "come back as dict, not Model"),
    ]:
        with pytest.raises(CannotFlatten, match=text) as caught:
            exact({"a b": [value]})
        assert caught.value.path == '$["a b"][0]'
        assert "hunter2" not in str(caught.value)


def test_keys_that_would_meet_are_refused() -> None:
    with pytest.raises(CannotFlatten, match="two keys that are both written as '1'"):
        exact({1: "a", "1": "b"})


@pytest.mark.parametrize("key", [True, None, 1.5, (1, 2), b"a"])
def test_a_key_without_an_obvious_spelling_is_left_to_be_refused(key: Any) -> None:
    assert not values.is_plain(exact({key: 1}))


def test_what_is_not_known_is_left_to_be_refused() -> None:
    for value in (b"a", {1}, object(), print, 1j):
        assert exact([value]) == [value]


SAME: list[tuple[Any, Any]] = [
    (Line(1), Line(1)),
    (
        Model.model_validate({"number": 1, "more": [1]}),
        Model.model_validate({"number": 1, "more": [1]}),
    ),
    (Point(1, date.min), Point(1, date.min)),
    ({"a": [1, (2,)]}, {"a": [1, (2,)]}),
    (defaultdict(list, a=[1]), defaultdict(list, a=[1])),
]


@pytest.mark.parametrize(("value", "restored"), SAME)
def test_equal_values_of_equal_types_are_the_same(value: Any, restored: Any) -> None:
    assert difference(value, restored, path="$", exactly=True) is None


def _model_with_private(number: int) -> Model:
    model = Model(number=1)
    model._hidden = number
    return model


DIFFERENT: list[tuple[Any, Any, str]] = [
    (True, 1, "$"),
    (1, 1.0, "$"),
    ([1, [True]], [1, [1]], "$[1][0]"),
    ((1, 2), [1, 2], "$"),
    ([1], [1, 2], "$"),
    ({"a": 1}, {"b": 1}, "$"),
    ({"a": 1}, {"a": 1, "b": 2}, "$"),
    ({1: 1}, {True: 1}, "$"),
    ({"a": (1,)}, {"a": [1]}, "$.a"),
    (OrderedDict(a=1, b=2), OrderedDict(b=2, a=1), "$"),
    (defaultdict(list), defaultdict(int), "$"),
    (Line(1), Line(2), "$.number"),
    (Line(True), Line(1), "$.number"),
    (Model(number=1), Model(number=2), "$.number"),
    (
        Model.model_validate({"number": 1, "more": (1,)}),
        Model.model_validate({"number": 1, "more": [1]}),
        "$.more",
    ),
    (Model.model_validate({"number": 1, "more": 1}), Model(number=1), "$"),
    (_model_with_private(1), _model_with_private(2), "$"),
    (Color.RED, "red", "$"),
    (time(1, tzinfo=BERLIN), time(1), "$"),
    (datetime(2026, 1, 1, fold=1), datetime(2026, 1, 1), "$"),
    (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1), "$"),
    (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, tzinfo=UTC), "$"),
]


@pytest.mark.parametrize(("value", "restored", "path"), DIFFERENT)
def test_a_difference_is_found_where_it_is(value: Any, restored: Any, path: str) -> None:
    for exactly in (True, False):
        found = difference(value, restored, path="$", exactly=exactly)
        assert found is not None
        assert found.path == path


def test_offsets_and_zeros_differ_only_where_they_are_asked_for() -> None:
    pairs: list[tuple[Any, Any]] = [
        (Decimal("10.00"), Decimal("10")),
        (datetime(2026, 1, 1, 1, tzinfo=BERLIN), datetime(2026, 1, 1, tzinfo=UTC)),
    ]
    for value, restored in pairs:
        assert difference(value, restored, path="$", exactly=True) is not None
        assert difference(value, restored, path="$", exactly=False) is None


def test_an_instant_in_the_repeated_hour_is_the_same_in_utc() -> None:
    value = datetime(2025, 10, 26, 2, 30, fold=1, tzinfo=BERLIN)
    restored = value.astimezone(UTC)
    assert value != restored
    assert difference(value, restored, path="$", exactly=False) is None


def test_paths_are_spelled_as_the_plain_data_check_spells_them() -> None:
    steps: list[Any] = ["name", 3, "two words", "ünï", "x" * 50, "\x1b[2J"]
    for step in steps:
        holder: Any = [None] * 3 + [b""] if step == 3 else {step: b""}
        with pytest.raises(NotPlainData) as caught:
            values.check_plain(holder)
        assert caught.value.path == step_into("$", step)
