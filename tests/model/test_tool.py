"""Durations, a tool's window, and what a verify hook can answer (T2, T3)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from nottwice.errors import InvalidTool
from nottwice.model.call import ResultKind, StoredResult
from nottwice.model.decision import Answer
from nottwice.model.replay_class import ReplayClass
from nottwice.model.tool import (
    Tool,
    cannot_tell,
    did_not_happen,
    happened,
    parse_duration,
    still_running,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("30s", 30),
        ("1.5 h", 5400),
        (" 15m ", 900),
        ("15min", 900),
        ("24h", 86400),
        ("7d", 604800),
        ("2w", 1209600),
        (timedelta(hours=24), 86400),
        (timedelta(milliseconds=250), 0.25),
    ],
)
def test_a_duration_is_a_number_with_a_unit_or_a_timedelta(text: Any, seconds: float) -> None:
    assert parse_duration(text, what="window") == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "h", "24", "1h30m", "24 hours", "-1s", "1e3s", "1s\n2"])
def test_text_that_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidTool) as caught:
        parse_duration(text, what="window")
    assert str(caught.value).startswith(f"window={text!r} is not a duration.")
    assert "'24h'" in str(caught.value)


@pytest.mark.parametrize("value", ["0s", "99999999999s", timedelta(0), timedelta(seconds=-1)])
def test_a_duration_is_longer_than_zero_and_finite(value: Any) -> None:
    with pytest.raises(InvalidTool, match="longer than zero and finite"):
        parse_duration(value, what="window")


@pytest.mark.parametrize("value", [24, 0, -1, 0.5, 1e11, float("inf"), float("nan")])
def test_a_number_without_a_unit_is_refused_with_the_ways_to_write_it(value: Any) -> None:
    """``window=24`` was meant as hours, and was 24 seconds."""
    with pytest.raises(InvalidTool, match=r"window=.* has no unit\.") as caught:
        parse_duration(value, what="window")
    assert "'24h' or '7d', or give a datetime.timedelta" in str(caught.value)


def test_a_number_of_thousands_of_digits_is_refused_without_being_spelled() -> None:
    given: Any = 10**5000
    with pytest.raises(InvalidTool, match="window=a huge number has no unit"):
        parse_duration(given, what="window")


@pytest.mark.parametrize("value", [True, None, [1], b"1s"])
def test_a_duration_is_text_or_a_timedelta(value: Any) -> None:
    with pytest.raises(InvalidTool, match="window must be a duration, not"):
        parse_duration(value, what="window")


def tool(**more: Any) -> Tool:
    return Tool(
        name="refund",
        replay_class=ReplayClass.IDEMPOTENT_WITH_KEY,
        function=lambda: None,
        is_async=False,
        result_type=lambda: "any plain data",
        encode_result=lambda value: StoredResult(ResultKind.PLAIN, "null"),
        decode_result=lambda stored: None,
        adopt_result=lambda plain: StoredResult(ResultKind.PLAIN, "null"),
        rebuild=None,
        **more,
    )


def closes_at(recorded_seconds: float, **more: Any) -> float:
    return tool(**more).window_closes_at(key_since=1000.0, recorded_seconds=recorded_seconds)


def test_a_window_closes_a_minute_early_so_that_an_attempt_still_arrives_inside() -> None:
    assert closes_at(3600) == 1000 + 3600 - 60


def test_a_long_time_limit_closes_the_window_that_much_earlier() -> None:
    assert closes_at(3600, time_limit_seconds=600.0) == 1000 + 3600 - 600
    assert closes_at(3600, time_limit_seconds=5.0) == 1000 + 3600 - 60


def test_a_short_window_is_open_for_at_least_half_of_it() -> None:
    assert closes_at(30) == 1000 + 15
    assert closes_at(100) == 1000 + 50


def test_of_the_recorded_and_the_declared_window_the_shorter_counts() -> None:
    """New code that believes in a longer window must not reissue past the recorded one."""
    assert closes_at(3600, window_seconds=86400.0) == closes_at(3600)
    assert closes_at(86400, window_seconds=3600.0) == closes_at(3600)


def test_a_verify_hook_has_four_answers() -> None:
    assert (happened({"id": 7}).answer, happened({"id": 7}).result) == (Answer.HAPPENED, {"id": 7})
    answers = [made().answer for made in (did_not_happen, still_running, cannot_tell)]
    assert answers == [Answer.DID_NOT_HAPPEN, Answer.STILL_RUNNING, Answer.UNKNOWN]
    assert {made().result for made in (did_not_happen, still_running, cannot_tell)} == {None}
