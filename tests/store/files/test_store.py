"""Does the folder of JSON files hold what the suite cannot ask: inboxes, locks, forks, bad disks?

What is true of every store is in `test_conformance.py`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import (
    CommitUnknown,
    LedgerCorrupt,
    NoLedger,
    SchemaTooNew,
    StoreError,
    UnsafeFilesystem,
)
from nottwice.model.run import Life
from nottwice.store.files import disk, document
from nottwice.store.files.store import JsonFileStore
from nottwice.store.interface import Claim, Commit, ReviewWrite
from nottwice.store.machine import filesystem
from tests.instructions import instructions
from tests.store.abilities import ROOT
from tests.store.samples import (
    NOW,
    RESULT,
    audit,
    claim,
    decision,
    event,
    follow,
    graph,
    intent,
    note,
    noted,
    pending,
    review,
    run_record,
    told,
)


def files_of(store: JsonFileStore) -> list[str]:
    return sorted(file.name for file in Path(store.location).iterdir() if file.is_file())


def file_of(store: JsonFileStore, name: str = "run.json") -> Path:
    return Path(store.location) / name


def change(path: Path, **changes: Any) -> None:
    """What a person does with an editor."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


# The file and its inbox


def test_the_holder_writes_the_file_and_others_the_inbox(folder: JsonFileStore) -> None:
    fence = claim(folder)
    folder.commit(intent(pending(), fence))
    assert files_of(folder) == ["run.json"]
    before = file_of(folder).read_bytes()
    folder.commit(note(1))
    folder.commit(told(event()))
    assert files_of(folder) == ["run.inbox", "run.json"]
    assert file_of(folder).read_bytes() == before
    assert len(file_of(folder, "run.inbox").read_bytes().splitlines()) == 2
    assert (noted(folder), folder.events("run")) == ([1], [event()])


def test_the_holder_folds_the_inbox_in_with_its_next_commit(folder: JsonFileStore) -> None:
    fence = claim(folder)
    for number in range(3):
        folder.commit(note(number))
    folder.commit(intent(pending(), fence))
    assert files_of(folder) == ["run.json"]
    plain = json.loads(file_of(folder).read_text())
    assert [entry["why"] for entry in plain["audit"]] == ["note 0", "note 1", "note 2"]
    assert plain["folded"] == 3
    folder.commit(note(3))
    assert noted(folder) == [0, 1, 2, 3]


def test_an_inbox_that_is_back_after_a_crash_is_not_taken_twice(folder: JsonFileStore) -> None:
    """A decision that was used since must not be there again, unused."""
    fence = claim(folder)
    opened = review()
    decided = opened.decided(decision())
    folder.commit(Commit(workflow_id="run", fence=fence, reviews=(ReviewWrite(opened),)))
    folder.commit(Commit(workflow_id="run", reviews=(ReviewWrite(decided, 1),), audit=(audit(),)))
    inbox = file_of(folder, "run.inbox")
    kept = inbox.read_bytes()
    used = decided.used(now=NOW + 9)
    folder.commit(Commit(workflow_id="run", fence=fence, reviews=(ReviewWrite(used, 2),)))
    inbox.write_bytes(kept)
    for reader in (folder, JsonFileStore(folder.location, now=NOW)):
        assert reader.reviews("run") == [used]
    # What is said after that is heard, and the next commit tidies up.
    folder.commit(note(1))
    assert [entry.why for entry in folder.audit("run")] == ["looked", "note 1"]
    folder.commit(intent(pending(), fence))
    assert folder.reviews("run") == [used]
    assert files_of(folder) == ["run.json"]


def test_an_inbox_that_cannot_be_removed_does_no_harm(
    folder: JsonFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EACCES, "no")

    fence = claim(folder)
    folder.commit(note(1))
    with monkeypatch.context() as broken:
        broken.setattr(Path, "unlink", refuse)
        folder.commit(intent(pending(), fence))
    folder.commit(note(2))
    assert noted(folder) == [1, 2]
    assert files_of(folder) == ["run.inbox", "run.json"]


