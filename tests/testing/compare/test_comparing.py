"""Killed once, and killed everywhere: what the three ways lose, repeat and keep."""

from __future__ import annotations

from nottwice.testing.compare.comparing import compare, kill_everywhere, kill_once, summary
from nottwice.testing.compare.tasks import suite, task_named

ONE_OF_EACH = [task for task in suite() if task.name.endswith("-4")]


def test_only_nottwice_goes_on_without_doing_anything_twice() -> None:
    killed = [one for seed in (1, 2) for one in kill_once(ONE_OF_EACH, seed=seed)]
    memory, saved, ours = summary(killed)
    assert (memory.survived, saved.survived, ours.survived) == (0, 12, 12)
    assert memory.duplicates > 0
    assert saved.duplicates > 0
    assert ours.duplicates == 0
    assert ours.repeated_most <= 1


def test_a_seed_draws_the_same_kills_again() -> None:
    task = [task_named("straight-3")]
    first, second = (kill_once(task, seed=5) for _ in range(2))
    assert [one.where for one in first] == [one.where for one in second]


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
    assert every.points >= 10
    assert heard[2:] == [
        ("three ways, each killed once", 3, 3),
        ("nottwice, killed everywhere", 1, 1),
    ]
