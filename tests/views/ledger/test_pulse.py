"""Does the mark of a ledger change whenever a page of it would?"""

from __future__ import annotations

import nottwice as nt
from nottwice.guard.ledger import Ledger
from nottwice.reviews.inbox import Reviews
from nottwice.views.ledger.pulse import feel
from tests.cli.workplace import Workplace


@nt.tool("unsafe_on_replay", name="pulse_note")
def note(text: str) -> str:
    return text


def test_a_decision_changes_the_mark_of_the_ledger_and_of_its_run(workplace: Workplace) -> None:
    with Ledger(workplace.store, create=False) as ledger:
        (review,) = ledger.store.open_reviews("ticket-8")

        def marks() -> list[str]:
            return [feel(ledger, run_id).mark for run_id in (None, "ticket-8", "ticket-9")]

        before = marks()
        assert marks() == before
        assert feel(ledger).open == 3
        Reviews(ledger).decide(review.review_id, "abort", by="ann", why="stop")
        after = marks()
        assert [a == b for a, b in zip(before, after, strict=True)] == [False, False, True]
        assert feel(ledger).open == 2
        assert feel(ledger, "gone").mark == "gone"


def test_a_call_and_a_step_change_the_mark_of_their_run(workplace: Workplace) -> None:
    with Ledger(workplace.store, create=False) as ledger:
        seen = [feel(ledger, "live").mark]
        with ledger.run("live"):
            seen.append(feel(ledger, "live").mark)
            note("a")
            seen.append(feel(ledger, "live").mark)
            with nt.step("one"):
                note("b")
                seen.append(feel(ledger, "live").mark)
        seen.append(feel(ledger, "live").mark)
    assert len(set(seen)) == 5
