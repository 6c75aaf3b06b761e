"""Whether a failed call is tried again, how long the wait before that is, and why it is not."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nottwice as nt
from nottwice.errors import InvalidTool
from nottwice.model.failure import Failure, FailureClass
from nottwice.model.retry import NO_RETRY, RetryPolicy


def failed(
    retry_after: float | None = None, kind: FailureClass = FailureClass.RETRYABLE
) -> Failure:
    return Failure(kind, "TimeoutError", "too slow", retry_after)


# Whether


def test_an_attempt_that_was_lost_or_may_succeed_is_made_again() -> None:
    policy = RetryPolicy(2, reissues=1)
    assert policy.why_not_again(None, failed_attempts=0, lost_attempts=1) == ""
    assert policy.why_not_again(failed(), failed_attempts=1) == ""
    assert policy.why_not_again(failed(kind=FailureClass.AMBIGUOUS), failed_attempts=1) == ""


@pytest.mark.parametrize(
    ("failure", "count", "lost", "why"),
    [
        (None, 0, 2, "allows 1 reissues after a crash"),
        (failed(), 2, 0, "allows 2 attempts that end with an error"),
        (failed(kind=FailureClass.PERMANENT), 1, 0, "trying again cannot help"),
        (failed(301.0), 1, 0, "a longer wait than its retry policy allows"),
    ],
)
def test_what_forbids_another_attempt_is_said_and_no_delay_follows(
    failure: Failure | None, count: int, lost: int, why: str
) -> None:
    policy = RetryPolicy(2, reissues=1)
    assert why in policy.why_not_again(failure, failed_attempts=count, lost_attempts=lost)
    if not lost:
        assert policy.delay_seconds(failure, failed_attempts=count, random_unit=0.5) is None


# When


def delays(policy: RetryPolicy, random_unit: float) -> list[float | None]:
    return [
        policy.delay_seconds(failed(), failed_attempts=count, random_unit=random_unit)
        for count in range(1, policy.attempts + 1)
    ]


def test_delays_double_up_to_the_cap_and_then_end() -> None:
    policy = RetryPolicy(6, first_seconds=1, factor=2, most_seconds=5)
    assert delays(policy, 1.0) == [1, 2, 4, 5, 5, None]


def test_jitter_takes_any_part_of_the_delay() -> None:
    policy = RetryPolicy(4, first_seconds=1, factor=3, most_seconds=100)
    assert delays(policy, 0.0) == [0, 0, 0, None]
    assert delays(policy, 0.5) == [0.5, 1.5, 4.5, None]


def test_the_default_policy_makes_four_attempts_within_two_seconds_of_waiting() -> None:
    assert delays(RetryPolicy(), 1.0) == [0.5, 1.0, 2.0, None]


def test_no_retry_stops_after_the_first_attempt() -> None:
    assert delays(NO_RETRY, 0.0) == [None]


@pytest.mark.parametrize(("first", "expected"), [(1.0, 30.0), (0.0, 0.0)])
def test_a_delay_that_no_float_holds_is_the_cap(first: float, expected: float) -> None:
    policy = RetryPolicy(10**6, first_seconds=first, factor=10)
    delay = policy.delay_seconds(failed(), failed_attempts=10**5, random_unit=1.0)
    assert delay == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (0.0, 0.5),
        (0.4, 0.5),
        (7.0, 7.0),
        (300.0, 300.0),
        (300.5, None),
        (math.inf, 0.5),
        (math.nan, 0.5),
        (-1.0, 0.5),
    ],
)
def test_retry_after_is_a_floor_and_too_long_a_one_ends_it(
    asked: float, expected: float | None
) -> None:
    delay = RetryPolicy().delay_seconds(failed(asked), failed_attempts=1, random_unit=1.0)
    assert delay == expected


def test_retry_after_does_not_buy_more_attempts() -> None:
    delay = RetryPolicy(2).delay_seconds(failed(1.0), failed_attempts=2, random_unit=1.0)
    assert delay is None


@given(
    count=st.integers(1, 5_000),
    unit=st.floats(0, 1),
    asked=st.none() | st.floats(),
    factor=st.floats(1, 1e300),
)
def test_every_delay_is_within_its_bounds(
    count: int, unit: float, asked: float | None, factor: float
) -> None:
    policy = RetryPolicy(4_000, factor=factor)
    delay = policy.delay_seconds(failed(asked), failed_attempts=count, random_unit=unit)
    if delay is None:
        assert count >= 4_000 or (asked is not None and asked > 300)
    else:
        assert 0 <= delay <= 300
        assert delay >= (asked or 0) or asked is None or not math.isfinite(asked)


@pytest.mark.parametrize(
    "choice",
    [
        {"attempts": 0},
        {"attempts": -1},
        {"attempts": 2.0},
        {"attempts": True},
        {"attempts": "3"},
        {"first_seconds": -0.1},
        {"first_seconds": math.nan},
        {"first_seconds": True},
        {"first_seconds": 31},
        {"most_seconds": math.inf},
        {"most_seconds": None},
        {"factor": 0.9},
        {"factor": math.inf},
        {"factor": "2"},
        {"most_retry_after_seconds": -1},
        {"most_retry_after_seconds": 10**400},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused_with_the_rule(choice: dict[str, Any]) -> None:
    name = next(iter(choice))
    with pytest.raises(nt.errors.InvalidTool, match=rf"RetryPolicy\({name}=.*Make {name} "):
        RetryPolicy(**choice)


@pytest.mark.parametrize(("count", "unit"), [(0, 0.5), (1, -0.1), (1, 1.1), (1, math.nan)])
def test_a_delay_is_not_computed_from_nonsense(count: int, unit: float) -> None:
    with pytest.raises(nt.errors.UsageError, match="nothing was scheduled"):
        RetryPolicy().delay_seconds(failed(), failed_attempts=count, random_unit=unit)


def test_a_wait_is_a_number_of_seconds_or_a_duration() -> None:
    written = RetryPolicy(
        first_seconds="500ms", most_seconds=timedelta(seconds=30), most_retry_after_seconds="5m"
    )
    assert written == RetryPolicy(
        first_seconds=0.5, most_seconds=30.0, most_retry_after_seconds=300.0
    )
    for given_wait in ("30 seconds", "soon", timedelta(seconds=-1)):
        with pytest.raises(InvalidTool, match=r"most_seconds.*'30s'"):
            RetryPolicy(most_seconds=given_wait)
