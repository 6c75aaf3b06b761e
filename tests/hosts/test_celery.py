"""Do Celery tasks take effect at most once? Celery itself says, on two brokers (P288)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.environment import python, run_inside

__all__ = ["python"]

pytestmark = pytest.mark.deep(part="hosts")
FILE = "check_celery.py"


@pytest.mark.parametrize("cases", ["killed_after", "killed_before", "parallel"])
def test_processes_that_are_killed_leave_one_effect(
    python: Path, tmp_path: Path, cases: str
) -> None:
    run_inside(python, FILE, tmp_path, "-k", cases)


@pytest.mark.parametrize("cases", ["redis and whole", "redis and outlives"])
def test_what_redis_delivers_again_is_not_repeated(
    python: Path, tmp_path: Path, cases: str
) -> None:
    run_inside(python, FILE, tmp_path, "-k", cases)


@pytest.mark.parametrize("cases", ["again and here", "again and namespace"])
def test_a_message_that_is_sent_again_repeats_nothing(
    python: Path, tmp_path: Path, cases: str
) -> None:
    run_inside(python, FILE, tmp_path, "-k", cases)


@pytest.mark.parametrize("cases", ["doubt", "fails or declaration", "database", "refuses"])
def test_doubts_failures_and_restarts_of_the_database(
    python: Path, tmp_path: Path, cases: str
) -> None:
    run_inside(python, FILE, tmp_path, "-k", cases)


@pytest.mark.parametrize(
    "cases",
    ["celery_ends and bare", "celery_ends and protected", "before_the_limit", "revoked_while"],
)
def test_limits_and_revocations_repeat_nothing_and_leave_no_needless_doubt(
    python: Path, tmp_path: Path, cases: str
) -> None:
    """P304."""
    run_inside(python, FILE, tmp_path, "-k", cases)
