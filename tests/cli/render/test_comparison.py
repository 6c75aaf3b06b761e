"""What `nottwice crash --compare` shows. The comparison itself is tested elsewhere."""

from __future__ import annotations

from dataclasses import replace

from click.testing import CliRunner

from nottwice.cli.main import main
from nottwice.cli.render.comparison import lines, to_plain
from nottwice.testing.compare.comparing import ComparisonRow, EveryPoint, Killed
from nottwice.testing.compare.tasks import suite

ROWS = [
    ComparisonRow("in memory", 30, 0, 70, 3.07, 8, 0.031, 0),
    ComparisonRow("nottwice", 30, 30, 0, 1.0, 1, 0.122, 10),
]


def shown(every: EveryPoint) -> str:
    return "\n".join(lines(7, ROWS, suite(), every))


def test_the_table_names_the_seed_and_what_came_of_each_way() -> None:
    text = shown(EveryPoint(1630, 1630, 0, tasks=30, repeated=1))
    assert "30 tasks" in text
    assert "seed 7" in text
    (ours,) = [line for line in text.splitlines() if line.startswith("nottwice  ")]
    assert ours.split() == "nottwice 30/30 0 1.0, at most 1 122 ms 10".split()
    assert "1,630 points, 0 with something wrong, at most 1 calls made again" in text
    assert "budget" not in text


def test_points_that_the_budget_left_out_are_not_hidden() -> None:
    text = shown(EveryPoint(300, 1630, 0, tasks=30))
    assert "300 points of 1,630 (all without --budget)" in text
    text = shown(EveryPoint(300, 400, 0, tasks=9))
    assert "300 points of 400 in 9 of 30 tasks (all without --budget)" in text


def test_tasks_that_the_budget_left_out_are_not_hidden() -> None:
    rows = [replace(row, tasks=12) for row in ROWS]
    text = "\n".join(lines(7, rows, suite(), EveryPoint(1, 1, 0, tasks=1)))
    assert "12 of 30 tasks" in text
    assert "leave out --budget" in text


def test_what_went_wrong_is_shown() -> None:
    assert "boundaries 3: twice" in shown(EveryPoint(3, 3, 1, "boundaries 3: twice"))


def test_programs_get_every_kill() -> None:
    killed = Killed(
        way="nottwice",
        task="loop-3",
        where="begin 0",
        survived=True,
        duplicates=0,
        repeated=1,
        resume_seconds=0.1,
        people=0,
    )
    plain = to_plain(7, ROWS, [killed], EveryPoint(1, 1, 0))
    assert plain["seed"] == 7
    assert plain["kills"][0]["task"] == "loop-3"  # type: ignore[index]


def test_it_takes_no_code_of_yours() -> None:
    result = CliRunner().invoke(main, ["crash", "agent:handle", "--compare"])
    assert result.exit_code == 2
    assert "brings its own tasks" in result.output


def test_without_it_the_code_must_be_named() -> None:
    result = CliRunner().invoke(main, ["crash"])
    assert result.exit_code == 2
    assert "MODULE:FUNCTION" in result.output
