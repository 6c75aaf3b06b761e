"""Does the index of graphs save reads, and never hide a graph, whatever happens to it?"""

from __future__ import annotations

import json
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.model.sealing.keyring import make_key, make_keyring
from nottwice.model.sealing.seal import Seals
from nottwice.store.files import disk
from nottwice.store.files.graphs import FILE, MOST_UNREAD
from nottwice.store.files.store import OWN_FOLDER, JsonFileStore
from nottwice.store.interface import Commit
from tests.nursery import starting
from tests.store.samples import NOW, claim, graph

SEALS = Seals(make_keyring([make_key(bytes(range(32)))]))


def flow(version: str, *nodes: str) -> nt.Graph[Any]:
    made: nt.Graph[Any] = nt.Graph("many", version=version)
    for name in nodes:
        made.node(name=name)(lambda state: None)
    return made


def opened(folder: Path, seals: Seals | None = None) -> JsonFileStore:
    return JsonFileStore(folder, now=NOW, seals=seals)


def index_of(folder: Path) -> Path:
    return folder / OWN_FOLDER / FILE


def ids(folder: Path, seals: Seals | None = None) -> list[str]:
    """What a new process finds."""
    return [one.graph_id for one in opened(folder, seals).graphs()]


def filled(folder: Path, seals: Seals | None = None) -> Path:
    """Runs of two graphs, and an index that names some of them."""
    store = opened(folder, seals)
    for number in range(MOST_UNREAD + 20):
        run_id = f"run-{number:03}"
        of = graph("first@1.0.0" if number else "zeroth@1.0.0")
        store.commit(Commit(workflow_id=run_id, fence=claim(store, run_id), graph=of))
    store.close()
    assert index_of(folder).exists()
    return folder


def test_the_first_run_of_a_new_version_reads_a_part_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, runs = tmp_path / "runs", 6 * MOST_UNREAD
    store = opened(folder)
    old = flow("1.0.0", "work")
    for number in range(runs):
        old.run(f"run-{number:03}", {}, store=store)
    store.close()
    read: set[str] = set()
    whole = disk.read

    def counted(path: Path) -> bytes | None:
        if path.suffix == disk.RUN and path.parent == folder:
            read.add(path.name)
        return whole(path)

    monkeypatch.setattr(disk, "read", counted)
    outcome = flow("1.1.0", "work").run("one-more", {}, store=opened(folder))
    assert outcome.status == "completed"
    assert len(read - {"one-more.json"}) <= MOST_UNREAD + 1
    with pytest.raises(nt.errors.GraphChangedInPlace):
        flow("1.1.1", "work", "more").run("refused", {}, store=opened(folder))


@pytest.mark.parametrize(
    "said",
    [
        "",
        "\0\0\0\0",
        "{",
        "[]",
        '{"graphs": {}}',
        '{"graphs": {"first@1.0.0": 7}, "read": []}',
        '{"graphs": {"gone@1.0.0": "nothing"}, "read": ["run-000", "run-001"]}',
        '{"graphs": {"zeroth@1.0.0": "run-001"}, "read": ["run-000", "run-001"]}',
    ],
)
def test_an_index_that_is_damaged_or_wrong_hides_no_graph(tmp_path: Path, said: str) -> None:
    folder = filled(tmp_path / "runs")
    found = {"first@1.0.0": graph("first@1.0.0"), "zeroth@1.0.0": graph("zeroth@1.0.0")}
    for text in (said, f"{said}\n\n", f"{said}\n{index_of(folder).read_text().split()[-1]}\n"):
        index_of(folder).write_text(text)
        assert ids(folder) == list(found)
        assert {one: opened(folder).load_graph(one) for one in found} == found


def test_an_index_that_is_missing_is_made_again_by_the_next_run(tmp_path: Path) -> None:
    folder = filled(tmp_path / "runs")
    index_of(folder).unlink()
    assert ids(folder) == ["first@1.0.0", "zeroth@1.0.0"]
    store = opened(folder)
    store.commit(Commit(workflow_id="new", fence=claim(store, "new"), graph=graph("first@1.0.0")))
    assert "zeroth@1.0.0" in index_of(folder).read_text()


def test_files_that_are_added_and_removed_by_hand_count(tmp_path: Path) -> None:
    folder, other = filled(tmp_path / "runs"), tmp_path / "other"
    store = opened(other)
    store.commit(Commit(workflow_id="x", fence=claim(store, "x"), graph=graph("added@2.0.0")))
    (other / "x.json").rename(folder / "x.json")
    assert ids(folder) == ["added@2.0.0", "first@1.0.0", "zeroth@1.0.0"]
    (folder / "run-000.json").unlink()
    assert ids(folder) == ["added@2.0.0", "first@1.0.0"]
    assert opened(folder).load_graph("zeroth@1.0.0") is None


def test_a_graph_that_the_ledger_does_not_know_is_not_found(tmp_path: Path) -> None:
    assert opened(filled(tmp_path / "runs")).load_graph("other@1.0.0") is None


def test_a_sealed_index_that_was_edited_is_not_believed(tmp_path: Path) -> None:
    folder = filled(tmp_path / "runs", SEALS)
    index = index_of(folder)
    said, seal = index.read_text().splitlines()
    plain = json.loads(said)
    del plain["graphs"]["zeroth@1.0.0"]
    index.write_text(f"{json.dumps(plain, sort_keys=True)}\n{seal}\n")
    assert ids(folder, SEALS) == ["first@1.0.0", "zeroth@1.0.0"]


def test_a_disk_that_takes_no_index_takes_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = disk.replace

    def full(path: Path, *content: bytes) -> None:
        if path.name == FILE:
            raise OSError(28, "No space left on device")
        whole(path, *content)

    monkeypatch.setattr(disk, "replace", full)
    store = opened(tmp_path / "runs")
    for number in range(MOST_UNREAD + 2):
        flow("1.0.0", "work").run(f"run-{number}", {}, store=store)
    assert ids(tmp_path / "runs") == ["many@1.0.0"]


GAINS = """
import os, signal, sys
from pathlib import Path
import nottwice as nt
from nottwice.store.interface import Commit
from nottwice.store.files.store import JsonFileStore
from nottwice.testing.conformance.samples import NOW, claim, graph

folder, point = Path(sys.argv[1]), int(sys.argv[2])
calls = 0

def counted(name):
    usual = getattr(os, name)
    def use(*args, **named):
        global calls
        calls += 1
        if calls == point:
            os.kill(os.getpid(), signal.SIGKILL)
        return usual(*args, **named)
    setattr(os, name, use)

store = JsonFileStore(folder, now=NOW)
fence = claim(store, "run-003", after=store.load_run("run-003"))
for name in ("replace", "fsync", "write"):
    counted(name)
store.commit(Commit(workflow_id="run-003", fence=fence, graph=graph("gained@9.0.0")))
print("committed")
"""


def test_wherever_a_process_dies_that_gives_a_run_a_graph_the_index_hides_nothing(
    tmp_path: Path,
) -> None:
    found, made = [], filled(tmp_path / "runs")
    for point in range(1, 40):
        folder = shutil.copytree(made, tmp_path / f"runs-{point}")
        ended = starting.run([sys.executable, "-c", GAINS, str(folder), str(point)])
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
        with_index = ids(folder)
        index_of(folder).unlink()
        assert with_index == ids(folder)
        found.append("gained@9.0.0" in with_index)
        if "committed" in ended.stdout:
            break
    # It was killed before the run's file, and after it.
    assert found[0] is False
    assert found.count(True) >= 2
    assert found[-1] is True
