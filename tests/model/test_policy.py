"""Amounts are counted exactly, and of several rulings the strictest counts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import nottwice as nt
from nottwice.model.policy import RulingKind, in_millionths, read_kind, shown_amount, strictest


@pytest.mark.parametrize(
    ("amount", "counted"),
    [
        (0, 0),
        (7, 7_000_000),
        (0.1, 100_000),
        ("12.50", 12_500_000),
        (Decimal("0.0000001"), 1),
        (10**12, 10**18),
    ],
)
def test_an_amount_is_counted_in_millionths_and_rounded_up(amount: Any, counted: int) -> None:
    assert in_millionths(amount, what="it") == counted


@pytest.mark.parametrize("amount", [None, True, "", "x", "NaN", -0.1, 10**12 + 1, b"1", "1e99"])
def test_what_is_no_amount_is_refused(amount: Any) -> None:
    with pytest.raises(nt.errors.UsageError, match="it must be"):
        in_millionths(amount, what="it")


def test_an_amount_is_shown_as_a_person_writes_it() -> None:
    assert [shown_amount(one) for one in (0, 1, 2_500_000, 10**18)] == [
        "0",
        "0.000001",
        "2.5",
        "1000000000000",
    ]


def test_the_strictest_ruling_counts() -> None:
    allow, ask, deny, stop = RulingKind
    assert strictest([]) is allow
    assert strictest([ask, allow]) is ask
    assert strictest([deny, ask]) is deny
    assert strictest([deny, stop, ask]) is stop


def test_a_misspelt_ruling_is_told_what_there_is() -> None:
    assert read_kind("ask", what="otherwise") is RulingKind.ASK
    with pytest.raises(nt.errors.UsageError, match="'allow', 'ask', 'deny', 'stop'"):
        read_kind("refuse", what="otherwise")
