"""Does the server read arrays as they were written, whatever they contain?"""

from __future__ import annotations

from nottwice.store.postgres.statements import as_arrays
from tests.postgres import server

TEXTS = (
    *("", " ", "plain", "NULL", "null", None, "a,b", "{a}", "}{", '"', '""', "\\", '\\"', "\\\\"),
    *("a\nb\tc\r", "'", "''; --", "%s", "$1", "ü", "日本", "\U0001f600", "\u2028", "x" * 5000),
    '{"verb": "abort", "why": "it said \\"no\\", twice\\n"}',
)


def test_arrays_come_back_as_they_were_written() -> None:
    rows = [(number, text, number / 7) for number, text in enumerate(TEXTS)]
    numbers, texts, parts = as_arrays(rows, width=3)
    with server.connected() as connection:
        found = connection.execute(
            "SELECT * FROM unnest(%s::bigint[], %s::text[], %s::double precision[])",
            (numbers, texts, parts),
        ).fetchall()
    assert found == rows


def test_no_row_is_an_empty_array_for_every_column() -> None:
    assert as_arrays([], width=2) == ["{}", "{}"]
