"""Does what a person allows count once, for the run it was said about?"""

from __future__ import annotations

import pytest

import nottwice as nt
from nottwice.agent.requests.raising import from_units, units
from nottwice.errors import InvalidArguments
from tests.agent.delegating.test_workers import Office


@pytest.mark.parametrize(
    ("name", "amount", "count"),
    [("usd", 0.1, 100_000_000), ("usd", 1e-9, 1), ("tokens", 7, 7), ("workers", 2.0, 2)],
)
def test_amounts_are_counted_in_whole_units_and_come_back(
    name: str, amount: float, count: int
) -> None:
    assert units(name, amount) == count
    assert from_units(name, count) == amount


def test_the_same_raise_is_lent_once_wherever_the_worker_is_killed() -> None:
    for dies_at in range(2, 30, 3):
        office = Office(1, turns=9, budget=nt.Budget(usd=0.20))
        (review,) = office.run().reviews
        decide(office, review.review_id, 0.05)
        office.shop.run(dies_at=dies_at)
        outcome = office.run()
        assert outcome.status == "waiting"
        assert "may spend 0.25 dollars" in outcome.reviews[0].summary
        assert office.spent() <= 0.25


def test_what_raises_nothing_is_refused() -> None:
    office = Office(1, turns=9, budget=nt.Budget(usd=0.20))
    (review,) = office.run().reviews
    with pytest.raises(InvalidArguments, match="raises no budget"):
        decide(office, review.review_id, 0)


def decide(office: Office, review_id: str, usd: float) -> None:
    with office.shop.host.process() as ledger:
        with nt.Reviews(ledger) as reviews:
            reviews.decide(review_id, "raise", by="ann", why="a bit", result={"usd": usd})
