"""Is a paid answer requested again after a kill? At most the request in progress (D14)."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.kill.processes import ROOT
from tests.nursery import starting
from tests.postgres import server

LAYERS = ["guard", "guard_async", "recorded", "recorded_async", "graph", "graph_on_exit", "agent"]
TURNS, DIES_AT = 100, 90


@pytest.fixture(params=["sqlite", "json files", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return server.ledger_url(tmp_path)
    return str(tmp_path / "agent.db") if request.param == "sqlite" else f"file:{tmp_path}/runs"


def work(layer: str, store: str, lines: Path, *die_at: int) -> int:
    words = [layer, store, str(lines), str(TURNS), *map(str, die_at)]
    command = [sys.executable, "-m", "tests.kill.paid_programs", *words]
    done = starting.run(command, cwd=ROOT, timeout=120)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.mark.sampled(part="sweeps", keep=4)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_kill_at_turn_90_repeats_at_most_one_request(
    layer: str, store: str, tmp_path: Path
) -> None:
    lines = tmp_path / "requests.txt"
    assert work(layer, store, lines, DIES_AT) == -signal.SIGKILL
    assert work(layer, store, lines) == 0
    assert len(lines.read_text().splitlines()) <= TURNS + 1
