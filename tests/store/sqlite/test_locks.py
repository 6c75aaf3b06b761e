"""Do our own locks survive what drops SQLite's, and does each process get its turn? (P110, P112)"""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from nottwice.errors import StoreError
from nottwice.store.machine import ofd
from nottwice.store.sqlite import locks as sqlite_locks
from nottwice.store.sqlite.store import SqliteStore
from tests.nursery import starting
from tests.store.samples import NOW, note, noted
from tests.tidy.source import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these locks are Linux's")

# A foreign tool: SQLite, and nothing of ours.
CLOSE = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('{}'); c.close()"
# It takes its turn as a writer, says so, and keeps it until it is told.
WRITER = """
import sys
from pathlib import Path
from nottwice.store.sqlite import locks as sqlite_locks
files, hold = sqlite_locks.hold(Path(sys.argv[1]))
files.hold_ledger(10)
for line in sys.stdin:
    with files.turn(30):
        print("has it", flush=True)
        sys.stdin.readline()
    print("gave it", flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    where = tmp_path / "ledger.db"
    SqliteStore(where, now=NOW).close()
    return where


def read_and_close_all(path: Path) -> None:
    """What a tool does that copies the folder."""
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").read_bytes()


def foreign(path: Path, sql: str) -> None:
    """Let another process open the ledger with bare SQLite, say something and close it."""
    subprocess.run([sys.executable, "-c", CLOSE.format(sql), str(path)], check=True)


def files_beside(path: Path) -> set[str]:
    return {file.name.removeprefix(path.name) for file in path.parent.iterdir()}


@pytest.mark.parametrize(
    "sql", ["SELECT count(*) FROM nottwice_runs", "PRAGMA wal_checkpoint(TRUNCATE)"]
)
def test_no_other_process_clears_the_log_away_after_this_one_has_read_its_files(
    path: Path, sql: str
) -> None:
    store = SqliteStore(path, now=NOW)
    store.commit(note(1))
    before = os.stat(f"{path}-wal").st_ino, os.stat(f"{path}-shm").st_ino
    read_and_close_all(path)
    foreign(path, sql)
    assert (os.stat(f"{path}-wal").st_ino, os.stat(f"{path}-shm").st_ino) == before
    store.commit(note(2))
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM nottwice_audit").fetchone() == (2,)
    store.close()


@pytest.mark.parametrize(
    ("end", "start", "length"),
    [("", 0x40000002, 510), ("-shm", 128, 1)],
    ids=["what SQLite takes to unlink the log", "what SQLite takes to start the index again"],
)
def test_no_other_process_gets_a_lock_that_means_to_be_alone(
    path: Path, end: str, start: int, length: int
) -> None:
    store = SqliteStore(path, now=NOW)
    read_and_close_all(path)
    program = (
        "import fcntl, sys\n"
        "with open(sys.argv[1], 'r+b') as file:\n"
        "    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, *map(int, sys.argv[2:]))\n"
    )
    words = [sys.executable, "-c", program, f"{path}{end}", str(length), str(start)]
    tried = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "BlockingIOError" in tried.stderr
    store.close()


def test_no_foreign_tool_switches_the_log_off_under_a_living_process(path: Path) -> None:
    store = SqliteStore(path, now=NOW)
    read_and_close_all(path)
    with closing(sqlite3.connect(path, timeout=0)) as other:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("PRAGMA journal_mode = DELETE")
    store.close()


def test_the_last_one_leaves_one_file_that_holds_everything(path: Path) -> None:
    first, second = SqliteStore(path, now=NOW), SqliteStore(path, now=NOW)
    first.commit(note(1))
    first.close()
    assert {"-wal", "-shm"} <= files_beside(path)
    second.commit(note(2))
    second.close()
    assert files_beside(path) == {"", ".holders"}
    with closing(sqlite3.connect(path.as_uri() + "?immutable=1", uri=True)) as other:
        assert other.execute("SELECT count(*) FROM nottwice_audit").fetchone() == (2,)


# It has the ledger open, and commits when it is told.
USER = """
import sys
from nottwice.store.sqlite.store import SqliteStore
from tests.store.samples import NOW, note
store = SqliteStore(sys.argv[1], now=NOW)
print("has it", flush=True)
sys.stdin.readline()
store.commit(note(1))
store.close()
"""


@pytest.mark.parametrize("opens", ["before", "meanwhile"])
def test_a_process_that_closes_leaves_the_log_to_another_that_has_it_open(
    path: Path, monkeypatch: pytest.MonkeyPatch, opens: str
) -> None:
    users: list[subprocess.Popen[str]] = []

    def open_elsewhere() -> None:
        words = [sys.executable, "-c", USER, str(path)]
        pipe = subprocess.PIPE
        user = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)
        users.append(user)
        assert user.stdout is not None
        assert user.stdout.readline() == "has it\n"

    moved = sqlite_locks.LedgerFiles.turn

    @contextmanager
    def turn(self: sqlite_locks.LedgerFiles, wait_seconds: float) -> Iterator[None]:
        """The turn in which the log is moved into the ledger; then another process comes."""
        with moved(self, wait_seconds):
            yield
        open_elsewhere()

    store = SqliteStore(path, now=NOW)
    store.commit(note(0))
    if opens == "before":
        open_elsewhere()
    else:
        monkeypatch.setattr(sqlite_locks.LedgerFiles, "turn", turn)
    store.close()
    monkeypatch.undo()
    (user,) = users
    assert {"-wal", "-shm"} <= files_beside(path)
    user.communicate("\n", timeout=60)
    assert user.returncode == 0
    again = SqliteStore(path, now=NOW)
    assert noted(again) == [0, 1]
    again.close()


def test_a_process_that_ends_without_closing_anything_leaves_one_file_too(path: Path) -> None:
    program = "import sys, nottwice as nt\nwith nt.run('r', store=sys.argv[1]):\n    pass\n"
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
    assert files_beside(path) == {"", ".holders"}


def test_a_process_that_only_reads_does_not_write_what_a_dead_one_has_left(path: Path) -> None:
    program = (
        "import os, signal, sys, nottwice as nt\n"
        "with nt.run('r', store=sys.argv[1]):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = starting.run([sys.executable, "-c", program, str(path)])
    assert ended.returncode == -signal.SIGKILL
    before = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    reader = SqliteStore(path, now=NOW)
    assert [run.workflow_id for run in reader.runs()] == ["r"]
    reader.close()
    assert (path.read_bytes(), Path(f"{path}-wal").read_bytes()) == before


def test_the_locks_of_a_connection_that_the_program_has_itself_are_not_dropped(path: Path) -> None:
    store = SqliteStore(path, now=NOW)
    store.commit(note(1))
    with closing(sqlite3.connect(path)) as own:
        own.execute("SELECT count(*) FROM nottwice_runs").fetchone()
        store.close()
        foreign(path, "SELECT count(*) FROM nottwice_runs")
        assert Path(f"{path}-wal").exists()
    # Now that it is closed, the next one who opens the ledger clears up.
    SqliteStore(path, now=NOW).close()
    assert files_beside(path) == {"", ".holders"}


def test_many_ledgers_are_opened_and_closed_without_keeping_a_descriptor(tmp_path: Path) -> None:
    def opened() -> set[str]:
        links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return {os.readlink(link) for link in links if os.path.exists(link)}

    for number in range(5):
        store = SqliteStore(tmp_path / f"{number}.db", now=NOW)
        store.commit(note(number))
        store.close()
        unclosed = SqliteStore(tmp_path / f"{number}.db", now=NOW)
        assert len(noted(unclosed)) == 1
        del unclosed
    gc.collect()
    left = {name for name in opened() if name.startswith(str(tmp_path))}
    assert {name for name in left if not name.endswith(".holders")} == set()


def test_a_switch_to_wal_that_a_power_cut_broke_off_is_undone_and_made_again(path: Path) -> None:
    cut = path.with_name("cut.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("PRAGMA user_version = 0")
        connection.execute("CREATE TABLE much (it)")
        for _ in range(50):
            connection.execute("INSERT INTO much VALUES (zeroblob(9000))")
        # So far the disk has a journal that undoes all of it, and the first page as it will be.
        whole = bytearray(path.read_bytes())
        whole[18:20] = b"\x02\x02"
        cut.write_bytes(whole)
        shutil.copyfile(f"{path}-journal", f"{cut}-journal")
        connection.execute("ROLLBACK")
    store = SqliteStore(cut, now=NOW, busy_seconds=0.1)
    store.commit(note(1))
    assert noted(store) == [1]
    read_and_close_all(cut)
    foreign(cut, "SELECT count(*) FROM nottwice_runs")
    assert Path(f"{cut}-wal").exists()
    store.close()


# The turn


@pytest.fixture
def writer(path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process
        process.kill()


def say(process: subprocess.Popen[str], *, answer: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == f"{answer}\n"


def test_a_commit_waits_for_its_turn_also_after_the_other_has_read_all_files(
    path: Path, writer: subprocess.Popen[str]
) -> None:
    store = SqliteStore(path, now=NOW)
    store.commit(note(1))
    say(writer, answer="has it")
    read_and_close_all(path)
    committed = store.commit_soon(note(2))
    with pytest.raises(TimeoutError):
        committed.result(0.2)
    say(writer, answer="gave it")
    committed.result(30)
    assert len(noted(store)) == 2
    store.close()


def test_who_had_the_last_turn_does_not_overtake_who_waits(
    path: Path, writer: subprocess.Popen[str]
) -> None:
    files, hold = sqlite_locks.hold(path)
    files.hold_ledger(1)
    assert writer.stdin is not None
    assert writer.stdout is not None
    with files.turn(30):
        writer.stdin.write("\n")
        writer.stdin.flush()
        # It waits for its turn once it is the first of the queue.
        while sqlite_locks._set(files._ledger, fcntl.F_WRLCK, sqlite_locks._QUEUE):
            sqlite_locks._set(files._ledger, fcntl.F_UNLCK, sqlite_locks._QUEUE)
    with files.guard:
        assert not files.take_turn(0)
        files.end_turn()
    assert writer.stdout.readline() == "has it\n"
    say(writer, answer="gave it")
    with files.turn(30):
        pass
    hold.release()


def test_a_turn_that_never_ends_is_an_error_and_nothing_was_written(
    path: Path, writer: subprocess.Popen[str]
) -> None:
    store = SqliteStore(path, now=NOW, busy_seconds=0.1)
    say(writer, answer="has it")
    writer.send_signal(signal.SIGSTOP)
    with pytest.raises(StoreError, match=r"Another process has been writing.*Nothing was written"):
        store.commit(note(1))
    writer.send_signal(signal.SIGCONT)
    say(writer, answer="gave it")
    store.commit(note(2))
    assert noted(store) == [2]
    store.close()


def test_a_turn_ends_with_its_process(path: Path, writer: subprocess.Popen[str]) -> None:
    store = SqliteStore(path, now=NOW)
    say(writer, answer="has it")
    committed = store.commit_soon(note(1))
    writer.kill()
    committed.result(30)
    store.close()


def test_threads_of_one_process_have_one_turn_at_a_time(path: Path) -> None:
    files, hold = sqlite_locks.hold(path)
    files.hold_ledger(1)
    inside, most = [0], [0]

    def work() -> None:
        for _ in range(200):
            with files.turn(30):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    hold.release()
    assert most == [1]


def test_an_interrupt_in_its_turn_leaves_the_turn_to_others(
    path: Path, writer: subprocess.Popen[str]
) -> None:
    files, hold = sqlite_locks.hold(path)
    files.hold_ledger(1)
    with pytest.raises(KeyboardInterrupt), files.turn(30):
        raise KeyboardInterrupt
    say(writer, answer="has it")
    with pytest.raises(sqlite3.OperationalError, match="locked"), files.turn(0.05):
        raise AssertionError("it is the other's turn")
    say(writer, answer="gave it")
    with files.turn(30):
        pass
    hold.release()


def test_a_forked_child_holds_nothing_of_its_parent(path: Path) -> None:
    store = SqliteStore(path, now=NOW)
    store.commit(note(1))
    ready, tell = os.pipe()
    child = os.fork()
    if not child:
        os.write(tell, b"x")
        signal.pause()
    os.read(ready, 1)
    try:
        store.close()
        # The log is cleared away only by who is alone.
        assert files_beside(path) == {"", ".holders"}
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(tell)


def test_without_such_locks_a_ledger_works_as_sqlite_does(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On macOS, in old kernels, and in sandboxes that play one."""
    monkeypatch.setattr(ofd, "SET", -1)
    first, second = SqliteStore(path, now=NOW), SqliteStore(path, now=NOW)
    first.commit(note(1))
    second.commit(note(2))
    assert len(noted(first)) == 2
    first.close()
    second.close()
    assert files_beside(path) == {"", ".holders"}


