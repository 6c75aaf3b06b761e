"""Does every text from elsewhere stay one printable line, and every harmless one itself?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nottwice.model.data.printable import one_line


@given(st.text(st.characters()))
def test_any_text_becomes_one_printable_line(text: str) -> None:
    shown = one_line(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1
    shown.encode("utf-8")


@pytest.mark.parametrize("text", ["", "ticket-7", "Ünïcödé ☃ 漢字 🦀", "100 % of 'it'", "\\n"])
def test_what_is_printable_stays_as_it_is(text: str) -> None:
    assert one_line(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", "a\\nb"),
        ("a\rb\tc", "a\\rb\\tc"),
        ("\x1b[2J\x9b2J", "\\x1b[2J\\x9b2J"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("\0\x07", "\\x00\\x07"),
        ("\u2028\x85", "\\u2028\\x85"),
        ("\udcff", "\\udcff"),
    ],
)
def test_what_steers_is_spelled_out(text: str, shown: str) -> None:
    assert one_line(text) == shown
