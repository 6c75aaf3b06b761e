"""The records of runs, steps and holders: words that ledgers hold, and values that never change."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from nottwice.model.run import (
    Fence,
    HolderRecord,
    Life,
    RunRecord,
    RunStatus,
    StepRecord,
    StepStatus,
    removed_text,
)

HOLDER = HolderRecord(
    holder_id="a1",
    host="shop-3",
    machine_id="m",
    boot_id="b",
    pid_namespace="n",
    pid=4711,
    pid_started="17",
    since=100.0,
)
RUN = RunRecord("ticket-7", RunStatus.RUNNING, 1, "a1", created_at=100.0, updated_at=100.0)
STEP = StepRecord("ticket-7", "tell", "start/", StepStatus.IN_PROGRESS, 1, started_at=100.0)


def test_the_words_that_ledgers_hold_stay_as_they_are() -> None:
    """Another word would make every ledger in the field unreadable: that is a migration."""
    assert [status.value for status in RunStatus] == [
        "running",
        "waiting",
        "idle",
        "completed",
        "failed",
        "aborted",
        "removed",
    ]
    stored = [status.value for status in StepStatus if status is not StepStatus.PENDING]
    assert stored == ["in_progress", "done", "failed"]


def test_what_cannot_be_proven_about_a_holder_is_neither_life_nor_death() -> None:
    assert {life.value for life in Life} == {"alive", "dead", "not proven"}


def test_a_holder_is_named_so_that_a_person_can_find_its_process() -> None:
    assert HOLDER.describe() == "pid 4711 on shop-3"


def test_a_new_run_or_step_has_no_failure_and_no_end() -> None:
    assert (RUN.failure, RUN.claimed_at) == (None, None)
    assert (STEP.failure, STEP.finished_at) == (None, None)


@pytest.mark.parametrize("record", [HOLDER, RUN, Fence("a1", 1)])
def test_a_record_is_never_changed_in_place(record: Any) -> None:
    name = type(record).__slots__[0]
    with pytest.raises(FrozenInstanceError):
        setattr(record, name, "other")
    assert replace(record, **{name: "other"}) != record


def test_a_claim_with_another_epoch_is_another_fence() -> None:
    assert Fence("a1", 1) == Fence("a1", 1)
    assert Fence("a1", 1) != Fence("a1", 2)


def test_a_failed_run_can_be_resumed_and_a_removed_one_cannot() -> None:
    final = {status for status in RunStatus if status.is_final}
    assert final == {RunStatus.COMPLETED, RunStatus.ABORTED, RunStatus.REMOVED}


def test_who_asks_for_a_removed_run_is_told_what_did_not_happen_and_what_to_do() -> None:
    removed = replace(RUN, workflow_id="it's 7", status=RunStatus.REMOVED)
    text = removed_text(removed, None)
    assert "ended on 1970-01-01" in text
    assert "Nothing was done" in text
    assert "another id" in text
    assert text.endswith("""nottwice show 'it'"'"'s 7'""")
    assert removed_text(removed, "my agent.db") == f"{text} --store 'my agent.db'"
