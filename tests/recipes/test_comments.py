"""Is there one comment, found by its marker on whatever page it is? (P78)"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice import recipes
from nottwice.guard.declare import SyncTool
from tests.recipes.killing import AROUND_THE_EFFECT, kill_at, work_on
from tests.recipes.servers import Tracker

Say = SyncTool[..., recipes.Commented]


@pytest.fixture
def comments(tracker: Tracker) -> recipes.Comments:
    return recipes.http_comments(f"{tracker.url}/issues", time_limit="5s")


@pytest.fixture
def say(comments: recipes.Comments) -> Say:
    return recipes.comment(comments, settles="10ms")


def listed(comments: recipes.Comments, target: str = "7") -> list[str]:
    return [each if isinstance(each, str) else each["body"] for each in comments.read(target)]


def test_a_comment_carries_the_id_of_its_call(
    comments: recipes.Comments, say: Say, ledger: Path
) -> None:
    receipt = work_on(ledger, lambda: say.receipt(target="7", text="Done."))
    assert receipt.value == {"id": 1}
    assert listed(comments) == [f"Done.\n\n<!-- nottwice {receipt.id} -->"]
    assert listed(comments, "8") == []


@pytest.mark.parametrize("place", AROUND_THE_EFFECT)
def test_a_comment_whose_author_was_killed_is_made_once(
    comments: recipes.Comments, say: Say, ledger: Path, place: str
) -> None:
    # It will be the third, on the second page, and others come behind it.
    comments.add("7", "first")
    comments.add("7", "second")

    def work() -> Any:
        return say(target="7", text="Done.")

    kill_at(place, ledger, work)
    for number in range(4):
        comments.add("7", f"behind {number}")
    found = work_on(ledger, work)
    assert sum(each.startswith("Done.") for each in listed(comments)) == 1
    assert len(listed(comments)) == 7
    assert found["id"] == (7 if place == "after intent" else 3)


def test_an_answer_that_got_lost_is_looked_up_and_not_sent_again(
    tracker: Tracker, comments: recipes.Comments, say: Say, ledger: Path
) -> None:
    tracker.next_answers({"drop": True})
    assert work_on(ledger, lambda: say(target="7", text="Done.")) == {"id": 1}
    assert len(listed(comments)) == 1


def test_a_refused_comment_is_told(tracker: Tracker, say: Say, ledger: Path) -> None:
    tracker.next_answers({"refuse": 403, "body": {"message": "the issue is locked"}})
    with pytest.raises(nt.Permanent, match="the issue is locked"):
        work_on(ledger, lambda: say(target="7", text="Done."))


def test_a_target_is_one_part_of_the_address(tracker: Tracker, say: Say, ledger: Path) -> None:
    work_on(ledger, lambda: say(target="../admin?x=1", text="Done."))
    assert tracker.seen[0]["path"] == "/issues/..%2Fadmin%3Fx%3D1/comments"


def test_any_two_functions_will_do(ledger: Path) -> None:
    board: list[str] = []

    def read(target: str) -> Iterable[str]:
        return board

    def add(target: str, text: str) -> None:
        board.append(text)
        raise ConnectionError("and then the line went dead")

    pin = recipes.comment(
        recipes.Comments(read, add), name="pin", settles="10ms", marker="[call {id}]"
    )
    receipt = work_on(ledger, lambda: pin.receipt(target="door", text="Back at 3"))
    assert receipt.settled_by == "verify"
    assert board == [f"Back at 3\n\n[call {receipt.id}]"]


def test_a_list_that_cannot_be_read_proves_nothing(
    comments: recipes.Comments, ledger: Path
) -> None:
    def read(target: str) -> Iterable[str]:
        raise ValueError("the upstream did not answer with a list")

    say = recipes.comment(recipes.Comments(read, comments.add), name="blind", settles="10ms")
    kill_at("before result", ledger, lambda: say(target="7", text="Done."))
    with pytest.raises(nt.errors.ReplayUnsafeError):
        work_on(ledger, lambda: say(target="7", text="Done."))
    assert len(listed(comments)) == 1


def test_pages_are_read_where_the_first_one_was(tracker: Tracker) -> None:
    from nottwice.recipes.comments import _same_place

    here = f"{tracker.url}/issues/7/comments"
    assert _same_place(here, "?page=2") == f"{here}?page=2"
    with pytest.raises(ValueError, match="another address"):
        _same_place(here, "http://elsewhere.example/issues/7/comments?page=2")


@pytest.mark.parametrize("marker", ["", "no place for it", "{id} {id}", 7])
def test_a_marker_without_a_place_for_the_id_is_refused(
    comments: recipes.Comments, marker: Any
) -> None:
    with pytest.raises(nt.errors.InvalidTool, match="id"):
        recipes.comment(comments, settles="1s", name="marked", marker=marker)
