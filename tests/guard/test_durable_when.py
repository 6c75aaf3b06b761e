"""How often does a plain run wait for the disk, by what it does and by ``checkpoints=``?

The prices on docs/concepts/what-is-durable-when.md, counted at the kernel.
"""

from __future__ import annotations

import sys

import pytest

from tests.store.abilities import needs_strace, run, syncs_between, traced

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


@pytest.fixture(scope="module")
def spent(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], int]:
    """How many syncs the steps of each case take, beyond those of a run without any."""
    folder = tmp_path_factory.mktemp("syncs")
    log = folder / "log"
    cases = [f"{kind} {STEPS} {checkpoints}" for kind, checkpoints in PRICES]
    command = [sys.executable, "-m", "tests.guard.sync_programs", str(folder), *cases]
    child = run(traced(command, log, "-qq", "-e", "trace=fsync,fdatasync,chdir"))
    assert child.returncode == 0, child.stderr
    counts = syncs_between(log, "chdir")
    assert len(counts) == 2 * len(PRICES)
    return {
        case: full - empty
        for case, empty, full in zip(PRICES, counts[::2], counts[1::2], strict=True)
    }


@needs_strace
@pytest.mark.parametrize(("kind", "checkpoints"), PRICES)
def test_so_many_steps_cost_so_many_syncs(
    kind: str, checkpoints: str, spent: dict[tuple[str, str], int]
) -> None:
    assert spent[kind, checkpoints] == PRICES[kind, checkpoints]
