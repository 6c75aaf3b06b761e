"""Can every number be shown as a time?"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from nottwice.model.data.calendar import utc


def test_a_moment_is_told_in_utc() -> None:
    assert utc(1_700_000_000.5) == datetime(2023, 11, 14, 22, 13, 20, 500_000, tzinfo=UTC)


@pytest.mark.parametrize("seconds", [1e12, 1e308, float("inf"), float("nan"), 2.0**63])
def test_what_is_beyond_all_calendars_is_their_last_moment(seconds: float) -> None:
    assert utc(seconds).year == 9999


@pytest.mark.parametrize("seconds", [-1e12, -1e308, float("-inf")])
def test_what_is_before_all_calendars_is_their_first_moment(seconds: float) -> None:
    assert utc(seconds).year == 1
