"""Does the SQLite ledger open only what it may, privately and durably, and share its commits?

What is true of every store is in `test_conformance.py`; disks that fail are in
`test_faults.py`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

from nottwice.errors import (
    LedgerCorrupt,
    NoLedger,
    NottwiceError,
    OwnershipLost,
    SchemaTooNew,
    StoreError,
)
from nottwice.model.run import Fence
from nottwice.store.interface import Commit, Outdated
from nottwice.store.sqlite.store import SqliteStore
from tests.store.abilities import mounted, needs_strace, python, run, traced
from tests.store.children import Child
from tests.store.samples import (
    NOW,
    RESULT,
    audit,
    claim,
    evidence,
    follow,
    identity,
    intent,
    note,
    noted,
    pending,
)

SECONDS = 30


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, to see that nothing was touched."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


# Opening


def test_a_new_ledger_is_private_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        store = SqliteStore(path, now=NOW)
        store.commit(note(1))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        store.close()
    finally:
        os.umask(before)
    names = ["ledger.db", "ledger.db-shm", "ledger.db-wal", "ledger.db.holders"]
    assert modes == dict.fromkeys(names, 0o600)


def test_wal_and_full_are_on(ledger: SqliteStore) -> None:
    ledger.commit(note(1))
    with ledger._connections.writer.guard:
        writer = ledger._connections.connect_writer()
        assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert writer.execute("PRAGMA synchronous").fetchone() == (2,)


def test_the_absolute_path_is_logged_when_a_ledger_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.INFO, "nottwice"):
        store = SqliteStore("link/../link/ledger.db", now=NOW)
    expected = str((tmp_path / "real" / "ledger.db").resolve())
    assert store.location == expected
    assert f"ledger opened at {expected}" in [record.getMessage() for record in caplog.records]
    store.close()


def test_a_path_may_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    store = SqliteStore("~/ledger.db", now=NOW)
    assert (tmp_path / "ledger.db").exists()
    store.close()


def test_without_create_a_missing_ledger_is_an_error_and_nothing_is_created(path: Path) -> None:
    with pytest.raises(NoLedger, match=r"no ledger at /.*Nothing was created"):
        SqliteStore(path, now=NOW, create=False)
    assert list(path.parent.iterdir()) == []


def test_without_create_an_empty_file_is_no_ledger_and_stays_empty(path: Path) -> None:
    path.touch()
    with pytest.raises(NoLedger):
        SqliteStore(path, now=NOW, create=False)
    assert contents(path.parent) == {"ledger.db": b""}


def test_without_create_a_ledger_is_opened(path: Path) -> None:
    first = SqliteStore(path, now=NOW)
    first.commit(note(1))
    first.close()
    store = SqliteStore(path, now=NOW, create=False)
    assert noted(store) == [1]
    store.close()


def test_an_empty_file_becomes_a_ledger(path: Path) -> None:
    path.touch()
    store = SqliteStore(path, now=NOW)
    store.commit(note(1))
    assert noted(store) == [1]
    store.close()


def test_no_folder_is_created_for_a_ledger(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"could not be created.*Create its folder"):
        SqliteStore(tmp_path / "missing" / "ledger.db", now=NOW)
    assert list(tmp_path.iterdir()) == []


def unusable(folder: Path, what: str) -> Path:
    (folder / "file").touch()
    (folder / "loop").symlink_to(folder / "loop")
    return {
        "below a file": folder / "file" / "ledger.db",
        "a symlink to itself": folder / "loop",
        "too long a name": folder / ("x" * 300),
        "nobody's home": Path("~no-such-user-here/ledger.db"),
    }[what]


@pytest.mark.parametrize(
    "what", ["below a file", "a symlink to itself", "too long a name", "nobody's home"]
)
def test_a_path_that_cannot_be_used_is_a_typed_error(tmp_path: Path, what: str) -> None:
    with pytest.raises(StoreError, match=r"Nothing was (opened|written)"):
        SqliteStore(unusable(tmp_path, what), now=NOW)


# What is not a ledger is left as it is


def make_foreign(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


NOT_LEDGERS: dict[str, Callable[[Path], object]] = {
    "text": lambda path: path.write_text("Dear diary, " * 1000),
    "a few bytes": lambda path: path.write_bytes(b"\0" * 10),
    "zeros": lambda path: path.write_bytes(b"\0" * 8192),
    "a database": lambda path: make_foreign(path, "CREATE TABLE notes (text)"),
    "a database with version 1": lambda path: make_foreign(
        path, "CREATE TABLE notes (text)", "PRAGMA user_version = 1"
    ),
    "a database with version 9": lambda path: make_foreign(path, "PRAGMA user_version = 9"),
}


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("what", NOT_LEDGERS)
def test_what_is_not_a_ledger_is_refused_and_nothing_is_left_beside_it(
    path: Path, what: str, *, create: bool
) -> None:
    NOT_LEDGERS[what](path)
    before = contents(path.parent)
    with pytest.raises(StoreError, match=r"not a nottwice ledger|not a ledger") as refusal:
        SqliteStore(path, now=NOW, create=create)
    assert not isinstance(refusal.value, SchemaTooNew)
    assert contents(path.parent) == before


def test_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="could not be used"):
        SqliteStore(tmp_path / "folder", now=NOW)
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("kept", [0.05, 0.4, 0.9])
def test_a_ledger_that_was_cut_off_is_corrupt_and_left_as_it_is(path: Path, kept: float) -> None:
    store = SqliteStore(path, now=NOW)
    for number in range(200):
        store.commit(note(number, weight=1000))
    store.close()
    whole = path.stat().st_size
    os.truncate(path, int(whole * kept) // 4096 * 4096 + 100)
    before = path.read_bytes()
    with pytest.raises(LedgerCorrupt, match="Restore it from a backup"):
        SqliteStore(path, now=NOW)
    assert path.read_bytes() == before


@pytest.mark.parametrize("byte", [b"\xf4", b"x"], ids=["no text", "another name"])
def test_a_ledger_whose_schema_text_is_damaged_is_corrupt_for_every_reader(
    path: Path, byte: bytes
) -> None:
    store = SqliteStore(path, now=NOW)
    store.commit(note(1))
    store.close()
    whole = path.read_bytes()
    table = whole.index(b"CREATE TABLE nottwice_runs")
    for at in (table, table + len("CREATE "), whole.index(b"epoch", table)):
        path.write_bytes(whole[:at] + byte + whole[at + 1 :])
        with pytest.raises(LedgerCorrupt, match=r"Nothing was written.*Restore it from a backup"):
            SqliteStore(path, now=NOW).runs()
    path.write_bytes(whole)


def test_a_ledger_whose_pages_are_damaged_is_corrupt_when_it_is_read(path: Path) -> None:
    store = SqliteStore(path, now=NOW)
    for number in range(50):
        store.commit(note(number))
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_schema WHERE name = 'nottwice_audit_once'"
        (page,) = connection.execute(query).fetchone()
    with path.open("r+b") as file:
        file.seek(4096 * (page - 1))
        file.write(b"\xff" * 4096)
    store = SqliteStore(path, now=NOW)
    with pytest.raises(LedgerCorrupt, match="backup"):
        store.audit("run")
    with pytest.raises(LedgerCorrupt, match="Nothing was written"):
        store.commit(note(99))
    assert store.runs() == []
    store.close()


def test_a_ledger_of_a_newer_nottwice_is_refused(path: Path) -> None:
    SqliteStore(path, now=NOW).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(SchemaTooNew, match=r"ledger\.db has schema version 99"):
        SqliteStore(path, now=NOW)
    assert path.read_bytes() == before


# Where durability cannot be had, nothing is opened


def test_a_ledger_that_another_process_keeps_out_of_wal_is_refused(path: Path) -> None:
    SqliteStore(path, now=NOW).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN")
        other.execute("SELECT * FROM nottwice_runs").fetchall()
        with pytest.raises(StoreError, match=r"locked|journal_mode=delete"):
            SqliteStore(path, now=NOW, busy_seconds=0.1)
        other.execute("ROLLBACK")
        store = SqliteStore(path, now=NOW, busy_seconds=0.1)
        store.close()


def test_a_file_on_a_read_only_disk_is_refused(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk") as disk:
        # By another process: this one would keep its lock file open for writing.
        assert run(python("hold", disk / "ledger.db")).returncode == 0
        remounted = run(["mount", "-o", "remount,ro", str(disk)])
        assert remounted.returncode == 0, remounted.stderr
        with pytest.raises(StoreError, match="Nothing was written"):
            SqliteStore(disk / "ledger.db", now=NOW)
        with pytest.raises(StoreError, match="could not be created"):
            SqliteStore(disk / "other.db", now=NOW)


@needs_strace
@pytest.mark.parametrize("when", [3, 4])
def test_a_disk_that_fails_while_wal_is_switched_on_is_refused(path: Path, when: int) -> None:
    """One fsync error leaves WAL silently off, so what was set is read back.

    The first sync makes the name of the file durable. Only the syncs of a folder that SQLite makes
    by itself may fail without consequence.
    """
    injected = f"inject=fsync,fdatasync:error=EIO:when={when}"
    command = traced(python("hold", path), path.with_name("log"), "-e", injected)
    child = run(command)
    assert child.returncode == 1, child.stdout
    assert "StoreError" in child.stderr
    assert "journal_mode=delete and synchronous=2 instead of wal" in child.stderr
    store = SqliteStore(path, now=NOW)
    store.commit(note(1))
    assert noted(store) == [1]
    store.close()


class Heard(logging.Handler):
    """What is said about one ledger, in whatever way others have set up logging."""

    def __init__(self, place: Path) -> None:
        super().__init__(logging.WARNING)
        self._place = str(place)
        self.warnings: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if self._place in (text := record.getMessage()):
            self.warnings.append(text)


def test_a_container_layer_is_warned_about(tmp_path: Path) -> None:
    for name in ("lower", "upper", "work"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    heard = Heard(tmp_path)
    logging.getLogger("nottwice").addHandler(heard)
    try:
        with mounted(tmp_path / "layer", kind="overlay", options=layers) as layer:
            SqliteStore(layer / "ledger.db", now=NOW).close()
    finally:
        logging.getLogger("nottwice").removeHandler(heard)
    (warning,) = heard.warnings
    assert "disappears with the container" in warning


# Many in parallel


def test_forty_processes_open_one_new_file_and_forty_start(path: Path) -> None:
    with Child(python("crowd", path, "40")) as crowd:
        said = crowd.hear_all()
    assert said == [{"started": 40, "statuses": [0] * 40}]
    store = SqliteStore(path, now=NOW)
    assert sorted(noted(store)) == list(range(40))
    assert len(store._read("SELECT holder_id FROM nottwice_holders", ())) == 40
    store.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_closed_store_opens_again_when_it_is_used(ledger: SqliteStore) -> None:
    holder = ledger.holder()
    ledger.commit(note(1))
    ledger.close()
    assert not Path(ledger.location + "-wal").exists()
    ledger.commit(note(2))
    assert ledger.commit_soon(note(3)).result(SECONDS) is None
    assert noted(ledger) == [1, 2, 3]
    assert ledger.holder() == holder
    ledger.close()
    ledger.close()
    assert noted(ledger) == [1, 2, 3]


def test_the_holder_is_on_record_with_the_first_commit_of_its_process(ledger: SqliteStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        (record,) = set(pool.map(lambda _: ledger.holder(), range(8)))
    other = SqliteStore(ledger.location, now=NOW + 9)
    assert other.holder() == record
    with pytest.raises(OwnershipLost):
        ledger.commit(intent(pending(), Fence(record.holder_id, 1)))
    assert other.load_holder(record.holder_id) is None
    ledger.commit(note(1))
    assert other.load_holder(record.holder_id) == record
    other.close()


# Sharing


@contextmanager
def locked(store: SqliteStore) -> Iterator[None]:
    """Another process is writing: a commit has to wait meanwhile."""
    with closing(sqlite3.connect(store.location, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def commit_together(store: SqliteStore, commits: Sequence[Commit]) -> list[BaseException | None]:
    """Commit all in one batch, after a first commit that goes alone: what each was told."""

    def commit(one: Commit) -> BaseException | None:
        try:
            store.commit(one)
        except (NottwiceError, Outdated) as error:
            return error
        return None

    pause = threading.Event()
    with ThreadPoolExecutor(len(commits) + 1) as pool:
        with locked(store):
            first = pool.submit(commit, note(1_000_000))
            while not store._shared._lead.locked():
                pause.wait(0.001)
            told = [pool.submit(commit, one) for one in commits]
            while len(store._shared._waiting) < len(commits):
                pause.wait(0.001)
        assert first.result(SECONDS) is None
        return [one.result(SECONDS) for one in told]


def transactions(store: SqliteStore) -> list[str]:
    """The transactions that the writer ends from now on."""
    seen: list[str] = []

    def watch(statement: str) -> None:
        if statement in ("COMMIT", "ROLLBACK"):
            seen.append(statement)

    with store._connections.writer.guard:
        store._connections.connect_writer().set_trace_callback(watch)
    return seen


def test_concurrent_commits_need_one_transaction(ledger: SqliteStore) -> None:
    seen = transactions(ledger)
    told = commit_together(ledger, [note(number) for number in range(30)])
    assert told == [None] * 30
    assert seen == ["COMMIT", "COMMIT"]
    assert sorted(noted(ledger)) == [*range(30), 1_000_000]


def test_a_member_whose_precondition_fails_harms_no_other(ledger: SqliteStore) -> None:
    fence = claim(ledger)
    row = pending()
    commits = [
        note(1),
        intent(row, replace(fence, epoch=7)),
        intent(row, fence, unless_blocked=True),
        follow(row.done(RESULT, now=NOW), pending(attempt_id="other"), fence),
        intent(pending(identity(tool="other")), fence),
        note(2),
    ]
    seen = transactions(ledger)
    told = commit_together(ledger, commits)
    assert [type(error) for error in told] == [
        type(None), OwnershipLost, type(None), Outdated, type(None), type(None),
    ]  # fmt: skip
    assert seen == ["COMMIT", "COMMIT"]
    assert noted(ledger) == [1, 2, 1_000_000]
    assert ledger.calls("run") == [row, pending(identity(tool="other"))]


@pytest.mark.parametrize(
    "bad",
    [
        Commit(workflow_id="run", audit=(audit("\udcff"),)),
        Commit(workflow_id="run", audit=(audit(at=float("nan")),)),
        Commit(workflow_id="run", evidence=(evidence(at=float("inf")),)),
        Commit(workflow_id="run", evidence=(evidence(at=1e300),)),
        Commit(workflow_id="run", audit=(audit(), audit(None))),  # type: ignore[arg-type]
    ],
    ids=["lone surrogate", "not a number", "infinite", "beyond 64 bits", "not text"],
)
def test_a_member_that_cannot_be_stored_harms_no_other(ledger: SqliteStore, bad: Commit) -> None:
    told = commit_together(ledger, [note(1), bad, note(2)])
    assert [type(error) for error in told] == [type(None), StoreError, type(None)]
    assert "Nothing was written" in str(told[1])
    assert [entry.why for entry in ledger.audit("run")] == ["note 1", "note 2", "note 1000000"]
    assert ledger.evidence("run") == []
    with pytest.raises(StoreError):
        ledger.commit(bad)
    ledger.commit(note(3))


def test_when_another_process_keeps_the_lock_no_caller_waits_twice(path: Path) -> None:
    store = SqliteStore(path, now=NOW, busy_seconds=0.3)
    store.commit(note(0))

    def commit(number: int) -> str:
        with pytest.raises(StoreError, match="Another process keeps it locked") as refusal:
            store.commit(note(number))
        return type(refusal.value).__name__

    started = time.monotonic()
    with locked(store), ThreadPoolExecutor(20) as pool:
        assert set(pool.map(commit, range(1, 21))) == {"StoreError"}
    assert time.monotonic() - started < 20 * 0.3
    store.commit(note(21))
    assert noted(store) == [0, 21]
    store.close()


def test_commits_of_an_event_loop_share_and_do_not_block_it(ledger: SqliteStore) -> None:
    seen = transactions(ledger)

    async def main() -> int:
        turns = 0
        with locked(ledger):
            futures = [
                asyncio.wrap_future(ledger.commit_soon(note(number))) for number in range(40)
            ]
            for _ in range(50):
                await asyncio.sleep(0)
                turns += 1
            assert not any(future.done() for future in futures)
        await asyncio.gather(*futures)
        return turns

    assert asyncio.run(asyncio.wait_for(main(), SECONDS)) == 50
    assert len(seen) <= 3
    assert sorted(noted(ledger)) == list(range(40))


class Interrupt(KeyboardInterrupt):
    """What Ctrl-C raises, told apart from a real one."""


def test_an_interrupt_leaves_no_transaction_open(ledger: SqliteStore) -> None:
    """A process that continues after Ctrl-C must not keep the others from writing."""
    armed = False

    def strike(number: int, frame: FrameType | None) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise Interrupt

    over = threading.Event()

    def send() -> None:
        pause = threading.Event()
        for _ in range(150):
            pause.wait(0.003)
            os.kill(os.getpid(), signal.SIGUSR1)
        over.set()

    before = signal.signal(signal.SIGUSR1, strike)
    sender = threading.Thread(target=send)
    sender.start()
    durable, number, interrupts = [], 0, 0
    with closing(sqlite3.connect(ledger.location, isolation_level=None, timeout=0)) as other:
        while not over.is_set():
            try:
                armed = True
                while not over.is_set():
                    number += 1
                    ledger.commit(note(number))
                    durable.append(number)
            except Interrupt:
                interrupts += 1
                other.execute("BEGIN IMMEDIATE")
                other.execute("ROLLBACK")
        armed = False
    sender.join(SECONDS)
    signal.signal(signal.SIGUSR1, before)
    assert interrupts > 20
    assert set(durable) <= set(noted(ledger)) <= set(range(1, number + 1))
