"""Values come back equal and of the same type, live and from the ledger, or they are refused."""

from __future__ import annotations

import dataclasses
import inspect
import io
import uuid
import warnings
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    ImportString,
    Json,
    PlainSerializer,
    PlainValidator,
    RootModel,
    SecretStr,
    TypeAdapter,
    computed_field,
)

from nottwice.errors import InvalidArguments, NotPlainData
from nottwice.guard.plain_data.codec import Codec, DoesNotFit
from nottwice.guard.plain_data.flatten import difference
from nottwice.model import values


class Color(Enum):
    RED = "red"


class Word(str, Enum):  # noqa: UP042 - the older way, still the usual one
    ONE = "one"


class Point(NamedTuple):
    x: int
    day: date


@dataclasses.dataclass
class Order:
    number: int
    price: Decimal = Decimal("1.0")


@dataclasses.dataclass
class RushOrder(Order):
    hours: int = 1


@dataclasses.dataclass(eq=False, slots=True)
class Parcel:
    day: date


class Aliased(BaseModel):
    order_id: int = Field(alias="orderId")
    day: date | None = None


class WrittenByAlias(BaseModel):
    order_id: int = Field(serialization_alias="orderId")


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    id: uuid.UUID
    days: tuple[date, ...] = ()


class Computed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    number: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return 2 * self.number


class Ticket(BaseModel):
    id: uuid.UUID = Field(default_factory=uuid.uuid4)
    note: str | None = None


class Card(BaseModel):
    kind: Literal["card"] = "card"
    number: int = 0


class Cash(BaseModel):
    kind: Literal["cash"] = "cash"
    number: int = 0


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Days(RootModel[list[date]]):
    pass


class Options(TypedDict):
    day: date


def codec(annotation: Any) -> Codec:
    return Codec(annotation, where="the result of tool 'ship'", outcome="It was not used.")


def through_the_ledger(annotation: Any, value: Any) -> Any:
    """Write with one codec, keep as text, read with a new one: as another process would."""
    encoded = codec(annotation).encode(value)
    stored = values.decode(values.encode(encoded.plain))
    return codec(annotation).decode(stored, typed=encoded.typed)


def assert_same(annotation: Any, value: Any) -> None:
    restored = through_the_ledger(annotation, value)
    assert difference(value, restored, path="$", exactly=False) is None


@pytest.mark.parametrize("annotation", [inspect.Parameter.empty, Any, date, Order, int, "odd", 5])
@pytest.mark.parametrize("value", [None, True, 7, 10.0, "text", [1, {"a": []}], {"a": 2**63}])
def test_plain_data_is_kept_as_it_is_whatever_the_annotation_says(
    annotation: Any, value: Any
) -> None:
    encoded = codec(annotation).encode(value)
    assert encoded.plain is value
    assert not encoded.typed
    restored = through_the_ledger(annotation, value)
    assert difference(value, restored, path="$", exactly=True) is None


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (date, date(2026, 1, 2)),
        (date | None, date(2026, 1, 2)),
        (time, time(1, 2, 3, 4, tzinfo=UTC)),
        (timedelta, timedelta(days=-3, microseconds=1)),
        (Decimal, Decimal("10.00")),
        (Decimal, Decimal("1E+3")),
        (uuid.UUID, uuid.UUID(int=5)),
        (Path, Path("a/b")),
        (PurePath, PurePath("a")),
        (IPv4Address, IPv4Address("10.0.0.1")),
        (HttpUrl, TypeAdapter(HttpUrl).validate_python("https://example.org/a?b=c")),
        (Color, Color.RED),
        (Word, Word.ONE),
        (tuple[int, ...], (1, 2)),
        (tuple[int, date], (1, date(2026, 1, 2))),
        (Point, Point(1, date(2026, 1, 2))),
        (Order, Order(1, Decimal("2.50"))),
        (list[Order] | None, [Order(1), Order(2)]),
        (Parcel, Parcel(date(2026, 1, 2))),
        (Aliased, Aliased(orderId=1, day=date(2026, 1, 2))),
        (WrittenByAlias, WrittenByAlias(order_id=1)),
        (Strict, Strict(id=uuid.UUID(int=5), days=(date(2026, 1, 2),))),
        (Computed, Computed(number=2)),
        (Ticket, Ticket()),
        (Card | Cash, Cash()),
        (Annotated[Card | Cash, Field(discriminator="kind")], Cash()),
        (Tree, Tree(value=1, children=[Tree(value=2)])),
        (Days, Days([date(2026, 1, 2)])),
        (Options, {"day": date(2026, 1, 2)}),
        (dict[int, str], {1: "a", 2: "b"}),
        (dict[date, Decimal], {date(2026, 1, 2): Decimal("1.50")}),
        (dict[Color, int], {Color.RED: 1}),
        (Json[list[date]], [date(2026, 1, 2)]),
    ],
)
def test_an_annotated_value_comes_back_the_same(annotation: Any, value: Any) -> None:
    restored = through_the_ledger(annotation, value)
    assert difference(value, restored, path="$", exactly=True) is None
    normal = codec(annotation).normal_form(value)
    values.check_plain(normal)
    again = codec(annotation).decode(normal, typed=True)
    assert difference(value, again, path="$", exactly=False) is None


