"""Do steps of Restate handlers take effect at most once? Its own server and SDK say (P289)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.environment import python, restate_server, run_inside

__all__ = ["python", "restate_server"]

pytestmark = pytest.mark.deep(part="hosts")
FILE = "check_restate.py"


@pytest.mark.parametrize("cases", ["killed_after", "killed_before", "parallel or under_way"])
def test_services_that_are_killed_leave_one_effect(
    python: Path, restate_server: Path, tmp_path: Path, cases: str
) -> None:
    run_inside(python, FILE, tmp_path, "-k", cases, restate=restate_server)


@pytest.mark.parametrize("cases", ["outlives and here", "outlives and namespace"])
def test_an_effect_is_not_repeated_while_another_service_makes_it(
    python: Path, restate_server: Path, tmp_path: Path, cases: str
) -> None:
    run_inside(python, FILE, tmp_path, "-k", cases, restate=restate_server)


@pytest.mark.parametrize(
    "cases", ["paused or restarted_as or forgotten", "doubt or fails", "database"]
)
def test_resumes_restarts_and_doubts_repeat_nothing(
    python: Path, restate_server: Path, tmp_path: Path, cases: str
) -> None:
    run_inside(python, FILE, tmp_path, "-k", cases, restate=restate_server)


@pytest.mark.parametrize(
    "cases", ["ended_while_its_tool", "ended_while_it_asks", "ended_while_a or aborts"]
)
def test_cancellations_and_timeouts_repeat_nothing_and_leave_no_needless_doubt(
    python: Path, restate_server: Path, tmp_path: Path, cases: str
) -> None:
    """P304."""
    run_inside(python, FILE, tmp_path, "-k", cases, restate=restate_server)


def test_a_cluster_whose_leader_is_killed_repeats_nothing(
    python: Path, restate_server: Path, tmp_path: Path
) -> None:
    run_inside(python, FILE, tmp_path, "-k", "leader", restate=restate_server)
