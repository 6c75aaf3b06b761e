"""What if an engine is missing? Its tests are skipped, and never reported as passed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.hosts.environment import run_inside

# Redis is missing inside.
CHECK = """
from tests.hosts.required import missing

def test_a_task_of_redis():
    missing("There is no redis-server.")
"""


@pytest.fixture
def check(tmp_path: Path) -> str:
    file = tmp_path / "check_redis.py"
    file.write_text(CHECK)
    return str(file)


def test_a_missing_engine_skips_the_test_that_asked_for_it(
    tmp_path: Path, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOTTWICE_HOSTS", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"There is no redis-server\."):
        run_inside(Path(sys.executable), check, tmp_path)


@pytest.mark.parametrize("said", ["required", "newest"])
def test_a_missing_engine_fails_the_test_where_engines_are_required(
    tmp_path: Path, check: str, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("NOTTWICE_HOSTS", said)
    with pytest.raises(AssertionError, match=r"There is no redis-server\. .*must be here"):
        run_inside(Path(sys.executable), check, tmp_path)


def test_a_machine_without_pid_namespaces_fails_the_tests_that_need_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("psycopg")
    from tests.hosts.inside.tools import apart

    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("NOTTWICE_HOSTS", "required")
    with pytest.raises(pytest.fail.Exception, match="unshare"):
        apart()
