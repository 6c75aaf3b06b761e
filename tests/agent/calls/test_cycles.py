"""Is a circle noticed, whatever its period, and is progress left alone?"""

from __future__ import annotations

import functools
import itertools

import pytest

from nottwice.agent.calls.cycles import MOST_PERIOD, NONE, follow


def found(things: str) -> tuple[int, int]:
    end = functools.reduce(follow, things, dict(NONE))
    return end["count"], end["period"]


@pytest.mark.parametrize(
    ("things", "count", "period"),
    [
        ("a", 1, 1),
        ("aaaa", 4, 1),
        ("abab", 2, 2),
        ("xyzababab", 3, 2),
        ("abcabcabc", 3, 3),
        ("abcdabcdabcd", 3, 4),
        ("ababababc", 1, 1),
        ("abcdef", 1, 1),
        ("abacad", 1, 1),
    ],
)
def test_a_circle_is_counted_with_its_period(things: str, count: int, period: int) -> None:
    assert found(things) == (count, period)


def test_what_is_kept_does_not_grow() -> None:
    kept = functools.reduce(follow, itertools.islice(itertools.cycle("ab"), 1000), dict(NONE))
    assert len(kept["of"]) == len(kept["runs"]) == MOST_PERIOD
    assert kept["count"] == 500
