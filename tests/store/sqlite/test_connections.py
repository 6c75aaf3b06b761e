"""Are connections durable, private to their user, and never carried through a fork?"""

from __future__ import annotations

import gc
import os
import sqlite3
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nottwice.errors import LedgerCorrupt, StoreError
from nottwice.model.run import Life
from nottwice.store.sqlite import connections as sqlite_connections
from nottwice.store.sqlite.connections import (
    MOST_READERS,
    SqliteConnections,
    primary_code,
    store_error,
)
from nottwice.store.sqlite.lost import Acknowledged
from nottwice.store.sqlite.schema import bring_forward
from nottwice.store.sqlite.store import SqliteStore
from tests.store.abilities import python
from tests.store.children import Child
from tests.store.samples import NOW, claim, note, noted

FULL = 2


@pytest.fixture
def path(tmp_path: Path) -> Path:
    where = tmp_path / "ledger.db"
    with closing(sqlite3.connect(where, isolation_level=None)) as connection:
        bring_forward(connection, "here")
    return where


@pytest.fixture
def connections(path: Path) -> Iterator[SqliteConnections]:
    opened = SqliteConnections(path, busy_seconds=0.05, acknowledged=Acknowledged())
    yield opened
    opened.close()


def test_every_connection_waits_for_the_disk(connections: SqliteConnections) -> None:
    with connections.writer.guard:
        writer = connections.connect_writer()
        assert writer.execute("PRAGMA synchronous").fetchone() == (FULL,)
        assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connections.read("PRAGMA synchronous", ()) == [(FULL,)]


def test_the_writer_is_one_and_is_proven_durable_whenever_it_is_opened(
    path: Path, connections: SqliteConnections
) -> None:
    with connections.writer.guard:
        assert connections.connect_writer() is connections.connect_writer()
    connections.close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
    with connections.writer.guard:
        for _ in range(2):
            with pytest.raises(StoreError, match="journal_mode=delete"):
                connections.connect_writer()
        assert connections.writer.connection is None


def test_concurrent_reads_have_separate_connections(
    connections: SqliteConnections,
) -> None:
    together = threading.Barrier(5, timeout=30)

    def read(_: int) -> list[tuple[int]]:
        together.wait()
        return connections.read("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n "
                                "LIMIT 20000) SELECT max(i) FROM n", ())  # fmt: skip

    with ThreadPoolExecutor(5) as pool:
        assert list(pool.map(read, range(5))) == [[(20_000,)]] * 5
    opened = [slot for slot in connections.slots() if slot.connection is not None]
    assert 1 <= len(opened) <= 5
    for _ in range(10):
        connections.read("SELECT 1", ())
    assert len(connections.slots()) <= 6


def test_a_crowd_of_readers_shares_a_few_connections(connections: SqliteConnections) -> None:
    together = threading.Barrier(60, timeout=30)

    def read(number: int) -> list[tuple[int]]:
        together.wait()
        return connections.read("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n "
                                "LIMIT 5000) SELECT max(i) + ? FROM n", (number,))  # fmt: skip

    with ThreadPoolExecutor(60) as pool:
        assert list(pool.map(read, range(60))) == [[(5_000 + number,)] for number in range(60)]
    # The writer is a slot, too; threads that look at the same moment may each add one.
    assert len(connections.slots()) - 1 < 2 * MOST_READERS


def test_a_read_that_fails_takes_its_connection_along(connections: SqliteConnections) -> None:
    connections.read("SELECT 1", ())
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        connections.read("SELECT * FROM nowhere", ())
    assert [slot for slot in connections.slots() if slot.connection is not None] == []
    assert connections.read("SELECT 1", ()) == [(1,)]


def test_closing_waits_for_current_users_and_a_later_use_opens_again(
    connections: SqliteConnections,
) -> None:
    connections.read("SELECT 1", ())
    (slot,) = connections.slots()[1:]
    with slot.guard, ThreadPoolExecutor(1) as pool:
        closing_it = pool.submit(connections.close)
        with pytest.raises(TimeoutError):
            closing_it.result(0.1)
        slot.guard.release()
        closing_it.result(30)
        slot.guard.acquire()
        assert slot.connection is None
    assert connections.read("SELECT 1", ()) == [(1,)]


