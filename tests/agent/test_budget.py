"""Which limit does the next request not fit under, and what counts as a raise?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.budget import (
    Amount,
    Budget,
    Overrun,
    Taken,
    find_overrun,
    raised_by,
)
from nottwice.errors import UsageError
from nottwice.model.asking.raises import check_raise


def taken(**given: Any) -> Taken:
    nothing: dict[str, Any] = {
        "spent": Amount(),
        "reserve": Amount(100, 0.01),
        "turns": 0,
        "seconds": 0.0,
        "repeats": 0,
    }
    return Taken(**{**nothing, **given})


@pytest.mark.parametrize(
    ("budget", "given", "limit"),
    [
        (Budget(), {"spent": Amount(10**9, 10**6)}, None),
        (Budget(usd=1), {"spent": Amount(0, 0.99)}, None),
        (Budget(usd=1), {"spent": Amount(0, 0.991)}, "usd"),
        (Budget(tokens=1000), {"spent": Amount(900)}, None),
        (Budget(tokens=1000), {"spent": Amount(901)}, "tokens"),
        (Budget(turns=3), {"turns": 2}, None),
        (Budget(turns=3), {"turns": 3}, "turns"),
        (Budget(seconds="1m"), {"seconds": 59.9}, None),
        (Budget(seconds=60), {"seconds": 60.0}, "seconds"),
        (Budget(seconds=timedelta(minutes=1)), {"seconds": 60.0}, "seconds"),
        (Budget(repeats=3), {"repeats": 2}, None),
        (Budget(repeats=3), {"repeats": 3}, "repeats"),
    ],
)
def test_a_request_fits_or_a_limit_says_why_not(
    budget: Budget, given: dict[str, Any], limit: str | None
) -> None:
    found = find_overrun(budget, {}, taken(**given))
    assert (found.name if found else None) == limit
    if found is not None:
        assert found.text
        enough = check_raise(found.suggested)
        assert find_overrun(budget, enough, taken(**given)) is None, "the suggestion is too small"


def test_a_raise_adds_to_the_limit() -> None:
    spent = taken(spent=Amount(0, 2.5))
    assert find_overrun(Budget(usd=1), {"usd": 1}, spent) is not None
    assert find_overrun(Budget(usd=1), {"usd": 2}, spent) is None
    assert raised_by({"usd": 1}, {"usd": 0.5, "turns": 3}) == {"usd": 1.5, "turns": 3}


@pytest.mark.parametrize(
    "limits", [{"usd": 0}, {"tokens": -1}, {"usd": float("nan")}, {"turns": "3"}, {"repeats": True}]
)
def test_what_is_no_limit_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is not a limit"):
        Budget(**limits)


def test_the_text_says_what_is_used_what_is_reserved_and_what_is_needed() -> None:
    agent = nt.Agent(
        "frugal",
        version="1.0.0",
        provider=nt.providers.scripted(["done"]),
        budget=Budget(tokens=100),
    )
    outcome = agent.run("r", goal="Close ticket 9", store=nt.Ledger(":memory:"))
    (review,) = outcome.reviews
    assert review.summary.startswith(
        "the budget does not allow what comes next: it may use 100 tokens and has used 0; its "
        "next request needs a reserve of "
    )
    assert "used up" not in review.summary
    lost = Overrun("tokens", 100, 90, 50, 60)
    assert lost.text == (
        "it may use 100 tokens and has used 90, 60 of them reserved for requests that were not "
        "answered; its next request needs a reserve of 50"
    )
