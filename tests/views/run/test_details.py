"""Is what is shown about one run true, on ledgers that killed processes left?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.guard.ledger import Ledger
from nottwice.views.run.details import look_into
from tests.cli.workplace import Workplace


@pytest.fixture
def ledger(killed: Workplace) -> Iterator[Ledger]:
    with Ledger(killed.store, create=False) as opened:
        yield opened


def test_the_cut_is_the_call_whose_attempt_never_came_back(ledger: Ledger) -> None:
    details = look_into(ledger, "ticket-8", limit=None)
    assert [call.tool for call in details.cut_off_calls] == ["send_email"]
    assert [call.tool for call in details.calls] == [
        "get_order",
        "refund",
        "print_label",
        "send_email",
    ]
    assert details.calls[-1].reviews == details.waits_for
    assert {item.source for item in details.calls[-1].evidence} == {
        "ownership",
        "verify",
        "engine",
    }


def test_beyond_the_limit_the_last_calls_and_those_in_doubt_are_kept(ledger: Ledger) -> None:
    details = look_into(ledger, "ticket-8", limit=1)
    assert [call.tool for call in details.calls] == ["send_email"]
    assert details.omitted == {"calls": 3, "steps": 0}


def test_a_call_in_doubt_is_kept_however_early_it_was(tmp_path: Path) -> None:
    @nt.tool("unsafe_on_replay", name="views_doubtful")
    def doubtful() -> None:
        raise RuntimeError("the connection broke")

    @nt.tool("pure", name="views_pure")
    def look(number: int) -> int:
        return number

    with nt.Ledger(tmp_path / "agent.db") as ledger:
        with ledger.run("early"):
            with pytest.raises(nt.errors.ReplayUnsafeError):
                doubtful()
            for number in range(5):
                look(number)
        details = look_into(ledger, "early", limit=2)
    kept = [call.tool for call in details.calls]
    assert kept == ["views_doubtful", "views_pure", "views_pure"]
    assert details.omitted["calls"] == 3


def test_a_run_of_a_group_names_the_open_reviews_of_the_group(tmp_path: Path) -> None:
    """P301. They hold back its other runs, so a person has to find them from there."""

    @nt.tool("unsafe_on_replay", name="views_group")
    def pay(number: int) -> None:
        if number == 2:
            raise RuntimeError("the connection broke")

    with nt.Ledger(tmp_path / "agent.db") as ledger:
        ledger.once("order 7", "first", pay, {"number": 1})
        ledger.once("order 8", "other", pay, {"number": 1})
        with pytest.raises(nt.errors.ReplayUnsafeError) as caught:
            ledger.once("order 7", "second", pay, {"number": 2})
        found = {
            run_id: look_into(ledger, run_id).group_reviews
            for run_id in ("order 7/first", "order 7/second", "order 8/other")
        }
    (review,) = found.pop("order 7/first")
    assert (review.review_id, review.run_id) == (caught.value.review_id, "order 7/second")
    assert set(found.values()) == {()}


def test_a_note_of_a_child_run_is_no_call_of_its_parent(tmp_path: Path) -> None:
    child = nt.Graph("views_child", version="1.0.0")
    parent = nt.Graph("views_parent", version="1.0.0")

    @child.node
    def work(state: dict[str, int]) -> None:
        return None

    @parent.node
    def spawn(state: dict[str, int]) -> None:
        for number in range(4):
            nt.now(label=str(number))
            nt.spawn(child, {"number": number})

    with nt.Ledger(tmp_path / "agent.db") as ledger:
        parent.run("parent-1", {}, store=ledger)
        recorded = [row.identity.tool_name for row in ledger.store.calls("parent-1")]
        assert recorded == ["nottwice.now", "nottwice.child", "nottwice.spawn"] * 4
        whole = look_into(ledger, "parent-1")
        assert [call.tool for call in whole.calls] == ["nottwice.now", "nottwice.spawn"] * 4
        assert [call.tool for call in ledger.calls("parent-1")] == [
            call.tool for call in whole.calls
        ]
        assert whole.omitted["calls"] == 0
        assert len(whole.children) == 4
        # What is left out is counted without the notes, wherever the list is cut.
        for limit in range(1, 12):
            part = look_into(ledger, "parent-1", limit=limit)
            assert len(part.calls) + part.omitted["calls"] == len(whole.calls), limit