@given(
    st.one_of(
        st.tuples(st.just(datetime), st.datetimes(timezones=st.none() | st.timezones())),
        st.tuples(st.just(date), st.dates()),
        st.tuples(st.just(timedelta), st.timedeltas()),
        st.tuples(st.just(Decimal), st.decimals(allow_nan=False, allow_infinity=False)),
        st.tuples(
            st.just(dict[int, tuple[date, ...]]),
            st.dictionaries(st.integers(), st.lists(st.dates()).map(tuple), min_size=1),
        ),
    )
)
def test_any_value_comes_back_the_same_or_is_refused(pair: tuple[Any, Any]) -> None:
    annotation, value = pair
    try:
        assert_same(annotation, value)
        normal = codec(annotation).normal_form(value)
    except NotPlainData:
        # Only what no text can hold: a time that no UTC year or no zone has, an absurd exponent.
        assert isinstance(value, datetime | Decimal)
        return
    again = codec(annotation).decode(normal, typed=True)
    assert difference(value, again, path="$", exactly=False) is None


def refused(annotation: Any, value: Any) -> NotPlainData:
    with warnings.catch_warnings(record=True) as printed:
        warnings.simplefilter("always")
        with pytest.raises(NotPlainData) as caught:
            codec(annotation).encode(value)
    assert printed == []
    assert "tool 'ship'" in caught.value.message
    assert "It was not used." in caught.value.message
    return caught.value


@pytest.mark.parametrize(
    ("annotation", "value", "path", "text"),
    [
        (dict, {"a": [date(2026, 1, 2)]}, "$.a[0]", "come back as str, not date"),
        (list[Order], [Order(1), RushOrder(2)], "$[1]", "come back as Order, not RushOrder"),
        (Order, Order(True), "$.number", "come back as int, not bool"),
        (tuple[int, ...], (True,), "$[0]", "come back as int, not bool"),
        (date | str, date(2026, 1, 2), "$", "come back as str, not date"),
        (str, Word.ONE, "$", "come back as str, not Word"),
        (object, Order(1), "$", "come back as dict, not Order"),
        (int, (1, 2), "$", "does not fit the type int"),
        (list[int], [1, Order(1)], "$", "does not fit the type list[int]"),
        (dict[int | str, int], {1: 1, "1": 2}, "$", "two keys"),
        (Annotated[date, AfterValidator(lambda day: day + timedelta(1))], date.min, "$", "another"),
    ],
)
def test_what_would_come_back_changed_is_refused_with_its_path(
    annotation: Any, value: Any, path: str, text: str
) -> None:
    error = refused(annotation, value)
    assert error.path == path
    assert text in error.message
    assert "use" in error.message.lower()


