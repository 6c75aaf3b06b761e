"""Is a visit of an adapter durable as a whole, or not at all? (P255)"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nottwice.errors import StoreError, UsageError
from nottwice.store.sqlite.store import SqliteStore
from nottwice.store.visits import Ask, VisitCommit, Visited
from tests.store.abilities import mounted
from tests.store.children import Child
from tests.store.samples import NOW, note, noted

CREATE = "CREATE TABLE IF NOT EXISTS nottwice_guest (number INTEGER PRIMARY KEY, data BLOB)"
ADD = "INSERT INTO nottwice_guest (number, data) VALUES (:number, :data) ON CONFLICT DO NOTHING"
ALL = "SELECT number FROM nottwice_guest ORDER BY number"

# Writes two rows, says so, and waits to be killed before it can commit.
_KILLED = """
import sys
from pathlib import Path
from nottwice.store.sqlite.store import SqliteStore
from nottwice.store.visits import VisitCommit
from tests.store.test_visits import adding

store = SqliteStore(Path(sys.argv[1]), now=0.0)
store.commit(adding(1, 2))

def work(ask):
    adding(3, 4).work(ask)
    print("{}", flush=True)
    sys.stdin.read()

store.commit(VisitCommit("test", work=work))
"""


def adding(*numbers: int, weight: int = 1) -> VisitCommit:
    def work(ask: Ask) -> None:
        ask(CREATE, {})
        for number in numbers:
            ask(ADD, {"number": number, "data": b"x" * weight})

    return VisitCommit("test", work=work)


def added(store: SqliteStore) -> list[int]:
    return [number for (number,) in store.look_up(ALL, {})]


def test_a_visit_is_read_back_and_can_be_repeated(ledger: SqliteStore) -> None:
    assert isinstance(ledger, Visited)
    ledger.commit(adding(1, 2))
    ledger.commit(adding(1, 2))
    ledger.commit_soon(adding(3)).result(30)
    assert added(ledger) == [1, 2, 3]


def test_visits_and_commits_of_many_threads_share_transactions_and_lose_nothing(
    ledger: SqliteStore,
) -> None:
    ledger.commit(adding())
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda number: ledger.commit(adding(number)), range(40)))
        list(pool.map(lambda number: ledger.commit(note(number)), range(40)))
        both = [adding(40), note(40), adding(41), note(41)]
        list(pool.map(ledger.commit, both))
    assert added(ledger) == list(range(42))
    assert sorted(noted(ledger)) == list(range(42))


def test_a_visit_that_fails_writes_nothing_and_fails_no_other(ledger: SqliteStore) -> None:
    ledger.commit(adding(1))

    def work(ask: Ask) -> None:
        adding(2).work(ask)
        raise UsageError("It was refused.")

    outcomes = ledger._commit_many([adding(3), VisitCommit("test", work=work), note(4)])
    assert [type(one) for one in outcomes] == [type(None), StoreError, type(None)]
    assert added(ledger) == [1, 3]
    assert noted(ledger) == [4]


def test_a_process_that_is_killed_in_the_middle_of_a_visit_leaves_nothing_of_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ledger.db"
    with Child([sys.executable, "-c", _KILLED, str(path)]) as child:
        assert child.hear() == {}
        os.kill(child.pid, signal.SIGKILL)
    store = SqliteStore(path, now=NOW)
    assert added(store) == [1, 2]
    store.commit(adding(3))
    assert added(store) == [1, 2, 3]
    store.close()


def test_a_full_disk_refuses_a_visit_as_a_whole_until_there_is_space(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", options="size=700k") as disk:
        store = SqliteStore(disk / "ledger.db", now=NOW)
        number = 0
        with pytest.raises(StoreError, match="Free some disk space"):
            while number < 1000:
                store.commit(adding(number, number + 1, weight=3000))
                number += 2
        assert added(store) == list(range(number))
        subprocess.run(["mount", "-o", "remount,size=9m", str(disk)], check=True)
        store.commit(adding(number, number + 1, weight=3000))
        assert added(store) == list(range(number + 2))
        store.close()


def test_a_visit_waits_for_another_writer_only_so_long(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    store = SqliteStore(path, now=NOW, busy_seconds=0.2)
    store.commit(adding(1))
    with Child([sys.executable, "-c", _KILLED, str(path)]) as child:
        assert child.hear() == {}
        with pytest.raises(StoreError, match="Another process has been writing"):
            store.commit(adding(5))
    assert added(store) == [1, 2]
    store.commit(adding(5))
    store.close()


def test_a_visit_to_a_ledger_that_was_replaced_is_refused(ledger: SqliteStore) -> None:
    ledger.commit(adding(1))
    path = Path(ledger.location)
    path.rename(path.with_name("elsewhere.db"))
    with pytest.raises(StoreError, match="deleted or replaced"):
        ledger.commit(adding(2))
