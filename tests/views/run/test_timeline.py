"""Is every attempt and step of a run in the picture, in the opening that made it?"""

from __future__ import annotations

from nottwice.guard.ledger import Ledger
from nottwice.views.run.details import look_into
from nottwice.views.run.timeline import timeline_of
from tests.cli.workplace import Workplace


def test_a_killed_opening_ends_with_its_last_sign_of_life(killed: Workplace) -> None:
    with Ledger(killed.store, create=False) as ledger:
        details = look_into(ledger, "ticket-8")
        drawn = timeline_of(details, now=ledger.clock.now())
    first, second = drawn.lanes
    assert (first.ending, second.ending) == ("killed", "waiting")
    bars = [(bar.kind, bar.label, bar.outcome) for bar in first.bars]
    assert bars == [
        ("step", "notify", "running"),
        ("call", "get_order", "done"),
        ("call", "refund", "done"),
        ("call", "print_label", "done"),
        ("call", "send_email", "lost"),
    ]
    assert second.bars == ()
    assert 0 <= first.left < first.right < second.left < second.right <= 1.0 + 1e-9
    assert all(first.left <= bar.left <= bar.right <= first.right for bar in first.bars)
    (gap,) = drawn.gaps
    assert gap.seconds >= 0
    # A step and a call are never in the same row.
    assert {bar.row for bar in first.bars if bar.kind == "step"} == {0}
    assert 0 not in {bar.row for bar in first.bars if bar.kind == "call"}


def test_a_run_that_was_never_opened_has_no_picture(empty: Workplace) -> None:
    with Ledger(empty.store) as ledger:
        with ledger.run("r"):
            pass
        details = look_into(ledger, "r")
        drawn = timeline_of(details, now=ledger.clock.now())
    (lane,) = drawn.lanes
    assert (lane.ending, lane.bars, lane.rows) == ("completed", (), 1)


def test_many_openings_still_fit(empty: Workplace) -> None:
    with Ledger(empty.store) as ledger:
        for _ in range(40):
            try:
                with ledger.run("r"):
                    raise LookupError("no")
            except LookupError:
                pass
        drawn = timeline_of(look_into(ledger, "r"), now=ledger.clock.now())
    assert len(drawn.lanes) == 40
    lefts = [lane.left for lane in drawn.lanes]
    assert lefts == sorted(lefts)
    assert all(0 <= lane.left < lane.right <= 1.0 + 1e-9 for lane in drawn.lanes)
