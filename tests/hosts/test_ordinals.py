"""Which of several equal calls of one task is this? (P306, P307)"""

from __future__ import annotations

from nottwice.hosts import Ordinals


def test_a_task_that_is_replayed_counts_the_same() -> None:
    asked = ["refund", "mail", "refund", "refund", "mail"]
    first, again = Ordinals(), Ordinals()
    names = [first.next(name) for name in asked]
    assert names == ["refund.1", "mail.1", "refund.2", "refund.3", "mail.2"]
    assert names == [again.next(name) for name in asked]


def test_a_new_call_of_another_tool_moves_no_number() -> None:
    before, after = Ordinals(), Ordinals()
    names = [before.next(name) for name in ("refund", "refund")]
    changed = [after.next(name) for name in ("refund", "check", "refund")]
    assert [name for name in changed if name.startswith("refund")] == names
