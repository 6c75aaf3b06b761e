"""How did a process leave a run? (P221)"""

from __future__ import annotations

from nottwice.model.run import RunStatus
from nottwice.model.runs.openings import OpeningEnd, Savings, begun_by, end_of
from nottwice.testing.conformance.samples import NOW, run_record


def test_every_status_says_how_an_opening_ended() -> None:
    assert {end_of(status) for status in RunStatus} == {
        OpeningEnd.COMPLETED,
        OpeningEnd.FAILED,
        OpeningEnd.WAITING,
        OpeningEnd.ABORTED,
        OpeningEnd.RELEASED,
    }


def test_a_run_that_is_only_enqueued_has_no_opening_and_neither_has_upkeep() -> None:
    held = run_record()
    opening = begun_by(held, NOW)
    assert opening is not None
    assert (opening.epoch, opening.holder_id, opening.ended) == (1, "holder", None)
    assert begun_by(held, None) is None
    assert begun_by(run_record(epoch=0, holder_id=None), NOW) is None


def test_what_was_saved_adds_up() -> None:
    saved = (
        Savings().plus(receipts=1, duplicates=1).plus(tokens=70, usd=0.1).plus(tokens=1, usd=0.2)
    )
    assert saved == Savings(1, 1, 71, 0.3)
