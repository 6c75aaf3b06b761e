"""A ruling says what happens to a call, and why."""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice import policy
from nottwice.model.policy import RulingKind


def test_there_are_four_rulings() -> None:
    assert policy.allow().kind is RulingKind.ALLOW
    assert policy.deny("no") == policy.Ruling(RulingKind.DENY, "no")
    assert policy.ask("may I?") == policy.Ruling(RulingKind.ASK, "may I?")
    assert policy.stop("enough") == policy.Ruling(RulingKind.STOP, "enough")


@pytest.mark.parametrize("why", ["", "  ", None, 7])
def test_a_refusal_without_a_reason_is_refused(why: Any) -> None:
    for ruling in (policy.deny, policy.ask, policy.stop):
        with pytest.raises(nt.errors.UsageError, match="needs a reason"):
            ruling(why)


def test_a_charge_allows_a_call_and_counts_it() -> None:
    ruling = policy.charge("tokens", "12.5", at_most=100, per="1h", otherwise="ask")
    assert ruling.kind is RulingKind.ALLOW
    (charge,) = ruling.charges
    assert (charge.amount, charge.at_most) == (12_500_000, 100_000_000)
    assert (charge.window_seconds, charge.otherwise) == (3600.0, RulingKind.ASK)


@pytest.mark.parametrize(
    "words",
    [
        {"amount": -1},
        {"amount": float("nan")},
        {"amount": float("inf")},
        {"amount": True},
        {"amount": "many"},
        {"amount": [1]},
        {"amount": 10**13},
        {"at_most": "x"},
        {"per": "soon"},
        {"otherwise": "perhaps"},
        {"meter": ""},
    ],
)
def test_what_cannot_be_counted_is_refused(words: dict[str, Any]) -> None:
    given: dict[str, Any] = {"meter": "tokens", "amount": 1, **words}
    with pytest.raises(nt.errors.UsageError):
        policy.charge(given.pop("meter"), given.pop("amount"), **given)
