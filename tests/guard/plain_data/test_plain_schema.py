"""The schema of an annotation without classes is what pydantic says (P226)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Optional, TypedDict

import pytest
from pydantic import Field, TypeAdapter

from nottwice.guard.plain_data.plain_schema import plain_schema


class Mail(TypedDict):
    to: str


@pytest.mark.parametrize(
    "annotation",
    [
        Any,
        str,
        int,
        float,
        bool,
        None,
        list,
        dict,
        list[str],
        list[Any],
        dict[str, int],
        dict[str, Any],
        dict[str, list[float | None]],
        str | None,
        Optional[int],  # noqa: UP045
        int | str | None,
        list[dict[str, bool]] | None,
    ],
    ids=str,
)
def test_it_is_what_pydantic_says(annotation: Any) -> None:
    assert plain_schema(annotation) == TypeAdapter(annotation).json_schema()


@pytest.mark.parametrize(
    "annotation",
    [
        bytes,
        datetime,
        Mail,
        list[Mail],
        str | datetime,
        dict[int, str],
        tuple[int, str],
        set[int],
        Literal["a", "b"],
        Annotated[int, Field(gt=0)],
        Annotated[int, {}],
    ],
    ids=str,
)
def test_it_leaves_everything_else_to_pydantic(annotation: Any) -> None:
    assert plain_schema(annotation) is None
