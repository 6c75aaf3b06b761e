"""Does a recording know what was on the disk, and what the world saw, at every step?"""

from __future__ import annotations

from pathlib import Path

import pytest

import nottwice as nt
from nottwice.testing.crash.course import Lab
from nottwice.testing.crash.faults.recording import SHARED_MEMORY, record
from nottwice.testing.crash.inside.child import LEDGERS
from tests.testing.crash.watching import lab_of, needs_strace

pytestmark = needs_strace
STORES = ["agent.db", "file:agent"]


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(SHARED_MEMORY)
    }


@pytest.mark.parametrize("store", STORES)
def test_a_disk_that_kept_everything_is_the_real_one_byte_by_byte(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = []
    monkeypatch.setattr(Lab, "discard", lambda self, moment: kept.append(moment.folder))
    with lab_of(store) as lab:
        recording = lab.stage.perform_one(record(lab, work_only=False))
        disk = recording.steps[-1].disk
        image = disk.image((1 << len(disk.pending)) - 1)
        (folder,) = kept
        assert image.files == files_in(folder / LEDGERS)
        assert any(image.files.values())


@pytest.mark.parametrize("store", STORES)
def test_the_world_of_a_step_has_seen_what_was_asked_before_it(store: str) -> None:
    with lab_of(store) as lab:
        steps = lab.stage.perform_one(record(lab, work_only=False)).steps
    asked = [number for number, step in enumerate(steps) if "effect" in step.text]
    assert [len(steps[number].world.effects) for number in asked] == [1, 2]
    assert [len(steps[number - 1].world.effects) for number in asked] == [0, 1]
    assert [step.text for step in steps if step.reported][:1] == ["the work had ended"]


def test_a_recording_of_the_work_alone_leaves_out_what_comes_before_and_after() -> None:
    with lab_of("agent.db") as lab:
        whole = lab.stage.perform_one(record(lab, work_only=False))
        work = lab.stage.perform_one(record(lab, work_only=True))
    assert whole.steps[0].text == "the folder was opened"
    assert work.steps[0].text.endswith("was created")
    assert whole.steps[-1].reported
    assert not any(step.reported for step in work.steps)
    assert work.paths == whole.paths
    assert work.largest_bytes > 0


def test_a_ledger_of_other_code_in_this_process_is_no_part_of_the_work(tmp_path: Path) -> None:
    with nt.Ledger(f"file:{tmp_path / 'runs'}"), lab_of("agent.db") as lab:
        whole = lab.stage.perform_one(record(lab, work_only=False))
    assert whole.steps[0].text == "the folder was opened"
