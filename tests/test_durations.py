"""Is every spelling of a length of time read, and nothing else?"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nottwice as nt
from nottwice.durations import parse_retry_after, read_duration, read_wait
from tests.fakes import Host

NOW = 1_900_000_000.0  # Sun, 17 Mar 2030 17:46:40 GMT


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("30s", 30.0),
        (" 1.5 min ", 90.0),
        ("500ms", 0.5),
        ("24h", 86_400.0),
        ("7d", 604_800.0),
        (timedelta(hours=1), 3600.0),
        ("30", None),
        ("s", None),
        ("-1s", None),
        ("1e3s", None),
        ("٣s", None),
        ("1s 2s", None),
    ],
)
def test_a_duration_is_a_number_and_a_unit(given_text: Any, expected: float | None) -> None:
    assert read_duration(given_text) == expected


@pytest.mark.parametrize("wait", ["30s", 30, 30.0, "30", timedelta(seconds=30)])
def test_a_wait_has_several_spellings(wait: Any) -> None:
    assert read_wait(wait, now=NOW) == 30.0


@pytest.mark.parametrize("retry_after", ["30s", 30, timedelta(seconds=30)], ids=str)
def test_a_tool_is_not_tried_again_before_the_wait_that_it_asks_for(
    retry_after: Any, host: Host
) -> None:
    """P228."""
    tries: list[float] = []

    @nt.tool("unsafe_on_replay", name="order_a_taxi")
    def order_a_taxi() -> str:
        tries.append(host.clock.now())
        if len(tries) == 1:
            raise nt.Retryable("no car", retry_after=retry_after)
        return "on its way"

    with host.process() as ledger, ledger.run("r"):
        assert order_a_taxi() == "on its way"
    assert tries[1] - tries[0] == 30.0


def test_a_tool_whose_wait_cannot_be_read_is_tried_again_and_says_so(host: Host) -> None:
    """P228: the tool said that nothing took effect, and that counts."""
    tries: list[int] = []

    @nt.tool("unsafe_on_replay", name="order_a_van", retry=nt.RetryPolicy(attempts=2))
    def order_a_van() -> str:
        tries.append(1)
        raise nt.Retryable("no car", retry_after="30 seconds")

    with pytest.raises(nt.Retryable, match=r"no car\. .*retry_after='30 seconds'.*'30s'"):
        with host.process() as ledger, ledger.run("r"):
            order_a_van()
    assert len(tries) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 120 ", 120.0),
        ("1.5", 1.5),
        ("+3", 3.0),
        ("-5", 0.0),
        ("Sun, 17 Mar 2030 17:47:40 GMT", 60.0),
        ("Sunday, 17-Mar-30 17:47:40 GMT", 60.0),
        ("Sun Mar 17 17:47:40 2030", 60.0),
        ("Sun, 17 Mar 2030 18:47:40 +0100", 60.0),
        ("Sun, 17 Mar 2030 17:46:60 GMT", 19.0),
        ("Sun, 17 Mar 2030 17:00:00 GMT", 0.0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("-inf", None),
        ("1e3", None),
        ("1_0", None),
        ("١٢", None),
        ("9" * 400, None),
        ("9" * 5_000, None),
        ("Sun, 31 Feb 2030 17:47:40 GMT", None),
        ("2030-03-17T17:47:40Z", None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_retry_after_is_read_as_seconds_or_a_date(text: str, expected: float | None) -> None:
    assert parse_retry_after(text, now=NOW) == expected


@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, [0-9-]{1,4} [A-Za-z]{3} [0-9:]{1,12} .*"))
def test_no_header_breaks_the_reader(text: str) -> None:
    seconds = parse_retry_after(text, now=NOW)
    assert seconds is None or (math.isfinite(seconds) and seconds >= 0)
