"""Does a record say which phase is in progress, during the work and after a kill? (S1, P175)"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kill.phase_programs import PHASES
from tests.kill.processes import LISTEN_SECONDS, ROOT
from tests.nursery import starting
from tests.postgres import server

LAYERS = ["phases", "phases_at_every_step", "async_phases", "steps"]
ON_POSTGRESQL = ["phases", "steps"]
IN_THE_FOURTH = ["done", "done", "done", "in_progress"]


@pytest.fixture(params=["sqlite", "json files", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return server.ledger_url(tmp_path)
    return str(tmp_path / "agent.db") if request.param == "sqlite" else f"file:{tmp_path}/runs"


@pytest.fixture(params=LAYERS)
def layer(request: pytest.FixtureRequest, store: str) -> str:
    name: str = request.param
    if store.startswith("postgresql") and name not in ON_POSTGRESQL:
        pytest.skip("the layers differ above the store; the other stores run them all")
    return name


@contextlib.contextmanager
def working(layer: str, store: str, how: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.kill.phase_programs", layer, store, how]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=LISTEN_SECONDS)


def marks(store: str) -> list[str]:
    """The state of each phase, as ``nottwice show`` prints it; none before it begins."""
    command = [sys.executable, "-m", "nottwice", "show", "r", "--store", store, "--json"]
    shown = starting.run(command, timeout=LISTEN_SECONDS)
    steps = json.loads(shown.stdout)["steps"] if shown.returncode == 0 else []
    return [step["status"] for step in steps if step["step"].endswith("/step")]


def head_of(store: str) -> dict[str, str]:
    """The same as the head of the run's file."""
    shown = json.loads((Path(store.removeprefix("file:")) / "r.json").read_text())
    assert shown["phase"] == "publish"
    return {name: phase["status"] for name, phase in shown["phases"].items()}


@pytest.mark.sampled(part="sweeps", keep=2)
def test_a_phase_that_works_for_long_is_shown_as_in_progress_to_every_reader(
    layer: str, store: str
) -> None:
    with working(layer, store, "works") as process:
        deadline = time.monotonic() + LISTEN_SECONDS
        while marks(store) != IN_THE_FOURTH:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline, marks(store)
    assert process.returncode == -signal.SIGKILL
    assert marks(store) == IN_THE_FOURTH
    if store.startswith("file:"):
        found = head_of(store)
        assert list(found.values())[:4] == IN_THE_FOURTH
        assert list(found)[:4] == PHASES[:4]
        assert found.get("tell", "pending") == "pending"


@pytest.mark.sampled(part="sweeps", keep=2)
def test_a_kill_in_the_first_effect_of_a_phase_leaves_that_phase_in_progress(
    layer: str, store: str
) -> None:
    check_marks_after_death(layer, store, "acts")


def test_a_kill_as_a_phase_begins_leaves_it_in_progress_if_every_step_is_committed(
    store: str,
) -> None:
    check_marks_after_death("phases_at_every_step", store, "dies")


def check_marks_after_death(layer: str, store: str, how: str) -> None:
    with working(layer, store, how) as process:
        process.wait(timeout=LISTEN_SECONDS)
    assert process.returncode == -signal.SIGKILL
    assert marks(store) == IN_THE_FOURTH
