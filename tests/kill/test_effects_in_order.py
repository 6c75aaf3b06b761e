"""Do the effects of one reply keep their order when their process is killed between them? (P200)"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.kill.ordered_programs import EFFECTS
from tests.kill.processes import ROOT
from tests.nursery import starting

PLACES = [f"{when} {name}" for name in EFFECTS for when in ("before", "after")]


def work(folder: Path, mode: str, *place: str) -> int:
    words = [str(folder / "agent.db"), str(folder / "effects.txt"), mode, *place]
    command = [sys.executable, "-m", "tests.kill.ordered_programs", *words]
    done = starting.run(command, cwd=ROOT, timeout=120)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.mark.sampled(part="sweeps", keep=4)
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("place", PLACES)
def test_killed_between_the_effects_of_one_reply_they_happen_once_and_in_order(
    place: str, mode: str, tmp_path: Path
) -> None:
    assert work(tmp_path, mode, place) == -signal.SIGKILL
    effects = tmp_path / "effects.txt"
    begun = effects.read_text().splitlines() if effects.exists() else []
    assert begun == list(EFFECTS[: (PLACES.index(place) + 1) // 2])
    assert work(tmp_path, mode) == 0
    assert effects.read_text().splitlines() == list(EFFECTS)
