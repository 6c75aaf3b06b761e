"""Do steps of DBOS workflows take effect at most once? DBOS itself says (P307)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.environment import python, run_inside

__all__ = ["python"]

pytestmark = pytest.mark.deep(part="hosts")
FILE = "check_dbos.py"


@pytest.mark.parametrize("cases", ["killed_after", "before", "acknowledge"])
def test_processes_that_are_killed_leave_one_effect(
    python: Path, tmp_path: Path, cases: str
) -> None:
    run_inside(python, FILE, tmp_path, "-k", cases)


@pytest.mark.parametrize("cases", ["parallel", "resumed", "doubt", "fails"])
def test_parallel_steps_resumes_and_doubts_repeat_nothing(
    python: Path, tmp_path: Path, cases: str
) -> None:
    run_inside(python, FILE, tmp_path, "-k", cases)


@pytest.mark.parametrize("cases", ["killed_after and protected", "doubt"])
def test_the_same_on_postgresql(python: Path, tmp_path: Path, cases: str) -> None:
    pytest.importorskip("psycopg")
    from tests.postgres import server

    run_inside(python, FILE, tmp_path, "-k", cases, server=server.url())