def test_garbage_collection_does_not_reach_a_connection_before_its_slot(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slot decides whether it may be closed. And Python 3.13 warns of what was not closed."""
    open_at_the_end: list[bool] = []

    class Watched(sqlite3.Connection):
        def __del__(self) -> None:
            try:
                self.execute("SELECT 1")
            except sqlite3.ProgrammingError:
                open_at_the_end.append(False)
            else:
                open_at_the_end.append(True)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Watched))
    connections = SqliteConnections(path, busy_seconds=0.05, acknowledged=Acknowledged())
    connections.connect(connections.writer)
    # Objects are usually collected in the order in which they were made: let the slot be younger.
    slot, older = connections._new_slot(), connections.writer
    slot.files, slot.hold, slot.connection = older.files, older.hold, older.connection
    older.hold = older.connection = None
    connections.writer = slot
    cycle: list[Any] = [connections]
    cycle.append(cycle)
    del connections, slot, older, cycle
    gc.collect()
    # The locks of a ledger may need a connection of their own for a moment.
    assert set(open_at_the_end) == {False}


def test_a_ledger_that_was_deleted_is_not_created_again(
    path: Path, connections: SqliteConnections
) -> None:
    connections.read("SELECT 1", ())
    connections.close()
    path.unlink()
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        connections.read("SELECT 1", ())
    assert not path.exists()


@pytest.mark.parametrize(
    "name",
    ["what?.db", "a#b.db", "100%41.db", "two words.db", "it's \"quoted\".db", "漢字☃.db", "a\nb",
     "mode=ro&x.db", os.fsdecode(b"caf\xe9.db")],
    ids=ascii,
)  # fmt: skip
def test_a_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    store = SqliteStore(tmp_path / name, now=NOW)
    assert noted(store) == []
    assert (tmp_path / name).exists()
    store.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([name, name + ".holders"])


# What an error means


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("it went wrong")
    error.sqlite_errorcode = code
    return error


def test_the_details_of_a_code_are_left_off() -> None:
    assert primary_code(sqlite_error(sqlite3.SQLITE_IOERR_FSYNC)) == sqlite3.SQLITE_IOERR
    assert primary_code(sqlite_error(sqlite3.SQLITE_BUSY_SNAPSHOT)) == sqlite3.SQLITE_BUSY
    assert primary_code(sqlite3.ProgrammingError("closed")) is None


@pytest.mark.parametrize(
    ("code", "kind", "advice"),
    [
        (sqlite3.SQLITE_FULL, StoreError, "Free some disk space"),
        (sqlite3.SQLITE_BUSY, StoreError, "Another process"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreError, "Another process"),
        (sqlite3.SQLITE_CORRUPT, LedgerCorrupt, "backup"),
        (sqlite3.SQLITE_CORRUPT_INDEX, LedgerCorrupt, "backup"),
        (sqlite3.SQLITE_NOTADB, LedgerCorrupt, "backup"),
        (sqlite3.SQLITE_READONLY, StoreError, "Nothing was written"),
    ],
)
def test_an_error_is_typed_and_says_what_to_do(code: int, kind: type, advice: str) -> None:
    error = store_error(sqlite_error(code), "/data/ledger.db")
    assert type(error) is kind
    for words in ("/data/ledger.db", "it went wrong", "Nothing was written", advice):
        assert words in str(error)


def test_a_text_that_cannot_be_decoded_is_damage(path: Path) -> None:
    """A worker that took it for a passing trouble would look again forever."""
    with closing(SqliteStore(path, now=NOW)) as store:
        claim(store, "run-1")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE nottwice_runs SET graph_id = CAST(x'ff31' AS TEXT)")
        with pytest.raises(LedgerCorrupt):
            store.load_run("run-1")


def test_an_error_of_ours_stays_as_it_is() -> None:
    ours = StoreError("said already")
    assert store_error(ours, "here") is ours


# Forks

needs_fork = pytest.mark.skipif(sys.platform != "linux", reason="looks into Linux's lock table")


@needs_fork
def test_a_forked_child_that_outlives_its_parent_loses_nothing(tmp_path: Path) -> None:
    """SQLite in the child must have locks of its own, or others remove the log under it."""
    path = tmp_path / "ledger.db"
    with Child(python("outlive_parent", path)) as child:
        first, second = child.hear(), child.hear()
        assert child.hear() == {}
    assert first == {
        "told_durable": [1, 2],
        "is_new_holder": True,
        "parent": "dead",
        "holds_sqlite_lock": True,
    }
    assert second == {"told_durable": [1, 2, 3], "shown": [1, 2, 3]}
    store = SqliteStore(path, now=NOW)
    assert noted(store) == [1, 2, 3]
    store.close()


def test_a_forked_child_is_another_holder_and_leaves_its_parent_unharmed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    witness = SqliteStore(path, now=NOW)
    with Child(python("fork_and_return", path)) as family:
        said = [family.hear() for _ in range(6)]
        holders = {facts["holder"] for facts in said[:4]}
        assert len(holders) == 1
        (child,) = holders
        assert said[4] == {"child_sees": [1, 2], "parent": "alive"}
        assert said[5] == {"parent_sees": [1, 2, 3], "same_holder": True}
        query = "SELECT holder_id FROM nottwice_holders WHERE pid = ?"
        parent = next(row[0] for row in witness._read(query, (family.pid,)))
        assert parent != child
        assert witness.life_of(child) is Life.DEAD
        assert witness.life_of(parent) is Life.ALIVE
        family.kill_unreaped()
        assert witness.life_of(parent) is Life.DEAD
    witness.close()


def test_a_fork_waits_for_threads_that_use_the_ledger(tmp_path: Path) -> None:
    with Child(python("fork_among_threads", tmp_path / "ledger.db", "25")) as family:
        facts = family.hear()
        assert family.end() == (0, "")
    assert facts["statuses"] == [0] * 25
    assert facts["missing"] == []
    assert facts["written"] > 25


def test_a_child_that_was_forked_in_mid_use_is_refused(tmp_path: Path) -> None:
    with Child(python("fork_inside_a_read", tmp_path / "ledger.db")) as family:
        refusal = family.hear()["refused"]
        assert family.hear() == {"parent_sees": [1, 3]}
    for words in ("forked while another thread", "Nothing was opened", "spawn"):
        assert words in refusal


def test_the_log_is_cut_once_a_long_reader_is_gone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P173."""
    monkeypatch.setattr(sqlite_connections, "MOST_LOG_BYTES", 5 << 20)
    store, log = SqliteStore(path, now=NOW), Path(f"{path}-wal")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM nottwice_runs").fetchone()
        for number in range(80):
            store.commit(note(number, weight=100_000))
        grown = log.stat().st_size
    for number in range(80, 84):
        store.commit(note(number))
    assert grown > 7 << 20
    assert log.stat().st_size <= 5 << 20
    assert noted(store) == list(range(84))
    store.close()
