"""Does the most dangerous review come first, and is a doubt never decided in passing?"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import cast

import pytest

import nottwice as nt
from nottwice.errors import UsageError
from nottwice.guard.ledger import Ledger
from nottwice.model.review import DANGER, ReviewKind
from nottwice.reviews.inbox import Reviews
from nottwice.store.interface import Store
from nottwice.views.commands import CommandLine, ListCommand
from nottwice.views.people import inbox
from nottwice.views.people.inbox import GROUP_OF, InboxFilter, read_inbox, reviews_command
from tests.cli.workplace import Workplace
from tests.views.loads import Loads, post


@nt.tool("unsafe_on_replay", name="views_pay", approve=True)
def pay(number: int) -> int:
    return number


def test_every_kind_of_review_has_its_place() -> None:
    assert set(DANGER) == set(ReviewKind) == set(GROUP_OF)
    order = ["tampered", "in doubt", "drift", "result", "approvals", "questions"]
    places = [min(DANGER.index(k) for k in ReviewKind if GROUP_OF[k] == name) for name in order]
    assert places == sorted(places)


def test_what_a_dead_process_left_is_in_the_inbox_before_it_has_a_review(
    killed: Workplace,
) -> None:
    """P411."""
    with Ledger(killed.store, create=False) as ledger:
        found = read_inbox(ledger)
        (left,) = found.left
        assert ledger.store.open_reviews("ticket-7") == []
    assert (left.run_id, left.in_doubt, found.left_more) == ("ticket-7", 1, False)
    assert left.text == "Only your program can continue it: run it again."


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


@pytest.fixture
def crowded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Fifty approvals, of which four are decided, and then one doubt; a page shows two."""
    monkeypatch.setattr(inbox, "MOST_ROWS", 2)
    ledger = Ledger(tmp_path / "a.db")
    for number in range(50):
        with contextlib.suppress(nt.errors.ApprovalNeeded), ledger.run(f"pay-{number}"):
            pay(number)
    for review in ledger.store.open_reviews()[:4]:
        Reviews(ledger).decide(review.review_id, "approve", by="ann", why="")
    with contextlib.suppress(nt.errors.ReplayUnsafeError), ledger.run("doubtful"):
        post(1)
    return ledger


def test_a_doubt_behind_many_approvals_is_counted_and_comes_first(crowded: Ledger) -> None:
    found = read_inbox(crowded)
    assert [row.review.run_id for row in found.rows] == ["doubtful", "pay-4"]
    assert (found.total, found.omitted) == (47, 45)
    assert (found.counts["in doubt"], found.counts["approvals"]) == (1, 46)
    assert (len(found.decided), found.decided_total) == (2, 4)
    assert found.tools == ("views_pay", "views_post")
    assert [row.review.run_id for row in read_inbox(crowded, InboxFilter(tool="views_post")).rows]


def test_only_what_is_shown_is_loaded(crowded: Ledger) -> None:
    store = Loads(crowded.store)
    found = read_inbox(Ledger(cast(Store, store)))
    assert store.calls_loaded == len(found.rows) + len(found.decided) == 4


def test_the_command_of_an_inbox_has_its_filter() -> None:
    line = CommandLine("a.db")
    wanted = InboxFilter(group="in doubt", tool="pay it", run="r", older="1h")
    found = reviews_command(wanted, line)
    words = "--kind 'in doubt' --kind restored --tool 'pay it' --store a.db"
    assert found.text == f"nottwice reviews {words}"
    assert found.lacks == ("run", "older")
    assert reviews_command(InboxFilter(), line) == ListCommand("nottwice reviews --store a.db", ())


def test_an_empty_inbox_knows_how_many_processes_are_alive(crowded: Ledger, tmp_path: Path) -> None:
    with Ledger(tmp_path / "quiet.db") as quiet:
        assert read_inbox(quiet).alive == 0
        with quiet.run("held"):
            assert read_inbox(quiet).alive == 1
    assert read_inbox(crowded).alive is None