def test_what_was_said_to_a_run_that_is_not_there_waits_for_it(folder: JsonFileStore) -> None:
    folder.commit(told(event()))
    assert files_of(folder) == ["run.inbox"]
    assert folder.load_run("run") is None
    claim(folder)
    assert files_of(folder) == ["run.json"]
    assert folder.events("run") == [event()]


def test_a_line_that_a_crash_cut_short_was_not_said(folder: JsonFileStore) -> None:
    folder.commit(note(1))
    with file_of(folder, "run.inbox").open("ab") as torn:
        torn.write(b'{"number": 2, "workflow_id": "run", "audit": [{"at"')
    assert noted(folder) == [1]
    folder.commit(note(2))
    assert noted(JsonFileStore(folder.location, now=NOW)) == [1, 2]


def test_every_run_keeps_a_copy_of_its_graph_as_it_was_first(folder: JsonFileStore) -> None:
    folder.commit(Commit(workflow_id="a", fence=claim(folder, "a"), graph=graph(text='{"n":1}')))
    folder.commit(Commit(workflow_id="b", fence=claim(folder, "b"), graph=graph(text='{"n":2}')))
    kept = [json.loads(file_of(folder, name).read_text())["graphs"] for name in files_of(folder)]
    assert kept[0] == kept[1]
    assert kept[0][0]["definition"] == {"n": 1}


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = JsonFileStore(tmp_path / "runs", now=NOW)
        claim(store)
        store.commit(note(1))
    finally:
        os.umask(before)
    for path in (tmp_path / "runs").rglob("*"):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_a_second_store_sees_what_the_first_one_changes(folder: JsonFileStore) -> None:
    """What was read before is remembered, and must not be believed when it has changed."""
    other = JsonFileStore(folder.location, now=NOW)
    fence = claim(folder)
    row = pending()
    folder.commit(intent(row, fence))
    assert other.calls("run") == [row]
    folder.commit(follow(row.done(RESULT, now=NOW), row, fence))
    assert other.calls("run") == [row.done(RESULT, now=NOW)]


# What is not ours


def test_a_run_that_was_damaged_is_not_believed(folder: JsonFileStore) -> None:
    fence = claim(folder)
    claim(folder, "other")
    file_of(folder).write_text("{}")
    with pytest.raises(LedgerCorrupt, match=r"run\.json"):
        folder.load_run("run")
    for refused in (intent(pending(), fence), note(1)):
        with pytest.raises(LedgerCorrupt, match=r"run\.json"):
            folder.commit(refused)
    # The others are not concerned.
    assert folder.load_run("other") is not None
    assert [run.workflow_id for run in folder.runs()] == ["other"]
    (text,) = folder.unreadable()
    assert "run.json cannot be read" in text


def test_a_damaged_line_in_the_middle_is_not_passed_over(folder: JsonFileStore) -> None:
    for number in range(3):
        folder.commit(note(number))
    inbox = file_of(folder, "run.inbox")
    inbox.write_bytes(inbox.read_bytes().replace(b'"number": 2', b'"number": x'))
    with pytest.raises(LedgerCorrupt, match=r"run\.inbox"):
        folder.audit("run")


@pytest.mark.parametrize("ending", ["json", "inbox"])
def test_a_file_under_the_name_of_another_run_is_not_believed(
    folder: JsonFileStore, ending: str
) -> None:
    claim(folder, "theirs")
    folder.commit(note(1, "theirs"))
    shutil.copy(file_of(folder, f"theirs.{ending}"), file_of(folder, f"mine.{ending}"))
    with pytest.raises(LedgerCorrupt, match=rf"mine\.{ending}"):
        folder.load_run("mine")
    (text,) = folder.unreadable()
    assert f"mine.{ending} cannot be read" in text


def test_a_file_of_a_newer_nottwice_is_refused_and_left_alone(folder: JsonFileStore) -> None:
    fence = claim(folder)
    change(file_of(folder), nottwice=2)
    before = file_of(folder).read_bytes()
    with pytest.raises(SchemaTooNew):
        folder.commit(intent(pending(), fence))
    assert file_of(folder).read_bytes() == before


