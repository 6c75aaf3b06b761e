"""How often does a call wait for the disk? Counted at the kernel, through the public API."""

from __future__ import annotations

from pathlib import Path

from tests.store.abilities import needs_strace, python, run, syncs_of, traced
from tests.store.children import Child


def syncs(folder: Path, **calls: int) -> int:
    """How many fsync and fdatasync calls a process of this many calls makes in total."""
    folder.mkdir(exist_ok=True)
    log = folder / "log"
    words = [f"{kind}={count}" for kind, count in calls.items()]
    command = python("guarded", folder / "ledger.db", *words)
    child = run(traced(command, log, "-qq", "-e", "trace=fsync,fdatasync"))
    assert child.returncode == 0, child.stderr
    return syncs_of(log)


@needs_strace
def test_an_effect_costs_two_syncs_and_a_replay_none(tmp_path: Path) -> None:
    few = syncs(tmp_path / "few", effects=5)
    assert syncs(tmp_path / "more", effects=25) - few == 2 * 20
    assert syncs(tmp_path / "replayed", effects=5, replays=50) == few


@needs_strace
def test_a_run_of_one_call_costs_two_syncs_and_its_receipt_none(tmp_path: Path) -> None:
    """P300. As many as a call in a run, although each of them is claimed and released."""
    few = syncs(tmp_path / "few", onces=5)
    assert syncs(tmp_path / "more", onces=25) - few == 2 * 20
    assert syncs(tmp_path / "again", onces=5, onces_again=50) == few


@needs_strace
def test_a_pure_call_costs_no_sync_of_its_own(tmp_path: Path) -> None:
    few = syncs(tmp_path / "few", effects=5)
    assert syncs(tmp_path / "pure", effects=5, pure=50) == few


@needs_strace
def test_a_resumed_run_replays_without_a_sync(tmp_path: Path) -> None:
    """What a resume costs is claiming the run and giving it up, however much it replays."""
    for name in ("few", "more"):
        syncs(tmp_path / name, effects=25, pure=25)
    few = syncs(tmp_path / "few", effects=1)
    assert syncs(tmp_path / "more", effects=25, pure=25) == few


@needs_strace
def test_an_effect_costs_an_event_loop_two_syncs_too(tmp_path: Path) -> None:
    few = syncs(tmp_path / "few", async_effects=5)
    assert syncs(tmp_path / "more", async_effects=25) - few == 2 * 20


@needs_strace
def test_threads_that_commit_at_once_share_their_syncs(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = python("acknowledge", tmp_path / "ledger.db", "200", "16", "10")
    with Child(traced(command, log, "-qq", "-e", "trace=fsync,fdatasync")) as child:
        assert child.hear() == {"ready": True}
        child.tell("go")
        said = child.hear_all()
    assert len([facts for facts in said if "durable" in facts]) == 200
    assert syncs_of(log) < 100
