"""Is a record refused whose fields are of other types than it declares?"""

from __future__ import annotations

import math
from typing import Any

import pytest

from nottwice.errors import LedgerCorrupt
from nottwice.model.asking.asked import Question
from nottwice.model.call import PastAttempt
from nottwice.model.data.shapes import checked, not_believed
from nottwice.model.review import ReviewKind
from nottwice.model.run import Wait, WaitKind


@pytest.mark.parametrize("until", [None, 1, 1.5])
def test_a_record_of_the_declared_types_is_itself(until: float | None) -> None:
    wait = Wait(WaitKind.TIMER, "a", "b", until)
    assert checked(wait) is wait


@pytest.mark.parametrize(
    "record",
    [
        Wait("timer", "a", "b"),  # type: ignore[arg-type]
        Wait(WaitKind.TIMER, 1, "b"),  # type: ignore[arg-type]
        Wait(WaitKind.TIMER, "a", "b", "soon"),  # type: ignore[arg-type]
        Wait(WaitKind.TIMER, "a", "b", True),
        Wait(WaitKind.TIMER, "a", "b", 10**400),
        Wait(WaitKind.TIMER, "a", "b", -math.inf),
        Wait(WaitKind.TIMER, "a", "b", math.nan),
        PastAttempt(True, "a", "b", 1.0, 2.0, "c"),
        PastAttempt(1, "a", "b", 1.0, None, "c"),  # type: ignore[arg-type]
        Question("?", options=("a", 7)),  # type: ignore[arg-type]
        Question("?", options=["a"]),  # type: ignore[arg-type]
        Question("?", kind="question"),  # type: ignore[arg-type]
    ],
)
def test_a_record_of_other_types_is_refused(record: Any) -> None:
    with pytest.raises(TypeError):
        checked(record)


def test_a_field_that_may_be_anything_is_not_looked_at() -> None:
    assert checked(Question("?", about=object(), kind=ReviewKind.BUDGET)).text == "?"


@pytest.mark.parametrize(
    "error", [KeyError("a"), TypeError(), ValueError(), AttributeError(), OverflowError()]
)
def test_what_cannot_be_read_is_said_not_to_be_believed(error: Exception) -> None:
    with pytest.raises(LedgerCorrupt, match=r"The thing cannot be read .* It was not used"):
        with not_believed("The thing"):
            raise error


def test_an_interrupted_read_is_not_called_corrupt() -> None:
    with pytest.raises(KeyboardInterrupt), not_believed("The thing"):
        raise KeyboardInterrupt