def test_a_folder_of_a_newer_nottwice_is_refused_and_left_alone(folder: JsonFileStore) -> None:
    mark = file_of(folder, ".nottwice/format.json")
    mark.write_text('{"nottwice": 2}')
    with pytest.raises(SchemaTooNew, match="Upgrade"):
        JsonFileStore(folder.location, now=NOW)
    assert mark.read_text() == '{"nottwice": 2}'


def test_what_a_person_corrects_in_a_file_counts(folder: JsonFileStore) -> None:
    claim(folder)
    plain = json.loads(file_of(folder).read_text())
    plain["run"][0]["status"] = "failed"
    change(file_of(folder), run=plain["run"])
    run = folder.load_run("run")
    assert run is not None
    assert run.status.value == "failed"


def test_what_is_above_the_records_is_rewritten_and_never_read(folder: JsonFileStore) -> None:
    fence = claim(folder)
    change(file_of(folder), status="completed", phases={"made up": {"status": "done"}})
    run = folder.load_run("run")
    assert run is not None
    assert run.status.value == "running"
    folder.commit(intent(pending(), fence))
    plain = json.loads(file_of(folder).read_text())
    assert (plain["status"], plain["phases"]) == ("running", {})


# Opening


def test_a_folder_that_is_not_there_is_made_and_a_look_makes_none(tmp_path: Path) -> None:
    with pytest.raises(NoLedger, match="Nothing was created"):
        JsonFileStore(tmp_path / "a" / "b", now=NOW, create=False)
    assert list(tmp_path.iterdir()) == []
    JsonFileStore(tmp_path / "a" / "b", now=NOW).close()
    JsonFileStore(tmp_path / "a" / "b", now=NOW, create=False).close()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError):
        JsonFileStore(tmp_path / "file", now=NOW)


def test_a_network_drive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "_own_mounts", lambda: "1 0 0:1 / / rw - nfs4 host:/x rw\n")
    with pytest.raises(UnsafeFilesystem, match="nfs4"):
        JsonFileStore(tmp_path / "runs", now=NOW)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_may_be_mounted_by_itself(tmp_path: Path) -> None:
    mounts = f"1 0 0:1 / / rw - ext4 a rw\n2 1 0:2 / {tmp_path} rw - xfs b rw\n"
    assert filesystem.check_folder(tmp_path, mountinfo=mounts) is None


@pytest.mark.parametrize("what", ["folder", "lock file"])
def test_a_ledger_that_was_deleted_while_in_use_takes_no_more_commits(
    folder: JsonFileStore, what: str
) -> None:
    fence = claim(folder)
    if what == "folder":
        shutil.rmtree(folder.location)
    else:
        file_of(folder, ".nottwice/holders.lock").unlink()
    with pytest.raises(StoreError, match="deleted or replaced"):
        folder.commit(intent(pending(), fence))
    if what == "folder":
        with pytest.raises(StoreError, match="deleted or replaced"):
            folder.load_run("run")
        assert not Path(folder.location).exists()


def test_an_id_that_cannot_be_written_is_an_error_and_nothing_is_written(
    folder: JsonFileStore,
) -> None:
    with pytest.raises(StoreError, match="Nothing was written"):
        folder.commit(note(1, "\udcff"))
    with pytest.raises(StoreError, match="Nothing was written"):
        claim(folder, "\udcff")
    assert files_of(folder) == []


# Bad disks


