"""Do activities of Temporal take effect at most once? Its own server and SDK say (P306).

Each case is a server, its workers and their deaths, and a process of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.environment import python, run_inside

__all__ = ["python"]

pytestmark = pytest.mark.deep(part="hosts")
FILE = "check_temporal.py"
KILLS = [
    "killed_after and bare",
    "killed_after and protected",
    "killed_before",
    "parallel",
]


@pytest.mark.parametrize("cases", KILLS)
def test_workers_that_are_killed_leave_one_effect(python: Path, tmp_path: Path, cases: str) -> None:
    run_inside(python, FILE, tmp_path, "-k", cases)


@pytest.mark.parametrize("cases", ["outlives", "namespace", "reset", "continue"])
def test_timeouts_resets_and_continue_as_new_repeat_nothing(
    python: Path, tmp_path: Path, cases: str
) -> None:
    run_inside(python, FILE, tmp_path, "-k", cases)


@pytest.mark.parametrize("cases", ["doubt", "fails"])
def test_a_doubt_is_a_pending_activity_and_a_failure_is_one(
    python: Path, tmp_path: Path, cases: str
) -> None:
    run_inside(python, FILE, tmp_path, "-k", cases)


@pytest.mark.parametrize(
    "cases",
    ["heartbeats and method", "heartbeats and cancellation", "heartbeat_timeout", "told_to_stop"],
)
def test_heartbeats_and_cancellations_arrive(python: Path, tmp_path: Path, cases: str) -> None:
    run_inside(python, FILE, tmp_path, "-k", cases)


def test_a_database_that_is_restarted_loses_and_repeats_nothing(
    python: Path, tmp_path: Path
) -> None:
    run_inside(python, FILE, tmp_path, "-k", "database")
