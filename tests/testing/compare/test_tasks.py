"""The tasks that three ways of keeping state are compared by."""

from __future__ import annotations

from nottwice.testing.compare.tasks import ComparedTask, TaskKind, suite, task_named


def kinds(task: ComparedTask) -> set[TaskKind]:
    return {beat.kind for beat in task.beats}


def test_there_are_thirty_tasks_of_six_families() -> None:
    tasks = suite()
    assert len({task.name for task in tasks}) == 30
    assert len({task.family for task in tasks}) == 6


def test_every_kind_of_beat_occurs_in_some_task() -> None:
    assert set().union(*map(kinds, suite())) == set(TaskKind)


def test_a_task_is_found_by_its_name() -> None:
    assert task_named("people-4").family == "people"
