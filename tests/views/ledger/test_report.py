"""Does the report name the tools that cost most, with figures that the ledger has?"""

from __future__ import annotations

from nottwice.guard.ledger import Ledger
from nottwice.reviews.inbox import Reviews
from nottwice.views.ledger.report import report_on
from tests.cli.workplace import Workplace

DAY = 86400.0


def test_doubts_are_counted_per_thousand_calls_and_the_most_costly_tool_is_first(
    workplace: Workplace,
) -> None:
    with Ledger(workplace.store, create=False) as ledger:
        (refund,) = ledger.store.open_reviews("ticket-9")
        Reviews(ledger).decide(refund.review_id, "did-not-happen", by="ann", why="not there")
        found = report_on(ledger, DAY)
    costs = {one.tool: one for one in found.costs}
    mail, paid = costs["send_email"], costs["refund"]
    assert (mail.calls, mail.doubts, mail.open, mail.by_person) == (3, 2, 2, 0)
    assert mail.per_thousand == 666.667
    assert (paid.doubts, paid.open, paid.by_person) == (1, 0, 1)
    assert paid.median_seconds is not None
    assert paid.median_seconds > 0
    assert mail.median_seconds is None
    assert found.costs[0].waited_seconds == max(one.waited_seconds for one in found.costs)
    assert [one.tool for one in found.costs if one.doubts == 0] == ["get_order", "print_label"]
    assert found.decided == {"ann": 1}
    assert len(found.advice) == 2
    assert any("send_email could have answered 2 questions" in one
               for one in found.advice)  # fmt: skip


def test_a_doubt_that_verify_settled_is_counted_as_one(workplace: Workplace) -> None:
    with Ledger(workplace.store, create=False) as ledger:
        (review,) = ledger.store.open_reviews("ticket-8")
        (workplace.folder / "outbox.json").write_text(f'["{review.call_id}"]')
    assert workplace.agent("handle", "ticket-8").exit_code in (0, 1)
    ended = workplace.shell("nottwice recheck --app agent --store agent.db")
    assert ended.exit_code == 0, ended
    with Ledger(workplace.store, create=False) as ledger:
        cost = {one.tool: one for one in report_on(ledger, DAY).costs}["send_email"]
    assert (cost.doubts, cost.by_verify, cost.by_person, cost.open) == (2, 1, 0, 1)