@pytest.mark.parametrize(
    "value", [(1, 2), Point(1, date.min), Order(1), Aliased(orderId=1), Word.ONE, date.min, {1: 2}]
)
def test_without_an_annotation_the_advice_is_to_annotate(value: Any) -> None:
    for annotation in (Any, inspect.Parameter.empty):
        error = refused(annotation, {"a": value} if annotation is Any else [value])
        assert error.path in ("$.a", "$[0]")
        assert "annotate the result of tool 'ship' with its type" in error.message


@pytest.mark.parametrize(
    ("annotation", "value", "text"),
    [
        (bytes, b"a", "base64"),
        (bytearray, bytearray(b"a"), "base64"),
        (set[int], {1, 2}, "sorted list"),
        (frozenset[int], frozenset({1}), "sorted list"),
        (SecretStr, SecretStr("hunter2"), "secret"),
        (list[int], ["hunter2", SecretStr("hunter2")], "another type"),
        (Any, print, "name"),
        (Any, (each for each in [1]), "Use a list"),
        (Any, io.StringIO("hunter2"), "path"),
        (Any, object(), "dict, list, str"),
        (float, float("nan"), "nan"),
        (Decimal, Decimal("NaN"), "not a number"),
        (str, "\ud800", "surrogate"),
        (dict[bool, int], {True: 1}, "key of type bool"),
    ],
)
def test_what_has_no_plain_form_is_refused_with_advice(
    annotation: Any, value: Any, text: str
) -> None:
    error = refused(annotation, value)
    assert error.path == "$"
    assert text in error.message
    assert "hunter2" not in error.message


def test_data_that_contains_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: Any = ()
    for _ in range(5000):
        deep = (deep,)
    for annotation, value in [(Any, circle), (list, circle), (Any, deep), (tuple, deep)]:
        assert "too deep" in refused(annotation, value).message


class Hostile:
    def __eq__(self, other: object) -> bool:
        raise LookupError("no comparison")

    __hash__ = object.__hash__


def _crash(value: Any) -> Any:
    raise LookupError("no validation")


def test_a_hostile_class_cannot_break_the_codec() -> None:
    as_number = PlainSerializer(lambda value: 1)
    compared = Annotated[Hostile, as_number, PlainValidator(lambda value: Hostile())]
    crashing = Annotated[Hostile, as_number, PlainValidator(_crash)]
    unwritten = Annotated[Hostile, PlainSerializer(_crash)]
    for annotation in (compared, crashing, unwritten):
        refused(annotation, Hostile())
    assert "no comparison" in refused(compared, Hostile()).message
    with pytest.raises(DoesNotFit, match="no validation"):
        codec(crashing).decode(1, typed=True)
    with pytest.raises(InvalidArguments, match="no validation"):
        codec(crashing).validate_plain(1)


def test_the_record_keeps_offset_and_zeros_and_the_normal_form_does_not() -> None:
    instant = datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))
    assert codec(datetime).encode(instant).plain == "2026-01-01T00:00:00+01:00"
    assert codec(datetime).normal_form(instant) == "2025-12-31T23:00:00+00:00"
    assert codec(Decimal).encode(Decimal("10.00")).plain == "10.00"
    assert codec(Decimal).normal_form(Decimal("10.00")) == "10"
    assert codec(Decimal).normal_form(Decimal("10.0")) == "10"


def test_an_offset_that_no_text_can_hold_is_kept_as_the_instant() -> None:
    odd = datetime(1890, 1, 1, tzinfo=timezone(timedelta(minutes=53, seconds=28)))
    assert codec(datetime).encode(odd).plain == "1889-12-31T23:06:32+00:00"
    assert_same(datetime, odd)


def test_fields_that_were_never_set_come_back_unset_where_that_is_asked_for() -> None:
    patch = Aliased(orderId=1)
    encoded = codec(Aliased).encode(patch, keep_unset=True)
    restored = codec(Aliased).decode(encoded.plain, typed=True)
    assert restored.model_dump(exclude_unset=True) == {"order_id": 1}
    assert codec(Aliased).encode(patch).plain == {"orderId": 1, "day": None}


