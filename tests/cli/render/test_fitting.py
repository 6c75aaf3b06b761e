"""Do tables fit the terminal, with every id whole?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from nottwice.cli.render import output
from nottwice.cli.render.fitting import GAP, LEAST, FittedColumn, fit, lines_of, wrap_words
from tests.cli.workplace import Workplace

COLUMNS = ("run", "state", "graph", "about", "age")
ELASTIC = {"graph", "about"}


def row(
    run: str = "ticket-7", *, graph: str = "", about: str = "", age: str = "2 min"
) -> list[str]:
    return [run, "waiting", graph, about, age]


def shown(width: int, *rows: list[str], **options: Any) -> dict[str, int]:
    """The columns that are shown, with their widths."""
    fitted = fit(COLUMNS, rows, width=width, cut=ELASTIC, **options)
    return {COLUMNS[one.index]: one.width for one in fitted}


def test_a_column_without_text_is_left_out() -> None:
    assert list(shown(80, row(about="Refund"))) == ["run", "state", "about", "age"]


def test_an_id_that_is_too_long_makes_its_own_line_longer_and_not_the_whole_table() -> None:
    long = "customer-" + "7" * 100
    rows = [row("ticket-7", about="Refund"), row(long, about="Refund")]
    fitted = fit(COLUMNS, rows, width=80, cut=ELASTIC)
    ((first,), (second,)) = ([*lines_of(cells, fitted)] for cells in _shown_cells(rows, fitted))
    assert cell_len("".join(first).rstrip()) <= 80
    assert "".join(second).startswith(f"{long}  waiting  Refund")
    # Where it fits, the columns are in line as always.
    assert shown(200, *rows)["run"] == len(long)


def _shown_cells(rows: list[list[str]], fitted: list[FittedColumn]) -> list[list[str]]:
    return [[cells[one.index] for one in fitted] for cells in rows]


def test_each_column_gets_what_it_wants_where_there_is_room() -> None:
    assert shown(200, row(graph="g" * 30, about="a" * 90))["about"] == 90


def test_long_texts_give_way_and_ids_do_not() -> None:
    found = shown(80, row("t" * 40, about="a" * 90))
    assert found["run"] == 40
    assert sum(found.values()) + GAP * (len(found) - 1) == 80


def test_a_modest_column_leaves_its_room_to_the_others() -> None:
    found = shown(80, row(graph="short@1.0.0", about="a" * 90))
    assert found["graph"] == len("short@1.0.0")
    assert sum(found.values()) + GAP * (len(found) - 1) == 80


def test_a_column_that_begins_with_an_id_stays_wide_enough_for_it() -> None:
    found = shown(80, row("t" * 70, about="review d6ee0f12"), least={"about": 15})
    assert found["about"] == 15


def test_a_text_is_broken_between_words_and_a_longer_word_stays_whole() -> None:
    url = "https://example.com/" + "a" * 30
    assert wrap_words(f"  check at {url} or not", 12) == ["  check at", url, "or not"]
    assert wrap_words("日本 日本 日本", 9) == ["日本 日本", "日本"]
    assert wrap_words("", 9) == [""]
    assert wrap_words('{"id":"abcd","words":[1,2]}', 9) == ['{"id":"abcd",', '"words":[1,2]}']
    columns = [FittedColumn(0, 4, wraps=False), FittedColumn(1, 12, wraps=True)]
    told = ["".join(parts).rstrip() for parts in lines_of(["done", f"check {url}"], columns)]
    assert told == ["done  check", f"      {url}"]
    (cut,) = lines_of(["done", "abc"], [FittedColumn(0, 3, wraps=False), columns[1]])
    assert "".join(cut).rstrip() == "do…  abc"


def test_columns_are_spared_one_after_the_other() -> None:
    long = row("t" * 40, graph="g" * 30, about="a" * 90)
    assert "graph" in shown(100, long, spare=("graph", "age"))
    assert "graph" not in shown(75, long, spare=("graph", "age"))
    assert "age" in shown(75, long, spare=("graph", "age"))
    assert "age" not in shown(60, long, spare=("graph", "age"))


@given(
    st.integers(20, 250),
    st.lists(st.lists(st.text("ab ", max_size=60), min_size=5, max_size=5), min_size=1, max_size=4),
)
def test_a_table_fits_or_its_whole_columns_leave_no_room(width: int, rows: list[list[str]]) -> None:
    found = shown(width, *rows)
    taken = sum(found.values()) + GAP * (len(found) - 1)
    whole = {
        name: max(cell_len(name), *(cell_len(cells[COLUMNS.index(name)]) for cells in rows))
        for name in found
        if name not in ELASTIC
    }
    if sum(whole.values()) + GAP * (len(whole) - 1) <= width:
        assert {name: found[name] for name in whole} == whole
    assert all(found[name] <= size for name, size in whole.items())
    fitted = fit(COLUMNS, rows, width=width, cut=ELASTIC)
    for cells in _shown_cells(rows, fitted):
        for line in lines_of(cells, fitted):
            for part, cell, one in zip(line, cells, fitted, strict=True):
                assert COLUMNS[one.index] in ELASTIC or part.startswith(cell + " " * GAP)
    squeezed = all(found[name] <= LEAST for name in ELASTIC & found.keys())
    assert taken <= width or squeezed


LINES = (
    "",
    "runs",
    "runs --all",
    "runs --state waiting",
    "reviews --all",
    "show ticket-7",
    "show ticket-8",
    "show done-1",
    "audit",
    "gc --dry-run",
)


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("line", LINES)
def test_a_command_fits_the_terminal_and_breaks_no_id(
    killed: Workplace, monkeypatch: pytest.MonkeyPatch, line: str, width: int
) -> None:
    monkeypatch.setattr(output, "_on_terminal", lambda: True)
    monkeypatch.setattr(
        output, "_console", lambda stream: Console(file=stream, width=width, color_system=None)
    )
    ended = killed.cli(*line.split())
    assert ended.exit_code in (0, 3), ended.output
    lines = [text.rstrip() for text in ended.stdout.splitlines()]
    # A command to copy stays one line, and so does the place of the ledger.
    wide = [text for text in lines if cell_len(text) > width and "nottwice" not in text]
    assert [text for text in wide if killed.store not in text] == []
    monkeypatch.setattr(output, "_on_terminal", lambda: False)
    plain = killed.cli(*line.split()).stdout
    for run_id in ("ticket-7", "ticket-8", "ticket-9", "done-1"):
        assert (run_id in plain) == any(run_id in text for text in lines), run_id
