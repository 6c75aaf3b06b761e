"""Do steps of DBOS workflows take effect at most once? DBOS itself says (P307)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.environment import python, run_inside

__all__ = ["python"]

pytestmark = pytest.mark.deep(part="hosts")
FILE = "check_dbos.py"


@pytest.mark.parametrize("cases", ["killed_after", "killed_before or killed_between"])
def test_processes_that_are_killed_leave_one_effect(
    python: Path, tmp_path: Path, cases: str
) -> None:
    run_inside(python, FILE, tmp_path, "-k", cases)


@pytest.mark.parametrize("cases", ["parallel", "resumed", "doubt and not gathered", "fails"])
def test_parallel_steps_resumes_and_doubts_repeat_nothing(
    python: Path, tmp_path: Path, cases: str
) -> None:
    run_inside(python, FILE, tmp_path, "-k", cases)


@pytest.mark.parametrize(
    "cases", ["gathered and cba", "gathered and bca", "sees_a_decision", "cancelled", "hears"]
)
def test_steps_that_wait_get_their_own_answers_and_can_be_cancelled(
    python: Path, tmp_path: Path, cases: str
) -> None:
    run_inside(python, FILE, tmp_path, "-k", cases)


@pytest.mark.parametrize("cases", ["killed_after and protected", "doubt and not gathered"])
def test_the_same_on_postgresql(python: Path, tmp_path: Path, cases: str) -> None:
    pytest.importorskip("psycopg")
    from tests.postgres import server

    run_inside(python, FILE, tmp_path, "-k", cases, server=server.url())


@pytest.mark.parametrize("cases", ["slow and here", "slow and namespace"])
def test_a_step_is_not_repeated_while_another_executor_makes_it(
    python: Path, tmp_path: Path, cases: str
) -> None:
    run_inside(python, FILE, tmp_path, "-k", cases)


def test_a_database_that_is_restarted_loses_and_repeats_nothing(
    python: Path, tmp_path: Path
) -> None:
    run_inside(python, FILE, tmp_path, "-k", "database")
