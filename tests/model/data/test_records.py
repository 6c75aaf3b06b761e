"""Records behave as frozen dataclasses; light records do so for the type checker only."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import FrozenInstanceError, field, replace
from typing import Any

import pytest

from nottwice.model.data.records import frozen_record, light_record


@light_record(frozen=True, slots=True)
class Pair:
    """A record with a field that may be left out."""

    one: int
    other: str = "b"


@light_record(frozen=True, slots=True, kw_only=True)
class Named:
    """A record whose fields must be named."""

    one: int


def test_equal_records_are_one_key() -> None:
    assert Pair(1) == Pair(1, "b") != Pair(2)
    assert {Pair(1): "found"}[Pair(1, "b")] == "found"


def test_a_record_is_replaced_and_not_changed() -> None:
    first = Pair(1)

    second = replace(first, one=2)

    assert (first.one, second.one, second.other) == (1, 2, "b")


def test_a_record_has_its_fields_and_no_others() -> None:
    with pytest.raises(AttributeError):
        Pair(1).another = 2  # type: ignore[attr-defined]


def test_fields_that_must_be_named_are_refused_by_position() -> None:
    with pytest.raises(TypeError):
        Named(1)  # type: ignore[call-arg]


def test_the_type_checker_takes_a_record_for_frozen() -> None:
    # Were it not, mypy would report that this comment silences nothing.
    Pair(1).one = 2  # type: ignore[misc]


def made_by(decorate: Any) -> Any:
    """A record with all that ours have."""

    @decorate(frozen=True, slots=True)
    class Kind:
        """One of them."""

        name: str
        secret: bytes = field(default=b"", repr=False)
        beside: int = field(default=0, compare=False)
        items: list[int] = field(default_factory=list)

        @property
        def length(self) -> int:
            return len(self.name)

    return Kind


Whole, Model = made_by(frozen_record), made_by(dataclasses.dataclass)


def outcome(action: Any) -> str:
    try:
        return repr(action())
    except (AttributeError, TypeError) as error:
        return type(error).__name__


@pytest.mark.parametrize(
    "action",
    [
        lambda kind: kind("a", b"hidden", 3, [1]),
        lambda kind: kind("a", b"x") == kind("a", b"x", 9),
        lambda kind: kind("a", b"x") == kind("a", b"y"),
        lambda kind: kind("a") == ("a", b"", 0, []),
        lambda kind: kind(float("nan")) == kind(float("nan")),
        lambda kind: hash(kind("a", items=())) == hash(kind("a", beside=7, items=())),
        lambda kind: hash(kind("a")),
        lambda kind: setattr(kind("a"), "name", "b"),
        lambda kind: delattr(kind("a"), "name"),
        lambda kind: copy.deepcopy(kind("a", items=[1])),
        lambda kind: copy.copy(kind("a")) == kind("a"),
        lambda kind: replace(kind("a"), name="b"),
        lambda kind: dataclasses.asdict(kind("a")),
        lambda kind: kind.__match_args__,
        lambda kind: kind(),
    ],
)
def test_a_frozen_record_is_what_a_frozen_dataclass_is(action: Any) -> None:
    assert outcome(lambda: action(Whole)) == outcome(lambda: action(Model))


def test_a_record_is_equal_to_itself_whatever_it_holds() -> None:
    """On every Python: dataclasses compare a NaN by identity up to 3.12, and by value since."""
    nan = float("nan")
    assert Whole(nan) == Whole(nan)


@pytest.mark.parametrize("name", ["length", "other"])
def test_nothing_else_can_be_set(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        setattr(Whole("a"), name, 3)


def test_a_field_is_set_once() -> None:
    whole = Whole("a")
    with pytest.raises(FrozenInstanceError, match="'name'"):
        whole.name = "b"
    assert whole.name == "a"


def test_a_record_may_be_itself_only_and_may_show_itself() -> None:
    @frozen_record(frozen=True, slots=True, eq=False)
    class Own:
        """Equal to nothing but itself."""

        one: int

        def __repr__(self) -> str:
            return "mine"

    own = Own(1)
    assert (own == own, own == Own(1), repr(own)) == (True, False, "mine")


def test_what_is_not_frozen_is_no_record() -> None:
    with pytest.raises(TypeError, match="records are frozen"):

        @frozen_record(slots=True, frozen=False)
        class Loose:
            """A record that would not be one."""

            one: int
