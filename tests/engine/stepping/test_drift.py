"""What a resumed run holds until the code asks for it again."""

from __future__ import annotations

from nottwice.engine.stepping.drift import Drift, StepState
from nottwice.model.review import Review, ReviewKind, ReviewStatus
from nottwice.model.run import StepRecord, StepStatus
from tests.store.samples import pending


def test_only_the_first_visit_of_a_run_that_was_never_driven_cannot_be_on_record() -> None:
    fresh, resumed = Drift(is_first_drive=True), Drift(is_first_drive=False)
    assert [fresh.is_first_visit("pay", "start") for _ in range(2)] == [True, False]
    assert fresh.is_first_visit("pay", "start/2")
    assert not resumed.is_first_visit("pay", "start")


def test_what_another_task_looked_up_first_counts() -> None:
    drift = Drift(is_first_drive=False)
    assert drift.abandoned("pay") is None
    first = drift.found_abandoned("pay", {"start": ()})
    assert drift.found_abandoned("pay", {}) is first
    assert drift.abandoned("pay") is first


def test_a_person_who_accepts_drift_accepts_it_once() -> None:
    row, drift = pending(), Drift(is_first_drive=False)
    review = Review(
        review_id="abcd",
        kind=ReviewKind.DRIFT,
        status=ReviewStatus.DECIDED,
        identity=row.identity,
        call_id=row.call_id,
        attempt_id=row.attempt_id,
        summary="drift",
        opened_at=1.0,
    )
    drift.accept(review)
    assert [drift.use_waiver(row.identity) for _ in range(2)] == [review, None]


def test_a_step_with_anything_left_in_it_takes_a_closer_look_at_new_effects() -> None:
    record = StepRecord("r", "pay", "start", StepStatus.IN_PROGRESS, 1, 0.0)
    row = pending()
    assert not StepState(record).may_refuse
    assert StepState(record, outstanding={row.identity: row}).may_refuse
    assert StepState(record, later={row.identity: row}).may_refuse
    assert StepState(record, abandoned={"start": ()}).may_refuse
