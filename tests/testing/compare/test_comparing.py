"""Killed once, and killed everywhere: what the three ways lose, repeat and keep."""

from __future__ import annotations

import pytest

from nottwice.testing.compare.comparing import compare, kill_everywhere, kill_once, summary
from nottwice.testing.compare.tasks import suite, task_named

ONE_OF_EACH = [task for task in suite() if task.name.endswith("-4")]


def test_only_nottwice_continues_without_doing_anything_twice() -> None:
    killed = [one for seed in (1, 2) for one in kill_once(ONE_OF_EACH, seed=seed)]
    memory, saved, ours = summary(killed)
    assert (memory.survived, saved.survived, ours.survived) == (0, 12, 12)
    assert memory.duplicates > 0
    assert saved.duplicates > 0
    assert ours.duplicates == 0
    # The parallel task makes three calls together; of all others one is under way.
    repeated = {one.task: one.repeated for one in killed if one.way == "nottwice"}
    assert repeated.pop("parallel-4") <= 3
    assert max(repeated.values()) <= 1
    assert memory.repeated_most > 3


def test_a_seed_draws_the_same_kills_again() -> None:
    task = [task_named("straight-3")]
    first, second = (kill_once(task, seed=5) for _ in range(2))
    assert [one.where for one in first] == [one.where for one in second]


@pytest.mark.deep(part="sweeps")
def test_killed_at_every_boundary_of_a_task_with_children_nothing_is_wrong() -> None:
    every = kill_everywhere([task_named("children-3")], seed=1, budget_seconds=2)
    assert every.points > 0
    assert (every.wrong, every.first_wrong) == (0, None)


def test_both_parts_report_how_far_they_are() -> None:
    heard: list[tuple[str, int, int]] = []
    killed, every = compare(
        [task_named("straight-3")],
        seed=1,
        budget_seconds=1,
        report=lambda what, done, total: heard.append((what, done, total)),
    )
    assert len(killed) == 3
    assert every.points >= 1
    assert heard[2:] == [
        ("three ways, each killed once", 3, 3),
        ("nottwice, killed everywhere", 1, 1),
    ]


def test_a_budget_that_is_over_ends_the_comparison_and_what_was_left_out_is_known() -> None:
    killed, every = compare(suite(), seed=1, budget_seconds=0.001)
    assert [one.way for one in killed] == ["in memory", "act, then save", "nottwice"]
    assert len({one.task for one in killed}) == 1
    assert every.tasks == 1
    assert 1 <= every.points < every.total


def test_a_task_that_is_left_out_changes_no_other_kill() -> None:
    task = task_named("loop-3")
    (alone, *_) = kill_once([task], seed=5)
    beside = kill_once([task_named("straight-3"), task], seed=5)
    assert alone.where == next(one.where for one in beside if one.task == task.name)