# Reading


def test_a_query_under_whose_hands_the_log_was_moved_is_made_again(path: Path) -> None:
    store = SqliteStore(path, now=NOW)
    store.commit(note(1))
    connections, asked = store._connections, [0]

    def move(times: int) -> int:
        asked[0] += 1
        if asked[0] <= times:
            # A writer that moves more pages into the ledger changes them under a reader.
            store.commit(note(100 * times + asked[0]))
            with connections.writer.guard:
                connections.connect_writer().execute("PRAGMA wal_checkpoint(PASSIVE)")
        return asked[0]

    (slot,) = connections.slots()[1:]
    connections.connect(slot).create_function("move", 1, move)
    assert connections.read("SELECT move(0)", ()) == [(1,)]
    asked[0] = 0
    assert connections.read("SELECT move(2)", ()) == [(3,)]
    asked[0] = 0
    assert connections.read("SELECT move(3)", ()) == [(4,)]
    store.close()


@pytest.mark.parametrize("place", [32, 96, 128], ids=["salt", "moved", "being moved"])
def test_a_query_sees_each_way_in_which_the_log_is_moved(path: Path, place: int) -> None:
    store = SqliteStore(path, now=NOW)
    store.commit(note(1))
    files, hold = sqlite_locks.hold(path)
    before = files.position()
    # The places of https://www.sqlite.org/walformat.html, written as another process would.
    index = os.open(f"{path}-shm", os.O_RDWR)
    was = os.pread(index, 4, place)
    os.pwrite(index, bytes(255 - each for each in was), place)
    assert files.position() != before
    os.pwrite(index, was, place)
    assert files.position() == before
    os.close(index)
    hold.release()
    store.close()
