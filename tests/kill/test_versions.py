"""Do all versions of a run stay what they were, wherever it was killed? (P21)

Not only what a run adds is written: now and then earlier versions are packed, and some of them come
to rest on later ones. A process that dies there leaves all as they were, or all as they will be.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

STEPS = 320


@pytest.mark.deep(part="sweeps")
def test_a_run_that_is_killed_again_and_again_keeps_every_version(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.kill.versions", str(tmp_path / "l.db"), str(STEPS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    kills, versions, turned = map(int, done.stdout.split())
    assert kills >= 34
    assert versions == STEPS + 1
    assert turned > STEPS // 3