def test_a_generated_default_is_kept_although_it_was_not_set() -> None:
    ticket = Ticket()
    for keep_unset in (True, False):
        encoded = codec(Ticket).encode(ticket, keep_unset=keep_unset)
        assert codec(Ticket).decode(encoded.plain, typed=True).id == ticket.id
    assert codec(Ticket).normal_form(ticket) == {"id": str(ticket.id)}


def test_a_new_optional_field_changes_no_normal_form() -> None:
    @dataclasses.dataclass
    class Before:
        number: int

    @dataclasses.dataclass
    class After:
        number: int
        note: str = ""

    assert codec(Before).normal_form(Before(1)) == codec(After).normal_form(After(1))
    assert codec(After).normal_form(After(1, "x")) != codec(After).normal_form(After(1))


def test_the_normal_form_does_not_depend_on_the_release_of_pydantic() -> None:
    # Some releases would also read the field's name; only the alias is read by all of them.
    assert codec(Aliased).normal_form(Aliased(orderId=1)) == {"orderId": 1}
    assert codec(Aliased).encode(Aliased(orderId=1)).plain == {"orderId": 1, "day": None}


def test_two_members_of_a_union_never_have_one_normal_form() -> None:
    kinds = codec(Card | Cash)
    assert kinds.normal_form(Card()) != kinds.normal_form(Cash())
    assert kinds.normal_form(Card(number=1)) != kinds.normal_form(Cash(number=1))


def test_a_recorded_value_that_no_longer_fits_does_not_fit() -> None:
    for annotation, plain in [
        (date, "never"),
        (Order, {"price": "1"}),
        (Order, []),
        # What was a value of a class must not come back as something else.
        (Any, {"number": 1}),
        (dict, {"number": 1}),
        (inspect.Parameter.empty, "2026-01-02"),
        (str, "2026-01-02"),
    ]:
        with pytest.raises(DoesNotFit, match="the result of tool 'ship'"):
            codec(annotation).decode(plain, typed=True)


def test_stored_text_never_imports_code() -> None:
    class Job(BaseModel):
        handler: ImportString  # type: ignore[type-arg]

    for annotation, plain in [(ImportString, "os.getcwd"), (Job, {"handler": "os.getcwd"})]:
        with pytest.raises(DoesNotFit):
            codec(annotation).decode(plain, typed=True)
        assert codec(annotation).validate_plain(plain) == plain
        note = codec(annotation).note()
        assert note is not None
        assert "must not name code" in note
    assert codec(Order).note() is None


def test_json_of_a_person_becomes_the_type_or_an_error_with_its_path() -> None:
    assert codec(Order).validate_plain({"number": "7", "price": "2.5"}) == Order(7, Decimal("2.5"))
    assert codec(Strict).validate_plain({"id": str(uuid.UUID(int=5))}).id == uuid.UUID(int=5)
    assert codec(Any).validate_plain({"a": 1}) == {"a": 1}
    with pytest.raises(InvalidArguments, match="The result of tool 'ship' does not fit") as caught:
        codec(list[Order]).validate_plain([{"number": 1}, {"number": "x"}])
    assert caught.value.facts["path"] == "$[1].number"
    assert "(got str)" in caught.value.message
    with pytest.raises(InvalidArguments, match=r"\$\.number: Field required\. It was not used"):
        codec(Order).validate_plain({})


def test_the_type_has_a_text_and_a_schema() -> None:
    assert codec(list[Order] | None).type_text() == "list[Order] | None"
    assert codec(inspect.Parameter.empty).type_text() == "any plain data"
    assert codec(list[int]).json_schema() == {"type": "array", "items": {"type": "integer"}}
    assert codec(type(print)).json_schema() is None


def test_the_adapter_is_built_when_it_is_needed() -> None:
    built: list[int] = []

    class Slow:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            built.append(1)
            return handler(Any)

    lazy = codec(Slow)
    lazy.encode({"plain": 1})
    assert built == []
    with pytest.raises(NotPlainData):
        lazy.encode((1,))
    assert built
