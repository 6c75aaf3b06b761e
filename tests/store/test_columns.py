"""Is a row refused whose columns hold other types than they should?"""

from __future__ import annotations

from typing import Any

import pytest

from nottwice.store import columns
from nottwice.store.columns import check_of

COLUMNS = "workflow_id, attempt, created_at, finished_at, window_seconds"
OPTIONAL = "finished_at window_seconds"


@pytest.mark.parametrize(
    "row",
    [
        ("r", 1, 2, 3, 4.5),
        ("r", 1, 2, None, None),
        ["r", 1, 2, 3, 4],
        ("r", 1, 2, 3, 4.5, "what comes behind", b"is not looked at"),
    ],
)
def test_a_row_of_the_right_types_passes_again_and_again(row: Any) -> None:
    check = check_of(COLUMNS, optional=OPTIONAL)
    check(row)
    check(row)


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (("r", 1, 2, 3), "too few"),
        ((None, 1, 2, 3, 4.5), "workflow_id is NoneType"),
        ((b"r", 1, 2, 3, 4.5), "workflow_id is bytes"),
        (("r", "1", 2, 3, 4.5), "attempt is str"),
        (("r", True, 2, 3, 4.5), "attempt is bool"),
        (("r", 1, 2.0, 3, 4.5), "created_at is float"),
        (("r", 1, None, 3, 4.5), "created_at is NoneType"),
        (("r", 1, 2, "3", 4.5), "finished_at is str"),
        (("r", 1, 2, 3, "4"), "window_seconds is str"),
    ],
)
def test_a_row_of_other_types_is_refused_however_often_it_is_read(row: Any, what: str) -> None:
    check = check_of(COLUMNS, optional=OPTIONAL)
    for _ in range(2):
        with pytest.raises(TypeError, match=what):
            check(row)


def test_only_so_many_shapes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_MOST_SHAPES", 0)
    check = check_of(COLUMNS, optional=OPTIONAL)
    check(("r", 1, 2, 3, 4.5))
    with pytest.raises(TypeError):
        check(("r", "1", 2, 3, 4.5))
