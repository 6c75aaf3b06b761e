"""A type that no answer can have is known before a person is asked; all others are not refused."""

from __future__ import annotations

import collections
import enum
from collections.abc import Iterator, Sequence, Set
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, SecretStr

from nottwice.errors import NotPlainData
from nottwice.guard.plain_data.codec import Codec
from nottwice.guard.plain_data.keepable import never_kept


class Parcel(BaseModel):
    weight: int


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (bytes, b"a"),
        (bytearray, bytearray(b"a")),
        (set[int], {1}),
        (frozenset, frozenset()),
        (Set[int], {1}),
        (collections.deque[int], collections.deque([1])),
        (complex, 1j),
        (range, range(3)),
        (Iterator[int], iter([1])),
        (SecretStr, SecretStr("a")),
        (Annotated[bytes, "a note"], b"a"),
        (list[bytes], [b"a"]),
        (dict[str, set[int]], {"a": {1}}),
        (set[int] | None, {1}),
    ],
)
def test_a_type_that_is_refused_has_no_value_that_is_kept(annotation: Any, value: object) -> None:
    assert never_kept(annotation) is not None
    with pytest.raises(NotPlainData):
        Codec(annotation, where="the answer").encode(value)


@pytest.mark.parametrize(
    "annotation",
    [
        *(str, int, float, bool, None, Any, object, date, Decimal, Parcel, Colour),
        *(list[int], dict[str, int], tuple[int, ...], Sequence[int], collections.Counter[str]),
        *(Literal["a", b"b"], str | bytes, int | None, "a name", list["Parcel"]),
    ],
)
def test_a_type_that_may_have_a_value_that_is_kept_is_not_refused(annotation: Any) -> None:
    assert never_kept(annotation) is None
