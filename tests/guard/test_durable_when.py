"""How often does a plain run wait for the disk, by what it does and by ``checkpoints=``?

The prices on docs/concepts/what-is-durable-when.md, counted at the kernel.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.store.machine import needs_strace, run, syncs_of, traced

STEPS = 20
PRICES = {
    ("look", "effects"): 0,
    ("look", "on_exit"): 0,
    ("look", "30s"): 0,
    ("look", "5"): STEPS // 5,
    ("look", "every_step"): STEPS,
    ("ask_model", "effects"): STEPS,
    ("look_durably", "effects"): STEPS,
    ("recorded", "effects"): STEPS,
    ("recorded", "on_exit"): STEPS,
    ("recorded", "5"): STEPS + STEPS // 5,
    ("recorded", "every_step"): 2 * STEPS,
    ("act", "effects"): 2 * STEPS,
    ("act", "on_exit"): 2 * STEPS,
    ("act", "5"): 2 * STEPS + STEPS // 5,
    ("act", "every_step"): 3 * STEPS,
}


def syncs(folder: Path, kind: str, steps: int, checkpoints: str) -> int:
    folder.mkdir()
    log = folder / "log"
    words = [str(folder / "ledger.db"), kind, str(steps), checkpoints]
    command = [sys.executable, "-m", "tests.guard.sync_programs", *words]
    child = run(traced(command, log, "-qq", "-e", "trace=fsync,fdatasync"))
    assert child.returncode == 0, child.stderr
    return syncs_of(log)


@needs_strace
@pytest.mark.parametrize(("kind", "checkpoints"), PRICES)
def test_so_many_steps_cost_so_many_syncs(kind: str, checkpoints: str, tmp_path: Path) -> None:
    empty = syncs(tmp_path / "empty", kind, 0, checkpoints)
    spent = syncs(tmp_path / "full", kind, STEPS, checkpoints) - empty
    assert spent == PRICES[kind, checkpoints]
