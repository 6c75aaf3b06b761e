"""Records that are made in every call behave as frozen dataclasses do, and are filled faster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nottwice.model.records import light_record


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
