"""Can a TypedDict of ``typing`` be used wherever pydantic meets it, also before Python 3.12?"""

from __future__ import annotations

import datetime as dt
import typing
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import pytest
from annotated_types import Gt
from pydantic import ConfigDict

from nottwice.guard.plain_data.typed_form import build_adapter, restore

DAY = {"when": "2026-11-19", "cents": 7}
READ = {"when": dt.date(2026, 11, 19), "cents": 7}


class Day(TypedDict):
    when: dt.date
    cents: Annotated[int, Gt(0)]
    kind: NotRequired[Literal["a", "b"]]


class Week(TypedDict, total=False):
    days: list[Day]
    best: Day | None


class Tree(TypedDict):
    leaves: list[Tree]


@pytest.mark.parametrize(
    ("annotation", "plain", "read"),
    [
        (Day, DAY, READ),
        (list[Day], [DAY], [READ]),
        (typing.List[Day], [DAY], [READ]),  # noqa: UP006
        (dict[str, tuple[Day, ...]], {"a": [DAY]}, {"a": (READ,)}),
        (Day | None, DAY, READ),
        (Optional[Day], None, None),  # noqa: UP045
        (Annotated[Day, "said"], DAY, READ),
        (Week, {"days": [DAY], "best": None}, {"days": [READ], "best": None}),
    ],
)
def test_it_is_read_back_at_any_depth(annotation: Any, plain: Any, read: Any) -> None:
    adapter, note = build_adapter(annotation)
    assert note is None
    assert restore(adapter, plain) == read


def test_what_does_not_fit_is_refused() -> None:
    adapter, _ = build_adapter(list[Day])
    for wrong in ({"when": "soon", "cents": 7}, {"when": "2026-11-19", "cents": 0}, {"cents": 7}):
        with pytest.raises(ValueError, match="validation error"):
            restore(adapter, [wrong])


class Strict(TypedDict):
    cents: int


# From outside, because the body of a TypedDict has only keys.
setattr(Strict, "__pydantic_config__", ConfigDict(strict=True))  # noqa: B010


def test_it_keeps_its_settings() -> None:
    adapter, _ = build_adapter(list[Strict])
    assert restore(adapter, [{"cents": 7}]) == [{"cents": 7}]
    with pytest.raises(ValueError, match="validation error"):
        restore(adapter, [{"cents": "7"}])


def test_one_that_contains_itself_does_no_harm() -> None:
    adapter, note = build_adapter(Tree)
    assert note is not None or restore(adapter, {"leaves": []}) == {"leaves": []}
