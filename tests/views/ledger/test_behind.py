"""Are the rows behind a figure those that it counts?"""

from __future__ import annotations

import pytest

from nottwice.errors import UsageError
from nottwice.guard.ledger import Ledger
from nottwice.views.ledger import behind
from nottwice.views.ledger.activity import activity_since
from nottwice.views.ledger.behind import FIGURES, decisions_behind, rows_behind
from tests.cli.workplace import Workplace

DAY = 86400.0


def test_there_are_as_many_rows_as_the_figure_says(workplace: Workplace) -> None:
    """P359."""
    (review,) = [one for one in workplace.json("reviews")["reviews"] if one["run_id"] == "ticket-9"]
    workplace.cli("decide", review["review_id"], "did-not-happen", "--why", "not there")
    assert workplace.agent("handle", "ticket-9").exit_code == 0
    with Ledger(workplace.store, create=False) as ledger:
        figures = activity_since(ledger, DAY)
        found = {name: rows_behind(ledger, name, DAY) for name in FIGURES}
    assert found["calls"].total == len(found["calls"].calls) == figures.calls > 0
    assert found["effects"].total == len(found["effects"].calls) == figures.effects > 0
    assert found["killed"].total == len(found["killed"].openings) == figures.killed > 0
    assert found["resumed"].total == len(found["resumed"].openings) == figures.resumed > 0
    assert found["receipts"].total == figures.receipts > 0
    assert found["duplicates"].total == figures.duplicates
    assert found["in-doubt"].total == sum(one.in_doubt for one in figures.by_tool) > 0
    assert found["doubts"].total >= found["open-doubts"].total > 0


def test_a_tool_narrows_them_and_a_long_list_says_what_it_leaves_out(
    killed: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(behind, "MOST_ROWS", 1)
    with Ledger(killed.store, create=False) as ledger:
        mails = rows_behind(ledger, "calls", DAY, tool="send_email")
        few = rows_behind(ledger, "calls", DAY, most_calls=2)
    assert {one.call.tool for one in mails.calls} == {"send_email"}
    assert (len(mails.calls), mails.omitted) == (1, mails.total - 1)
    assert (few.total, few.is_complete) == (2, False)


def test_an_unknown_figure_is_refused(killed: Workplace) -> None:
    with Ledger(killed.store, create=False) as ledger:
        with pytest.raises(UsageError, match="is not a figure"):
            rows_behind(ledger, "odd", DAY)


def test_a_decision_counts_from_the_time_it_was_made(workplace: Workplace) -> None:
    """P359."""
    from nottwice.reviews.inbox import Reviews

    with Ledger(workplace.store, create=False) as ledger:
        assert decisions_behind(ledger, DAY).total == 0
        (review,) = ledger.store.open_reviews("ticket-8")
        Reviews(ledger).decide(review.review_id, "abort", by="ann", why="stop")
        found = decisions_behind(ledger, DAY)
        assert (found.total, found.by) == (1, {"ann": 1})
        assert found.rows[0].review.review_id == review.review_id
        assert decisions_behind(ledger, DAY, by="bob").total == 0
        assert decisions_behind(ledger, 0.0).total == 0
        Reviews(ledger).undo(review.review_id, by="ann", why="too early")
        assert decisions_behind(ledger, DAY).total == 0