def test_a_full_disk_leaves_the_old_file(
    folder: JsonFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fence = claim(folder)
    before = file_of(folder).read_bytes()

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("os.write", full)
        for commit in (intent(pending(), fence), note(1)):
            with pytest.raises(StoreError, match=r"No space left.*Nothing was written"):
                folder.commit(commit)
    assert file_of(folder).read_bytes() == before
    assert (folder.calls("run"), noted(folder)) == ([], [])
    folder.commit(intent(pending(), fence))
    assert folder.calls("run") == [pending()]


def test_a_name_that_cannot_be_synced_leaves_a_commit_unknown_and_repeating_it_helps(
    folder: JsonFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fence = claim(folder)
    sync = os.fsync

    def forget(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        sync(descriptor)

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", forget)
        with pytest.raises(CommitUnknown):
            folder.commit(intent(pending(), fence))
    folder.commit(intent(pending(), fence))
    assert folder.calls("run") == [pending()]


def test_under_a_limit_on_file_sizes_every_run_is_old_or_new(folder: JsonFileStore) -> None:
    """A real limit of the kernel, which cuts a write short in the middle."""
    fence = claim(folder)
    done = 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
        for number in range(60):
            row = pending(pending().identity._replace(input_hash=f"{number}"))
            try:
                folder.commit(intent(row, fence))
                done += 1
            except StoreError:
                pass
            assert len(JsonFileStore(folder.location, now=NOW).calls("run")) == done
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert 10 < done < 60


# Processes


def in_processes(*works: str, place: str) -> list[str]:
    """Run pieces of code in parallel, each in its own interpreter; what each printed."""
    head = (
        "import sys; from nottwice.store.files.store import JsonFileStore\n"
        "from tests.store.samples import *\n"
        "store = JsonFileStore(sys.argv[1], now=NOW)\n"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", head + work, place],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for work in works
    ]
    said = [process.communicate(timeout=120)[0].strip() for process in started]
    assert [process.returncode for process in started] == [0] * len(works)
    return said


def test_processes_that_write_one_run_lose_nothing_of_each_other(tmp_path: Path) -> None:
    place = str(tmp_path / "runs")
    hold = (
        "fence = claim(store)\n"
        "for n in range(20):\n"
        "    store.commit(intent(pending(identity(arguments=str(n))), fence))\n"
    )
    tell = "for n in range(20): store.commit(told(event(f'{sys.argv[1]} {%d} {n}')))\n"
    in_processes(hold, tell % 1, tell % 2, place=place)
    store = JsonFileStore(place, now=NOW)
    assert (len(store.calls("run")), len(store.events("run"))) == (20, 40)


def test_processes_that_create_one_folder_at_once_agree(tmp_path: Path) -> None:
    place = str(tmp_path / "a" / "runs")
    work = "store.commit(note(%d)); print(store.holder().holder_id)"
    said = in_processes(*(work % number for number in range(4)), place=place)
    store = JsonFileStore(place, now=NOW)
    assert sorted(noted(store)) == [0, 1, 2, 3]
    assert [store.life_of(holder) for holder in said] == [Life.DEAD] * 4


def test_a_forked_child_is_another_holder_and_neither_hurts_the_other(tmp_path: Path) -> None:
    work = (
        "import os\n"
        "parent = store.holder().holder_id\n"
        "store.commit(note(1))\n"
        "if os.fork() == 0:\n"
        "    store.commit(note(2))\n"
        "    ok = store.life_of(parent).value == 'alive' and store.holder().holder_id != parent\n"
        "    os._exit(0 if ok and noted(store) == [1, 2] else 1)\n"
        "print(os.wait()[1])\n"
        "store.commit(note(3))\n"
        "print(noted(store), store.holder().holder_id == parent)\n"
    )
    (said,) = in_processes(work, place=str(tmp_path / "runs"))
    assert said == "0\n[1, 2, 3] True"


def test_a_fork_among_threads_that_commit_leaves_no_thread_stuck(tmp_path: Path) -> None:
    work = (
        "import os, threading\n"
        "over = threading.Event()\n"
        "def write(first):\n"
        "    while not over.is_set(): store.commit(note(first)); first += 10\n"
        "threads = [threading.Thread(target=write, args=(n,)) for n in range(2)]\n"
        "for thread in threads: thread.start()\n"
        "codes = []\n"
        "for n in range(5):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        store.commit(note(100_000 + n)); os._exit(0 if noted(store) else 1)\n"
        "    codes.append(os.waitpid(child, 0)[1])\n"
        "over.set()\n"
        "for thread in threads: thread.join()\n"
        "print(codes, len([n for n in noted(store) if n >= 100_000]))\n"
    )
    (said,) = in_processes(work, place=str(tmp_path / "runs"))
    assert said == "[0, 0, 0, 0, 0] 5"


def test_a_writer_that_is_stopped_is_not_waited_for_forever(tmp_path: Path) -> None:
    store = JsonFileStore(tmp_path / "runs", now=NOW, busy_seconds=0.05)
    work = (
        "import os, sys; from nottwice.store.files import store as jsonfile\n"
        "store._exclusively(lambda: [print('in', flush=True), sys.stdin.read()])\n"
    )
    head = (
        "import sys; from nottwice.store.files.store import JsonFileStore\n"
        "store = JsonFileStore(sys.argv[1], now=0.0)\n"
    )
    words = [sys.executable, "-c", head + work, store.location]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "in\n"
        with pytest.raises(StoreError, match=r"locked for 0\.05 s.*Nothing was done"):
            store.commit(note(1))
        writer.kill()
        writer.wait()
        store.commit(note(2))
    assert noted(store) == [2]


def test_readers_are_never_kept_waiting(folder: JsonFileStore) -> None:
    folder.commit(note(1))
    seen: list[list[int]] = []

    def read_meanwhile() -> None:
        reader = threading.Thread(target=lambda: seen.append(noted(folder)))
        reader.start()
        reader.join(timeout=30)

    folder._exclusively(read_meanwhile)
    assert seen == [[1]]


def test_a_worker_that_looks_again_reads_only_what_has_changed_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JsonFileStore(tmp_path / "runs", now=NOW)
    other = JsonFileStore(tmp_path / "runs", now=NOW)

    def enqueue(run: str) -> None:
        record = run_record(run, epoch=0, holder_id=None, graph_id="refund@1.0.0")
        other.commit(Commit(workflow_id=run, claim=Claim(record)))

    def look(now: float) -> list[str]:
        store.holders_of_runs()
        return [run.workflow_id for run in store.ready_runs(begun=False, now=now, limit=9)]

    enqueue("a")
    assert look(NOW) == look(NOW + 1) == ["a"]
    reads: list[Path] = []
    read = disk.read

    def noted(path: Path) -> bytes | None:
        reads.append(path)
        return read(path)

    monkeypatch.setattr(disk, "read", noted)
    assert look(NOW + 2) == look(NOW + 3) == ["a"]
    assert reads == []
    enqueue("b")
    for moment in (4, 4, 4.5, 5, 6):
        assert look(NOW + moment) == ["a", "b"]
    assert reads != []
    other.commit(note(1, "a"))
    assert look(NOW + 7) == ["a", "b"]


# A file that cannot be read


@nt.tool("unsafe_on_replay", name="unreadable_mail")
def mail(to: str) -> str:
    return f"mailed {to}"


@nt.tool("idempotent_with_key", key="pay-{order}", window="1d", name="unreadable_pay")
def pay(order: int) -> str:
    return f"paid {order}"


@pytest.fixture(params=["empty", "cut short", "no JSON", "a folder"])
def damaged(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A ledger with one file that cannot be read, and one that can."""
    store = f"file:{tmp_path / 'runs'}"
    for run_id in ("bad", "good"):
        with nt.run(run_id, store=store):
            mail("ann")
            pay(7 if run_id == "bad" else 8)
    file = tmp_path / "runs/bad.json"
    content = file.read_bytes()
    file.unlink()
    match request.param:
        case "empty":
            file.write_bytes(b"")
        case "cut short":
            file.write_bytes(content[:-40])
        case "no JSON":
            file.write_bytes(b"hello")
        case _:
            file.mkdir()
    return store


def test_a_file_that_cannot_be_read_stops_no_other_run(
    damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    graph: nt.Graph[dict[str, object]] = nt.Graph("beside-damage", version="1.0.0")

    @graph.node
    def send(state: dict[str, object]) -> dict[str, object]:
        return {"sent": mail("bob"), "paid": pay(9)}

    assert graph.run("new", {}, store=damaged).status == "completed"
    with nt.run("good", store=damaged):
        assert mail("ann") == "mailed ann"
        assert mail("cy") == "mailed cy"
    with nt.Ledger(damaged) as ledger:
        assert {run.workflow_id for run in ledger.store.runs()} == {"good", "new"}
        assert ledger.store.open_reviews() == []
    with pytest.raises(nt.errors.StoreError, match=r"bad\.json"), nt.run("bad", store=damaged):
        pytest.fail("a run was opened of which nothing is known")
    assert "bad.json cannot be read" in caplog.text
    assert "All other runs are not affected." in caplog.text


def test_a_key_in_an_unreadable_file_is_not_used(tmp_path: Path) -> None:
    """The upstream may have forgotten it: only that file says when it was used first."""
    store = f"file:{tmp_path / 'runs'}"
    with nt.run("bad", store=store):
        pay(7)
    file = tmp_path / "runs/bad.json"
    file.write_bytes(file.read_bytes()[:-3])
    with nt.run("good", store=store):
        with pytest.raises(nt.errors.LedgerCorrupt, match=r"bad\.json"):
            pay(7)
        assert pay(8) == "paid 8"


def test_a_limit_is_not_judged_without_the_charges_of_an_unreadable_file(tmp_path: Path) -> None:
    store = JsonFileStore(tmp_path / "runs", now=NOW)
    (tmp_path / "runs/bad.json").write_bytes(b"")
    with pytest.raises(nt.errors.LedgerCorrupt, match=r"bad\.json"):
        store.charged("cents")


def test_starting_a_run_of_a_known_graph_parses_no_file_of_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JsonFileStore(tmp_path / "runs", now=NOW)
    graph: nt.Graph[dict[str, object]] = nt.Graph("many", version="1.0.0")

    @graph.node
    def work(state: dict[str, object]) -> dict[str, object]:
        return {}

    for number in range(40):
        graph.run(f"run-{number:02}", {}, store=store)
    store.close()
    parsed: list[str] = []
    whole = document.read

    def counted(content: bytes, **named: Any) -> Any:
        parsed.append(named["where"])
        return whole(content, **named)

    monkeypatch.setattr(document, "read", counted)
    graph.run("one-more", {}, store=JsonFileStore(tmp_path / "runs", now=NOW))
    assert len({Path(where).name for where in parsed} - {"one-more.json"}) <= 1


def test_a_file_is_not_parsed_again_because_another_thread_replaced_it_meanwhile(
    folder: JsonFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long run is read and written at the same time, and each would wait for the parser."""
    fence = claim(folder)
    parsed: list[str] = []
    real = document.read

    def read(content: bytes, **named: Any) -> Any:
        parsed.append(named["where"])
        return real(content, **named)

    monkeypatch.setattr(document, "read", read)
    before = disk.read(file_of(folder))
    began, go_on = threading.Event(), threading.Event()
    replace = disk.replace

    def replace_slowly(path: Path, *content: bytes) -> None:
        replace(path, *content)
        began.set()
        assert go_on.wait(10)

    monkeypatch.setattr(disk, "replace", replace_slowly)
    writer = threading.Thread(target=lambda: folder.commit(intent(pending(), fence)))
    writer.start()
    assert began.wait(10)
    assert len(folder.calls_in_doubt("run")) == 1
    go_on.set()
    writer.join()
    # The bytes that a thread has read just before, and then those that are there now.
    monkeypatch.setattr(disk, "read", lambda path: before if path.suffix == disk.RUN else None)
    monkeypatch.setattr(disk, "holds", lambda path, content: False)
    assert folder.calls_in_doubt("run") == []
    monkeypatch.undo()
    monkeypatch.setattr(document, "read", read)
    assert len(folder.calls_in_doubt("run")) == 1
    assert parsed == []


# Long runs


@nt.tool("unsafe_on_replay", name="send_from_a_long_run")
def send(number: int) -> dict[str, str]:
    return {"output_file": f"{number}.txt"}


@pytest.mark.parametrize("in_a_step", [False, True], ids=["in the run", "in a step"])
def test_a_call_runs_no_code_for_each_call_before_it(tmp_path: Path, in_a_step: bool) -> None:
    """P170. The bytes of the file are copied, but no code walks over its records."""
    few, more, measured = 40, 400, 5

    def call(first: int) -> int:
        return min(instructions(partial(send, first + number)) for number in range(measured))

    with contextlib.ExitStack() as block:
        block.enter_context(nt.run("long", store=f"file:{tmp_path / 'runs'}"))
        if in_a_step:
            block.enter_context(nt.step("send"))
        for number in range(few):
            send(number)
        early = call(few)
        for number in range(few + measured, few + more):
            send(number)
        late = call(few + more)
    # A block of 128 records takes some. The shortest loop over all records would take ten for each.
    assert late - early < 4 * more, (early, late)
