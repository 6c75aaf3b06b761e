"""How often does a graph wait for the disk? Counted at the kernel."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.store.abilities import needs_strace, run, syncs_of, traced


def syncs(
    folder: Path, *, what: str = "run", kind: str = "unsafe", nodes: int, cadence: str = "effects"
) -> int:
    """How many syncs a process makes in total that runs a graph of this many nodes."""
    folder.mkdir(exist_ok=True)
    log = folder / "log"
    words = [str(folder / "ledger.db"), what, kind, str(nodes), cadence]
    command = [sys.executable, "-m", "tests.graphs.programs", *words]
    child = run(traced(command, log, "-qq", "-e", "trace=fsync,fdatasync"))
    assert child.returncode == 0, child.stderr
    return syncs_of(log)


@needs_strace
def test_a_node_with_one_unsafe_call_costs_two_syncs(tmp_path: Path) -> None:
    few = syncs(tmp_path / "few", nodes=5)
    assert syncs(tmp_path / "more", nodes=25) - few == 2 * 20


@needs_strace
def test_a_node_without_effects_costs_no_sync_unless_every_step_is_to_be_durable(
    tmp_path: Path,
) -> None:
    few = syncs(tmp_path / "few", kind="pure", nodes=5)
    assert syncs(tmp_path / "more", kind="pure", nodes=25) == few
    assert syncs(tmp_path / "exit", kind="pure", nodes=25, cadence="on_exit") == few
    assert syncs(tmp_path / "every", kind="pure", nodes=25, cadence="every_step") == few + 25


@needs_strace
def test_a_finished_run_is_returned_without_a_sync(tmp_path: Path) -> None:
    syncs(tmp_path, nodes=5)
    assert syncs(tmp_path, nodes=5) == syncs(tmp_path, what="look", nodes=5) == 0
