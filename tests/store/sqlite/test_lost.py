"""Does a process notice that its ledger was removed, and hold the runs that are missing? (P111)"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

# An agent that is stopped in the middle, at the point where a test takes its ledger away.
AGENT = """
import os, sys, nottwice as nt
from nottwice.store.machine import ofd

if "NO_LOCKS" in os.environ:
    ofd.SET = -1  # as on macOS

@nt.tool("unsafe_on_replay")
def send(number: int) -> int:
    print("sent", number, flush=True)
    return number

try:
    with nt.run(sys.argv[1], store="agent.db"):
        for number in range(2):
            send(number)
        if sys.argv[2:] == ["wait"]:
            print("waits", flush=True)
            sys.stdin.readline()
            send(2)
    if sys.argv[2:] == ["wait at the end"]:
        print("waits", flush=True)
        sys.stdin.readline()
except nt.NottwiceError as error:
    print(type(error).__name__, error, flush=True)
if sys.argv[2:] == ["wait"]:
    try:
        nt.Ledger("agent.db").store.runs()
    except nt.NottwiceError as error:
        print("then", error, flush=True)
"""


@pytest.fixture(params=["locks", "no locks"])
def with_and_without_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without locks of its own, as on macOS, a process has only SQLite's."""
    if request.param == "no locks":
        monkeypatch.setenv("NO_LOCKS", "yes")


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", AGENT, *words],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def run(folder: Path, name: str) -> list[str]:
    """Let an agent begin or resume a run, and end; what it said."""
    return start(folder, name).communicate(timeout=60)[0].splitlines()


def hear(process: subprocess.Popen[str], *lines: str) -> None:
    assert process.stdout is not None
    assert [process.stdout.readline().strip() for _ in lines] == list(lines)


def marks(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "agent.db")) as connection:
        found = connection.execute("SELECT why FROM nottwice_audit WHERE action = 'copy'")
        return [why for (why,) in found.fetchall()]


def remove_log(folder: Path) -> None:
    for end in ("-wal", "-shm"):
        (folder / f"agent.db{end}").unlink()


def fill_log(folder: Path) -> None:
    """Write so much that the next commit moves the log into the ledger."""
    with closing(sqlite3.connect(folder / "agent.db")) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("CREATE TABLE filler AS SELECT zeroblob(5000000) AS bytes")


def rename(log: Path) -> None:
    log.rename(f"{log}.old")


def empty(log: Path) -> None:
    os.truncate(log, 0)


def test_commits_that_went_with_the_log_have_their_runs_held_for_a_person(tmp_path: Path) -> None:
    assert run(tmp_path, "earlier") == ["sent 0", "sent 1"]
    agent = start(tmp_path, "r", "wait")
    hear(agent, "sent 0", "sent 1", "waits")
    remove_log(tmp_path)
    said = agent.communicate("\n", timeout=120)[0].splitlines()
    assert said[0].startswith("StoreError The files of ledger")
    assert "3 of the last calls and claims of this process are missing" in said[0]
    assert said[1].startswith("then The files of ledger")
    assert marks(tmp_path) == ["3 commits of a running process are missing"]
    # Neither the run that the ledger has forgotten begins again, nor does any other one continue.
    for name in ("r", "earlier"):
        (line,) = run(tmp_path, name)
        assert line.startswith(
            f"RunBlocked Run {name!r}: 3 commits of a running process are missing"
        )


