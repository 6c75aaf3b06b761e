"""Is a row refused whose columns hold other types than they should?"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from nottwice.store import table as table_module
from nottwice.store.table import Column, Table, Type, field


class Visit(NamedTuple):
    """A record of five columns."""

    workflow_id: str
    attempt: int
    created_at: int
    finished_at: int | None
    window_seconds: float | None


def visits(*, sealed: str = "workflow_id created_at", sealed_if_any: str = "") -> Table[Visit]:
    return Table(
        "visits",
        "a visit",
        Visit,
        (
            field(Column("workflow_id")),
            field(Column("attempt", Type.NUMBER)),
            field(Column("created_at", Type.TIME)),
            field(Column("finished_at", Type.TIME, True)),
            field(Column("window_seconds", Type.REAL, True)),
        ),
        key="workflow_id attempt",
        sealed=sealed,
        sealed_if_any=sealed_if_any,
    )


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
    check = visits().check
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
    check = visits().check
    for _ in range(2):
        with pytest.raises(TypeError, match=what):
            check(row)


def test_only_so_many_shapes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "_MOST_SHAPES", 0)
    check = visits().check
    check(("r", 1, 2, 3, 4.5))
    with pytest.raises(TypeError):
        check(("r", "1", 2, 3, 4.5))


def test_a_row_is_changed_and_found_by_the_names_of_its_columns() -> None:
    table = visits()
    row = table.row(Visit("r", 1, 2, None, 4.5))
    assert table.named(row) == {
        "workflow_id": "r",
        "attempt": 1,
        "created_at": 2,
        "finished_at": None,
        "window_seconds": 4.5,
        "seal": None,
    }
    changed = table.changed(row, finished_at=3, seal="s")
    assert (table.value(changed, "finished_at"), table.value(changed, "seal")) == (3, "s")
    assert table.where(changed) == ("r", 1)


def test_a_seal_is_over_what_the_table_says_and_nothing_else() -> None:
    table = visits()
    row = table.row(Visit("r", 1, 2, None, None))
    assert table.under_seal(row) == ("r", 2)
    assert table.under_seal(table.changed(row, attempt=7, seal="s")) == ("r", 2)


def test_a_later_column_of_a_wholly_sealed_row_is_sealed_once_and_only_if_it_has_a_value() -> None:
    table = visits(sealed="*", sealed_if_any="finished_at window_seconds")
    old = table.row(Visit("r", 1, 2, None, None))
    assert table.under_seal(old) == ("r", 1, 2)
    assert table.under_seal(table.changed(old, finished_at=3)) == ("r", 1, 2, 3, None)
