"""One call has one identity however it is spelled, and its record is enough to make it again."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, BeforeValidator, SecretStr
from typing_extensions import TypedDict, Unpack

from nottwice.errors import InvalidArguments, InvalidTool, NotPlainData
from nottwice.guard.arguments.binding import BoundArguments, Signature
from nottwice.model import values


class Client:
    """Something that cannot be written down."""


CLIENT = Client()


@dataclasses.dataclass
class Address:
    city: str
    country: str = "DE"


BONN = Address("Bonn")


class Patch(BaseModel):
    name: str | None = None
    email: str | None = None


def refund(order_id: int, cents: int, reason: str = "none", notify: bool = False) -> None: ...


def signature(function: Callable[..., Any], **options: Any) -> Signature:
    return Signature(function, tool="refund", **options)


def bind(function: Callable[..., Any], *args: Any, **kwargs: Any) -> BoundArguments:
    return signature(function).bind(args, kwargs)


def hash_of(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    return values.hash_of(bind(function, *args, **kwargs).identity)


def call_again(function: Callable[..., Any], bound: BoundArguments) -> Any:
    """Record, forget, and rebuild as another process would."""
    args, kwargs = signature(function).rebuild(values.decode(values.encode(bound.plain)))
    return function(*args, **kwargs)


# Identity


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((7, 4000), {}),
        ((7,), {"cents": 4000}),
        ((), {"cents": 4000, "order_id": 7}),
        (("7", 4000.0), {}),
        ((7, 4000, "none"), {}),
        ((7, 4000), {"notify": False, "reason": "".join(["no", "ne"])}),
    ],
)
def test_one_call_has_one_identity_however_it_is_spelled(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    bound = bind(refund, *args, **kwargs)
    assert bound.identity == {"order_id": 7, "cents": 4000}
    assert bound.plain == {"order_id": 7, "cents": 4000, "reason": "none", "notify": False}
    assert bound.values == bound.plain
    assert bound.normal == bound.plain
    assert list(bound.plain)[:2] == ["order_id", "cents"]


def test_another_value_is_another_identity() -> None:
    spellings = [(7, 4000), (8, 4000), (7, 4001), (7, 4000, "late"), (7, 4000, "none", True)]
    assert len({hash_of(refund, *args) for args in spellings}) == len(spellings)


def test_a_new_optional_parameter_changes_no_identity() -> None:
    def before(a: int) -> None: ...
    def after(a: int, b: date = date(2026, 1, 1), *rest: int, c: Any = 3, **more: Any) -> None: ...

    assert hash_of(before, 1) == hash_of(after, 1)
    assert hash_of(before, 1) == hash_of(after, 1, date(2026, 1, 1), c=3)


def test_ten_is_ten_point_zero_but_true_is_not_one() -> None:
    def tool(x: Any = 10, y: Any = 1, z: Any = [1]) -> None: ...  # noqa: B006

    assert bind(tool, 10.0).identity == {}
    assert bind(tool, y=True).identity == {"y": True}
    assert bind(tool, z=[True]).identity == {"z": [True]}
    assert bind(tool, z=[1.0]).identity == {}


def test_one_instant_and_one_amount_are_one_identity() -> None:
    def tool(when: datetime, amount: Decimal) -> None: ...

    berlin = datetime(2026, 1, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))
    utc = datetime(2026, 1, 1, tzinfo=UTC)
    assert hash_of(tool, berlin, Decimal("10.00")) == hash_of(tool, utc, Decimal("1E+1"))
    assert hash_of(tool, "2026-01-01T00:00:00Z", "10.0") == hash_of(tool, utc, 10)


def test_keys_see_one_spelling_and_the_record_keeps_the_given_one() -> None:
    def tool(amount: Decimal, note: Decimal = Decimal("1.50")) -> None: ...

    bound = bind(tool, Decimal("10.00"))
    assert bound.normal == {"amount": "10", "note": "1.5"}
    assert bound.plain == {"amount": "10.00", "note": "1.50"}


def test_fields_at_their_default_do_not_count() -> None:
    def tool(to: Address, fallback: Address = BONN) -> None: ...

    assert bind(tool, {"city": "Köln"}).identity == {"to": {"city": "Köln"}}
    assert bind(tool, Address("Köln", "DE")).identity == {"to": {"city": "Köln"}}
    assert bind(tool, Address("Köln"), Address("Bonn", "DE")).identity == {"to": {"city": "Köln"}}
    assert bind(tool, Address("Köln", "AT")).identity["to"]["country"] == "AT"


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 3), min_size=3),
    st.permutations(["a", "b", "c"]),
    st.integers(0, 3),
)
def test_position_name_and_order_never_matter(
    given_values: dict[str, int], order: list[str], by_position: int
) -> None:
    def tool(a: int, b: int = 1, c: int = 2) -> None: ...

    names = ["a", "b", "c"]
    args = [given_values[name] for name in names[:by_position]]
    kwargs = {name: given_values[name] for name in order if name in names[by_position:]}
    assert bind(tool, *args, **kwargs).identity == {
        name: value
        for name, value in given_values.items()
        if (name, value) not in (("b", 1), ("c", 2))
    }


# Validation


def test_the_function_gets_validated_values() -> None:
    def tool(day: date, path: Path, to: Address, many: Iterable[int]) -> Any:
        return day, path, to, many

    call = signature(tool)
    bound = call.bind(("2026-01-02", "a/b", {"city": "Bonn"}, (each for each in "12")), {})
    args, kwargs = call.invoke_with(bound)
    assert tool(*args, **kwargs) == (date(2026, 1, 2), Path("a/b"), Address("Bonn"), [1, 2])


def test_what_does_not_fit_names_tool_and_parameter() -> None:
    with pytest.raises(InvalidArguments, match="Tool 'refund' was not run") as caught:
        bind(refund, order_id="seven", cents=1)
    facts = dict(caught.value.facts)
    assert facts.pop("why").startswith("the argument 'order_id' does not fit: ")
    assert facts == {"tool": "refund", "parameter": "order_id", "path": "order_id"}


def test_odd_parameter_names_work() -> None:
    def tool(
        self: int,
        args: int,
        kwargs: int,
        tool: int,
        function: int,
        json: int,
        _x: int,
        cls: int = 1,
    ) -> Any:
        return locals()

    given_values = dict.fromkeys(["self", "args", "kwargs", "tool", "function", "json", "_x"], 5)
    call = signature(tool)
    bound = call.bind((), given_values)
    assert bound.identity == given_values
    args, kwargs = call.invoke_with(bound)
    assert tool(*args, **kwargs) == {**given_values, "cls": 1}


def test_without_an_annotation_only_plain_data_fits() -> None:
    def tool(x, **more) -> None: ...  # type: ignore[no-untyped-def]

    assert bind(tool, {"a": [1]}).identity == {"x": {"a": [1]}}
    for bad in (date.min, (1, 2), {1: 2}, CLIENT, b"x", {1}, float("nan")):
        with pytest.raises(NotPlainData) as caught:
            bind(tool, {"a": [bad]})
        assert caught.value.path.startswith("x.a[0]")
        assert caught.value.facts["parameter"] == "x"
        assert "The tool was not run." in caught.value.message
        assert "volatile=('x',)" in caught.value.message
        with pytest.raises(NotPlainData):
            bind(tool, 1, more=bad)


def test_a_subclass_of_the_annotated_class_is_refused() -> None:
    @dataclasses.dataclass
    class Special(Address):
        floor: int = 0

    def tool(to: Address) -> None: ...

    with pytest.raises(NotPlainData, match="come back as Address, not Special"):
        bind(tool, Special("Bonn"))


def test_arguments_that_are_too_deep_only_together_are_refused_here_and_not_later() -> None:
    def tool(x: Any) -> None: ...

    deep: Any = 1
    for _ in range(values.MAX_DEPTH):
        deep = [deep]
    values.check_plain(deep)
    with pytest.raises(NotPlainData):
        bind(tool, deep)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
        max_leaves=5,
    )
)
def test_binding_raises_its_two_errors_and_nothing_else(value: Any) -> None:
    for function in (refund, _takes_anything, _takes_rich_types):
        try:
            bound = bind(function, value, value)
        except (InvalidArguments, NotPlainData):
            continue
        values.hash_of(bound.identity)
        values.encode(bound.plain)


def _takes_anything(x: Any, *args: Any) -> None: ...
def _takes_rich_types(x: dict[int, Decimal] | date | None, y: list[Path] | Address) -> None: ...


# Defaults


def test_a_default_that_cannot_be_represented_is_no_part_of_anything() -> None:
    def tool(a: int, client: Client = CLIENT) -> None: ...

    for bound in (bind(tool, 1), bind(tool, 1, CLIENT)):
        assert bound.plain == bound.identity == {"a": 1}
        assert bound.values == {"a": 1, "client": CLIENT}
    with pytest.raises(NotPlainData, match="'client'"):
        bind(tool, 1, Client())


def test_a_default_need_not_fit_its_annotation() -> None:
    def tool(day: date = None, count: int = "many") -> Any:  # type: ignore[assignment]  # noqa: RUF013
        return day, count

    bound = bind(tool, None, "many")
    assert bound.plain == {"day": None, "count": "many"}
    assert bound.identity == {}
    assert call_again(tool, bound) == (None, "many")
    with pytest.raises(InvalidArguments):
        bind(tool, count="few")


def test_a_mutable_default_stays_the_functions_own() -> None:
    def tool(x: int, seen: list[int] = []) -> list[int]:  # noqa: B006
        seen.append(x)
        return seen

    call = signature(tool)
    for expected in ([1], [1, 1]):
        bound = call.bind((1,), {})
        bound.values["seen"].append("ours")
        bound.plain["seen"].append("ours")
        args, kwargs = call.invoke_with(bound)
        assert tool(*args, **kwargs) == expected
        assert bound.identity == {"x": 1}
    assert call.bind((1,), {}).plain == {"x": 1, "seen": []}


# Volatile arguments


def test_volatile_arguments_are_recorded_and_not_hashed() -> None:
    call = signature(refund, volatile=("cents", "notify"))
    bound = call.bind((7, 4000, "late", True), {})
    assert bound.identity == {"order_id": 7, "reason": "late"}
    assert bound.plain == {"order_id": 7, "cents": 4000, "reason": "late", "notify": True}
    assert call.volatile_names() == ("cents", "notify")


def test_volatile_arguments_need_not_be_representable() -> None:
    def tool(a: Decimal, client: Client, token: SecretStr, **more: Any) -> None: ...

    call = signature(tool, volatile=("client", "token", "trace"))
    bound = call.bind((Decimal("1.0"), CLIENT, "hunter2"), {"trace": CLIENT, "b": 1})
    assert bound.identity == {"a": "1", "more": {"b": 1}}
    assert bound.plain == {"a": "1.0", "more": {"b": 1}}
    assert bound.values["client"] is CLIENT
    assert bound.values["more"] == {"trace": CLIENT, "b": 1}
    plain = call.bind((1, CLIENT, "x"), {"trace": "t"})
    assert plain.identity == {"a": "1"}
    assert plain.plain == {"a": "1", "more": {"trace": "t"}}


def test_if_all_is_volatile_there_is_one_identity() -> None:
    def tool(prompt: str, model: Any = None) -> None: ...

    call = signature(tool, volatile="*")
    assert call.bind(("a",), {}).identity == call.bind(("b", CLIENT), {}).identity == {}
    # Not its default, either: a call that is rebuilt from this record would lack what was given.
    assert call.bind(("b", CLIENT), {}).plain == {"prompt": "b"}
    assert call.bind(("b",), {}).plain == {"prompt": "b", "model": None}
    assert call.volatile_names() == ("prompt", "model")


def test_a_volatile_name_must_be_a_parameter() -> None:
    with pytest.raises(InvalidTool, match="volatile names 'cent'"):
        signature(refund, volatile=("cent",))


# The record


def everything(
    a: date, b: Any = 2, /, c: Address = BONN, *args: Decimal, d: int, **kwargs: Path
) -> Any:
    return locals()


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("2026-01-02",), {"d": 1}),
        (("2026-01-02", 3), {"d": 1, "c": {"city": "Köln"}}),
        (("2026-01-02", 2, Address("Bonn"), "1.50", 2), {"d": "1", "a": "x/y", "z": Path("z")}),
    ],
)
def test_a_recorded_call_is_made_again_as_it_was(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    call = signature(everything)
    bound = call.bind(args, kwargs)
    live_args, live_kwargs = call.invoke_with(bound)
    live = everything(*live_args, **live_kwargs)
    assert live == bound.values
    assert call_again(everything, bound) == live
    values.check_plain(bound.plain)


def test_a_default_of_the_time_of_the_call_is_used_again() -> None:
    def before(a: int, currency: str = "EUR") -> Any: ...
    def after(a: int, currency: str = "USD") -> Any:
        return a, currency

    assert call_again(after, bind(before, 1)) == (1, "EUR")


def test_a_value_is_not_validated_twice() -> None:
    def tool(
        a: Annotated[int, AfterValidator(lambda n: n + 1)],
        b: Annotated[list[str], BeforeValidator(lambda text: [*text, "!"])],
    ) -> Any:
        return a, [part for part in b if part != "!"], len(b)

    live = bind(tool, 1, ["x"])
    assert live.plain == {"a": 2, "b": ["x", "!"]}
    args, kwargs = signature(tool).rebuild(live.plain)
    assert kwargs["a"] == 2
    assert args == ()


def test_fields_that_were_never_set_are_unset_after_a_crash() -> None:
    def tool(patch: Patch) -> Any:
        return patch.model_dump(exclude_unset=True)

    assert call_again(tool, bind(tool, {"name": None})) == {"name": None}
    assert call_again(tool, bind(tool, Patch(email="x"))) == {"email": "x"}


def test_the_local_time_of_an_instant_is_the_same_after_a_crash() -> None:
    def tool(when: datetime) -> Any:
        return when.date(), when.utcoffset()

    late = datetime(2026, 1, 1, 0, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert call_again(tool, bind(tool, late)) == tool(late)


def test_new_code_reads_a_record_by_its_own_types_where_it_can() -> None:
    def before(a: str, b: int) -> None: ...
    def after(a: Path, b: float, c: int = 3) -> Any:
        return a, b, c

    again = call_again(after, bind(before, "x/y", 1))
    assert again == (Path("x/y"), 1.0, 3)
    assert type(again[1]) is float


def test_a_record_that_no_longer_fits_is_refused() -> None:
    def renamed(order: int, cents: int, reason: str, notify: bool) -> None: ...
    def retyped(order_id: date, cents: int, reason: str, notify: bool) -> None: ...
    def extended(order_id: int, cents: int, reason: str, notify: bool, account: str) -> None: ...

    bound = bind(refund, 7, 4000)
    cases: list[tuple[Callable[..., Any], str]] = [
        (renamed, "'order_id', which it no longer takes"),
        (retyped, "recorded argument 'order_id'"),
        (extended, "no value for 'account'"),
    ]
    for function, text in cases:
        with pytest.raises(InvalidArguments, match=text):
            call_again(function, bound)


def test_what_was_not_recorded_cannot_be_called_again() -> None:
    def tool(client: Client) -> None: ...

    call = signature(tool, volatile=("client",))
    with pytest.raises(InvalidArguments, match="no value for 'client'"):
        call.rebuild(call.bind((CLIENT,), {}).plain)


# Declaring


def test_the_instance_of_a_method_is_left_out() -> None:
    class Shop:
        def refund(self, order_id: int) -> None: ...

    call = signature(Shop.refund, skip_first=True)
    assert call.parameter_names() == ("order_id",)
    assert call.bind((7,), {}).identity == {"order_id": 7}
    assert call.invoke_with(call.bind((7,), {})) == ((), {"order_id": 7})


def test_typed_keyword_arguments_are_validated() -> None:
    class Options(TypedDict, total=False):
        day: date

    def tool(**options: Unpack[Options]) -> None: ...

    assert bind(tool, day="2026-01-02").values == {"options": {"day": date(2026, 1, 2)}}


def test_a_partial_and_a_wrapper_are_bound_like_their_function() -> None:
    partial = functools.partial(refund, cents=1)
    assert bind(partial, order_id="7").identity == {"order_id": 7}

    @functools.wraps(refund)
    def wrapper(*args: Any, **kwargs: Any) -> None: ...

    assert bind(wrapper, "7", 4000).identity == {"order_id": 7, "cents": 4000}


def test_what_has_no_readable_parameters_is_no_tool() -> None:
    with pytest.raises(InvalidTool, match="cannot be read"):
        signature(min)
    with pytest.raises(InvalidTool, match="cannot be read"):
        signature(7)  # type: ignore[arg-type]


def test_nothing_is_looked_up_before_the_first_call() -> None:
    def tool(x: object) -> object: ...

    tool.__annotations__.update(x="Unknown", **{"return": "AlsoUnknown"})
    call = signature(tool)
    assert call.bind((1,), {}).identity == {"x": 1}
    assert len(call.notes()) == 2
    assert call.result_codec().type_text() == "any plain data"


def test_the_result_codec_follows_the_return_annotation() -> None:
    def tool() -> list[Address]: ...  # type: ignore[empty-body]

    codec = signature(tool).result_codec()
    encoded = codec.encode([Address("Bonn")])
    assert codec.decode(encoded.plain, typed=encoded.typed) == [Address("Bonn")]
    assert signature(tool).notes() == ()


def test_many_threads_may_make_the_first_call() -> None:
    call = signature(everything)
    barrier = threading.Barrier(8)
    found: list[dict[str, Any]] = []

    def work() -> None:
        barrier.wait()
        found.append(call.bind(("2026-01-02",), {"d": 1}).identity)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [{"a": "2026-01-02", "d": 1}] * 8