@pytest.mark.parametrize("lose", [Path.unlink, rename, empty])
def test_a_log_that_alone_was_removed_renamed_or_emptied_is_missed(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    assert run(tmp_path, "earlier") == ["sent 0", "sent 1"]
    agent = start(tmp_path, "r", "wait")
    hear(agent, "sent 0", "sent 1", "waits")
    lose(tmp_path / "agent.db-wal")
    said = agent.communicate("\n", timeout=120)[0].splitlines()
    assert "3 of the last calls and claims of this process are missing" in said[0]
    assert marks(tmp_path) == ["3 commits of a running process are missing"]
    (line,) = run(tmp_path, "r")
    assert line.startswith("RunBlocked")


def test_a_full_log_that_was_removed_is_not_moved_into_the_ledger(tmp_path: Path) -> None:
    agent = start(tmp_path, "r", "wait")
    hear(agent, "sent 0", "sent 1", "waits")
    fill_log(tmp_path)
    remove_log(tmp_path)
    assert run(tmp_path, "later") == ["sent 0", "sent 1"]
    said = agent.communicate("\n", timeout=120)[0]
    assert "Nothing was written" in said
    with closing(sqlite3.connect(tmp_path / "agent.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    (line,) = run(tmp_path, "later")
    assert line.startswith("RunBlocked")


@pytest.mark.usefixtures("with_and_without_locks")
@pytest.mark.parametrize("words", ["wait", "wait at the end"])
def test_a_stale_process_writes_nothing_over_what_others_have_committed_since(
    tmp_path: Path, words: str
) -> None:
    agent = start(tmp_path, "r", words)
    hear(agent, "sent 0", "sent 1", "waits")
    remove_log(tmp_path)
    assert run(tmp_path, "later") == ["sent 0", "sent 1"]
    agent.communicate("\n", timeout=120)
    with closing(sqlite3.connect(tmp_path / "agent.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        query = "SELECT workflow_id FROM nottwice_runs WHERE status = 'completed'"
        assert connection.execute(query).fetchall() == [("later",)]


@pytest.mark.usefixtures("with_and_without_locks")
def test_a_process_that_only_ends_after_its_log_was_removed_has_its_runs_held(
    tmp_path: Path,
) -> None:
    agent = start(tmp_path, "r", "wait at the end")
    hear(agent, "sent 0", "sent 1", "waits")
    remove_log(tmp_path)
    assert agent.communicate("\n", timeout=120)[0] == ""
    assert marks(tmp_path) == ["3 commits of a running process are missing"]
    (line,) = run(tmp_path, "r")
    assert line.startswith("RunBlocked")


def test_no_run_is_held_if_nothing_is_missing(tmp_path: Path) -> None:
    agent = start(tmp_path, "r", "wait")
    hear(agent, "sent 0", "sent 1", "waits")
    with closing(sqlite3.connect(tmp_path / "agent.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    remove_log(tmp_path)
    said = agent.communicate("\n", timeout=120)[0].splitlines()
    assert "None of this process's last commits is missing" in said[0]
    assert marks(tmp_path) == []
    assert run(tmp_path, "r") == []


def test_an_older_ledger_that_was_put_in_the_place_of_a_newer_one_is_held(tmp_path: Path) -> None:
    assert run(tmp_path, "earlier") == ["sent 0", "sent 1"]
    shutil.copyfile(tmp_path / "agent.db", tmp_path / "old.db")
    agent = start(tmp_path, "r", "wait")
    hear(agent, "sent 0", "sent 1", "waits")
    remove_log(tmp_path)
    os.replace(tmp_path / "old.db", tmp_path / "agent.db")
    said = agent.communicate("\n", timeout=120)[0].splitlines()
    assert "was deleted or replaced while it was in use. Nothing was written" in said[0]
    assert marks(tmp_path) == ["3 commits of a running process are missing"]
    (line,) = run(tmp_path, "r")
    assert line.startswith("RunBlocked")


@pytest.mark.parametrize("gone", ["agent.db", "everything"])
def test_a_ledger_that_is_gone_takes_no_more_commits_and_is_not_created(
    tmp_path: Path, gone: str
) -> None:
    agent = start(tmp_path, "r", "wait")
    hear(agent, "sent 0", "sent 1", "waits")
    (tmp_path / "agent.db").unlink()
    if gone == "everything":
        remove_log(tmp_path)
    said = agent.communicate("\n", timeout=120)[0].splitlines()
    assert said[0].startswith("StoreError The ledger")
    assert "deleted or replaced" in said[0]


def test_a_program_whose_whole_ledger_was_deleted_ends_without_a_complaint(tmp_path: Path) -> None:
    program = (
        "import nottwice as nt, os, shutil\n"
        "for _ in range(20):\n"
        "    os.mkdir('runs')\n"
        "    with nt.Ledger('runs/agent.db') as ledger:\n"
        "        with ledger.run('r'):\n"
        "            nt.now(label='when')\n"
        "        shutil.rmtree('runs')\n"
        "opened = [os.path.realpath('/dev/fd/' + one) for one in os.listdir('/dev/fd')]\n"
        "assert not [one for one in opened if 'agent.db' in one and 'holders' not in one]\n"
    )
    words = [sys.executable, "-c", program]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("", "")
