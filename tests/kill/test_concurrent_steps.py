"""Does an unchanged concurrent program drift when it is killed? (D15, P137)"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.kill.concurrent_steps import PARTS, TASKS
from tests.kill.processes import ROOT
from tests.nursery import starting

SEEDS = 5


@pytest.mark.sampled(part="sweeps", keep=1)
@pytest.mark.parametrize("kind", ["threads", "tasks", "steps"])
def test_an_unchanged_concurrent_program_that_is_killed_at_random_never_drifts(
    kind: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.kill.concurrent_steps", str(tmp_path), kind, str(SEEDS)]
    done = starting.run(command, cwd=ROOT, timeout=240)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [lives[-1] for lives in said["ended"]] == ["done"] * SEEDS
    # Otherwise nothing was tried.
    assert sum(lives.count("killed") for lives in said["ended"]) >= SEEDS
    name = "all" if kind == "steps" else None
    expected = sorted(f"{name or n}.{part}" for n in range(TASKS) for part in range(PARTS))
    assert said["sent"] == [expected] * SEEDS
