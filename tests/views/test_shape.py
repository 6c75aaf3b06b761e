"""Does one record become the JSON document and its documentation alike?"""

from __future__ import annotations

import enum
from typing import Annotated, Any

from nottwice.model.data.records import frozen_record
from nottwice.views.shape import Timestamp, meanings, moment, to_plain


class Colour(enum.Enum):
    RED = "red"


@frozen_record(frozen=True, slots=True, kw_only=True)
class Part:
    name: Annotated[str, "its name"]
    hidden: int


@frozen_record(frozen=True, slots=True, kw_only=True)
class Whole:
    from_: Annotated[int, "where it begins"]
    at: Annotated[Timestamp | None, "when"]
    colour: Annotated[Colour, "which"]
    parts: Annotated[tuple[Part, ...], "what it is made of"]
    data: Annotated[Any, "plain data of the user"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class Larger(Whole):
    more: Annotated[str, "what else"]


WHOLE = Larger(
    from_=1,
    at=Timestamp(0.5),
    colour=Colour.RED,
    parts=(Part(name="a", hidden=7),),
    data={"float": 0.5, "list": [None, True]},
    more="x",
)


def test_a_view_becomes_plain_data_field_by_field() -> None:
    assert to_plain(WHOLE) == {
        "from": 1,
        "at": "1970-01-01T00:00:00.500000Z",
        "colour": "red",
        "parts": [{"name": "a"}],
        "data": {"float": 0.5, "list": [None, True]},
        "more": "x",
    }


def test_a_document_has_the_fields_that_have_a_meaning_and_no_others() -> None:
    assert list(meanings(Larger)) == list(to_plain(WHOLE))
    assert meanings(Part) == {"name": "its name"}


def test_a_moment_that_is_missing_is_null() -> None:
    assert moment(None) is None
    assert to_plain(moment(0.0)) == "1970-01-01T00:00:00.000000Z"
