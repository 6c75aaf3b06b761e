"""Do steps of DBOS workflows take effect at most once? DBOS itself says (P307)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.environment import python, run_inside

__all__ = ["python"]

pytestmark = pytest.mark.deep(part="hosts")
FILE = "check_dbos.py"


def test_processes_that_are_killed_leave_one_effect(python: Path, tmp_path: Path) -> None:
    run_inside(python, FILE, tmp_path, "-k", "killed")


def test_parallel_steps_resumes_and_doubts_repeat_nothing(python: Path, tmp_path: Path) -> None:
    run_inside(python, FILE, tmp_path, "-k", "not killed")


def test_the_same_on_postgresql(python: Path, tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    from tests.postgres import server as shared

    run_inside(
        python, FILE, tmp_path, "-k", "killed_after and protected or doubt", server=shared.url()
    )
