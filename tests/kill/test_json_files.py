"""Is every effect done once when a process dies at any line that writes a run's JSON file? (B2)

`json_files.py` is the process that dies; what it says is judged here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kill.processes import ROOT

# Every so-manieth of some 280 lines. All of them take minutes; by hand, with 1 for 7:
# python -m tests.kill.json_files FOLDER call 1
OFTEN = 7
SELDOM = 31
sampled = pytest.mark.parametrize(
    "every", [SELDOM, pytest.param(OFTEN, marks=pytest.mark.deep(part="sweeps"))]
)


def killed_everywhere(place: Path, scenario: str, every: int) -> list[dict[str, Any]]:
    """What was found after the resume of each of them."""
    command = [sys.executable, "-m", "tests.kill.json_files", str(place), scenario, str(every)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    ended = [line["ended"] for line in lines if "ended" in line]
    # All but the last died of the signal, and the last one survived: there was no line left.
    assert (set(ended[:-1]), ended[-1]) == ({-9}, 0)
    assert len(ended) > 200 / every
    assert {line["resumed"] for line in lines if "resumed" in line} == {0}
    found = [line for line in lines if "effects" in line]
    assert len(found) == len(ended)
    return found


@sampled
def test_a_call_killed_at_any_line_that_writes_takes_effect_once(
    every: int, tmp_path: Path
) -> None:
    for found in killed_everywhere(tmp_path, "call", every):
        assert (found["effects"], found["calls"], found["status"]) == (1, ["DONE"], "completed")
        assert found["files"] == [".nottwice", "run.json"], "nothing is left lying around"


@sampled
def test_a_decision_beside_a_run_killed_at_any_line_that_writes_is_used_once(
    every: int, tmp_path: Path
) -> None:
    for found in killed_everywhere(tmp_path, "decision", every):
        assert (found["effects"], found["calls"], found["status"]) == (1, ["DONE"], "completed")
        # A licence is one attempt: each decision that it did not happen makes one more possible.
        assert set(found["reviews"]) == {"used"}
        assert found["decisions"] == len(found["reviews"])
        assert found["attempts"][0] <= 1 + found["decisions"]
