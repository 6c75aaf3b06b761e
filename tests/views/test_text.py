"""Is every text safe to show, and every moment in the right zone?"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nottwice.views import text as texts


@given(st.text())
def test_safe_text_is_printable_and_on_one_line(text: str) -> None:
    assert texts.safe(text).isprintable()


@given(st.text(alphabet=st.characters(exclude_categories=["C", "Zl", "Zp", "Zs"])))
def test_printable_text_is_left_as_it_is(text: str) -> None:
    assert texts.safe(text) == text


def test_what_is_escaped_can_be_recognised() -> None:
    assert texts.safe("a\x1b[31m\n\t\r\x9b\u202e\ud800") == (
        "a\\x1b[31m\\n\\t\\r\\x9b\\u202e\\ud800"
    )


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_shortened_text_is_never_longer_than_allowed(text: str, most: int) -> None:
    assert len(texts.shorten(text, most)) <= most


def test_short_text_is_not_cut_and_long_text_shows_that_it_is() -> None:
    assert texts.shorten("abc", 3) == "abc"
    assert texts.shorten("abcd", 3) == "ab…"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(-5, "0 s ago"), (59, "59 s ago"), (61, "1 min ago"), (7200, "2 h ago"), (1e6, "11 d ago")],
)
def test_an_age_is_told_in_the_largest_unit_that_fits(seconds: float, expected: str) -> None:
    assert texts.age_text(seconds) == expected


def test_moments_are_told_in_utc_to_programs() -> None:
    assert texts.utc_text(1_700_000_000.9999) == "2023-11-14 22:13:20.999"
    assert texts.iso_text(1_700_000_000.25) == "2023-11-14T22:13:20.250000Z"
    assert texts.utc_text(None) is None
    assert texts.iso_text(None) is None


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
def test_moments_are_told_in_local_time_to_people_with_the_zone() -> None:
    summer, winter = 1_688_200_000.5, 1_700_000_000.9999
    assert texts.moment_text(winter) == "2023-11-14 23:13:20.999 CET"
    assert texts.moment_text(summer) == "2023-07-01 10:26:40.500 CEST"
    assert texts.second_text(winter) == "2023-11-14 23:13:20 CET"
    assert texts.moment_text(None) is None
    # A table has one zone in its heading, also if its rows are from both halves of the year.
    assert texts.local_text(summer, texts.local_zone(winter)) == "2023-07-01 09:26:40.500"


@pytest.mark.parametrize("seconds", [-1e30, 1e30, float("nan")])
def test_any_number_in_a_ledger_is_told_as_a_moment(seconds: float) -> None:
    assert texts.moment_text(seconds)


def test_only_what_is_not_zero_is_counted_in_words() -> None:
    assert texts.count_text([("open", 2), ("decided", 0)]) == "2 open"
    assert texts.count_text([("open", 0)]) == "none"
