"""Can a page list reviews, show one as a case and decide it, with views and the public API alone?

P223. The helpers below are a page: they import `nottwice` and `nottwice.views`, nothing else.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Annotated, Any

import pytest

import nottwice as nt
from nottwice.views.people.reviews import CaseView, list_reviews, look_at
from nottwice.views.shape import to_plain


@nt.tool("unsafe_on_replay", name="page_pay")
def pay(cents: int, card: Annotated[str, nt.Secret]) -> str:
    raise nt.Ambiguous("no answer")


@nt.tool("unsafe_on_replay", name="page_refund", approve=True)
def refund(order_id: int) -> str:
    return f"re_{order_id}"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOTTWICE_KEY", bytes(range(32)).hex())
    path = tmp_path / "agent.db"
    with pytest.raises(nt.errors.ReplayUnsafeError), nt.run("ticket-7", store=path):
        pay(4000, "4111 1111 1111 1111")
    with pytest.raises(nt.errors.ApprovalNeeded), nt.run("ticket-8", store=path):
        refund(order_id=8)
    return path


def inbox(store: Path) -> dict[str, str]:
    """The open reviews of a ledger, by run: what the first screen of a page shows."""
    with nt.Ledger(store, create=False) as ledger:
        return {one.run_id: one.review_id for one in list_reviews(ledger).reviews if one.is_open}


def case(store: Path, review_id: str) -> CaseView:
    """One review with its call: what the second screen shows."""
    with nt.Ledger(store, create=False) as ledger:
        return look_at(ledger, review_id)


def decide(store: Path, shown: CaseView, verb: str, **more: Any) -> None:
    """What the form of the second screen does; it is bound to what was shown."""
    (choice,) = [one for one in shown.choices if one.verb == verb]
    why = "looked it up" if choice.needs_reason else ""
    with nt.Reviews(store) as reviews:
        reviews.decide(
            shown.review.review_id,
            verb,
            by="ann",
            why=why,
            shown_version=shown.review.version,
            **more,
        )


def test_a_page_lists_shows_and_decides_reviews_with_views_and_the_public_api(store: Path) -> None:
    found = inbox(store)
    assert set(found) == {"ticket-7", "ticket-8"}
    doubt = case(store, found["ticket-7"])
    assert doubt.review.blocks
    assert doubt.call is not None
    assert doubt.call.tool == "page_pay"
    assert [one.verb for one in doubt.choices] == ["happened", "did-not-happen", "abort"]
    assert [one.takes_result for one in doubt.choices] == [True, False, False]
    decide(store, doubt, "happened", result="paid")
    approval = case(store, found["ticket-8"])
    assert approval.review.arguments == {"order_id": 8}
    assert not approval.review.blocks
    decide(store, approval, "approve")
    assert inbox(store) == {}
    with nt.run("ticket-7", store=store):
        assert pay(4000, "4111 1111 1111 1111") == "paid"
    with nt.run("ticket-8", store=store):
        assert refund(order_id=8) == "re_8"


def test_a_decision_about_a_review_that_changed_since_it_was_shown_is_refused(store: Path) -> None:
    shown = case(store, inbox(store)["ticket-7"])
    decide(store, shown, "abort")
    with nt.Reviews(store) as reviews:
        reviews.undo(shown.review.review_id, by="bob", why="too early")
    with pytest.raises(nt.errors.DecisionConflict):
        decide(store, shown, "abort")


def test_a_case_that_is_decided_can_only_be_undone_and_one_that_is_used_not_at_all(
    store: Path,
) -> None:
    review_id = inbox(store)["ticket-8"]
    decide(store, case(store, review_id), "approve")
    assert [one.verb for one in case(store, review_id).choices] == ["undo"]
    with nt.run("ticket-8", store=store):
        refund(order_id=8)
    assert case(store, review_id).choices == ()


def test_arguments_are_listed_and_a_secret_among_them_is_a_fingerprint(store: Path) -> None:
    """P223."""
    with nt.Ledger(store, create=False) as ledger:
        documents = {one["run_id"]: one for one in to_plain(list_reviews(ledger))["reviews"]}
    arguments = documents["ticket-7"]["arguments"]
    assert arguments["cents"] == 4000
    assert list(arguments["card"]) == ["$secret"]
    assert "4111" not in str(documents)
    assert documents["ticket-7"]["subject"] == "page_pay(cents=4000, card=•••)"
    assert documents["ticket-8"]["arguments"] == {"order_id": 8}


def test_reviews_that_are_over_are_listed_on_demand(store: Path) -> None:
    review_id = inbox(store)["ticket-8"]
    decide(store, case(store, review_id), "approve")
    with nt.run("ticket-8", store=store):
        refund(order_id=8)
    with nt.Ledger(store, create=False) as ledger:
        assert len(list_reviews(ledger).reviews) == 1
        assert len(list_reviews(ledger, over=True).reviews) == 2
        assert list_reviews(ledger, run_id="ticket-8").reviews == ()


def test_this_page_imports_the_public_api_and_views_alone() -> None:
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    names = {
        alias.name if isinstance(node, ast.Import) else node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    ours = {name for name in names if name.startswith("nottwice")}
    assert ours == {"nottwice", "nottwice.views.people.reviews", "nottwice.views.shape"}
