"""Do activities of Temporal take effect at most once? Its own server and SDK say (P306)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.environment import python, run_inside

__all__ = ["python"]

pytestmark = pytest.mark.deep(part="hosts")
FILE = "check_temporal.py"


def test_workers_that_are_killed_leave_one_effect(python: Path, tmp_path: Path) -> None:
    run_inside(python, FILE, tmp_path, "-k", "killed or parallel")


def test_timeouts_resets_and_continue_as_new_repeat_nothing(python: Path, tmp_path: Path) -> None:
    run_inside(python, FILE, tmp_path, "-k", "outlives or reset or continue")


def test_a_doubt_is_a_pending_activity_and_a_failure_is_one(python: Path, tmp_path: Path) -> None:
    run_inside(python, FILE, tmp_path, "-k", "doubt or fails")
