"""Does the most dangerous review come first, and is a doubt never decided in passing?"""

from __future__ import annotations

import pytest

from nottwice.errors import UsageError
from nottwice.guard.ledger import Ledger
from nottwice.model.review import ReviewKind
from nottwice.views.inbox import DANGER, GROUP_OF, InboxFilter, read_inbox
from tests.cli.workplace import Workplace


def test_every_kind_of_review_has_its_place() -> None:
    assert set(DANGER) == set(ReviewKind) == set(GROUP_OF)
    order = ["tampered", "in doubt", "drift", "result", "approvals", "questions"]
    places = [min(DANGER.index(k) for k in ReviewKind if GROUP_OF[k] == name) for name in order]
    assert places == sorted(places)


def test_doubts_come_before_older_questions_and_offer_nothing_in_passing(
    workplace: Workplace,
) -> None:
    workplace.agent("desk", "desk-1")
    with Ledger(workplace.store, create=False) as ledger:
        found = read_inbox(ledger)
    kinds = [row.review.kind.value for row in found.rows]
    assert kinds == ["in doubt"] * 3 + ["question"]
    assert [row.quick for row in found.rows] == [(), (), (), ("approve", "not now")]
    assert not any(row.in_bulk for row in found.rows)
    assert found.counts["in doubt"] == 3
    assert (found.total, found.omitted) == (4, 0)
    ages = [row.age_seconds for row in found.rows[:3]]
    assert ages == sorted(ages, reverse=True)


@pytest.mark.parametrize(
    ("wanted", "runs"),
    [
        (InboxFilter(group="in doubt", run="ticket-"), ["ticket-8", "ticket-9"]),
        (InboxFilter(tool="refund"), ["ticket-9"]),
        (InboxFilter(group="questions"), []),
        (InboxFilter(older="30d"), []),
        (InboxFilter(tag="a=b"), []),
    ],
)
def test_a_filter_narrows_the_list_and_not_the_counts(
    wanted: InboxFilter, runs: list[str], killed: Workplace
) -> None:
    with Ledger(killed.store, create=False) as ledger:
        found = read_inbox(ledger, wanted)
    assert [row.review.run_id for row in found.rows] == runs
    assert found.total == 3


@pytest.mark.parametrize(
    "wanted", [InboxFilter(group="odd"), InboxFilter(older="odd"), InboxFilter(tag="odd")]
)
def test_an_odd_filter_is_an_error_and_not_an_empty_list(
    wanted: InboxFilter, killed: Workplace
) -> None:
    with Ledger(killed.store, create=False) as ledger, pytest.raises(UsageError):
        read_inbox(ledger, wanted)
