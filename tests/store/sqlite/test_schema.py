"""Is a file judged before it is touched, and does its schema go forward in whole steps?"""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from nottwice.errors import LedgerCorrupt, SchemaTooNew, StoreError
from nottwice.store.sqlite.schema import (
    APPLICATION_ID,
    bring_forward,
    check_durable,
    known_scripts,
    read_scripts,
    statements_of,
    version_of,
)
from nottwice.store.sqlite.store import SqliteStore
from tests.store import kept_ledgers as kept
from tests.store.samples import NOW, note, noted
from tests.tidy.source import ROOT

NEWEST = known_scripts()[-1].number


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        yield opened


def pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute("PRAGMA " + name).fetchone()[0]


# Judging


def test_an_empty_file_is_nothing_yet_and_stays_so(
    path: Path, connection: sqlite3.Connection
) -> None:
    assert version_of(connection, "here") == 0
    assert path.stat().st_size == 0


FOREIGN = {
    "a table": "CREATE TABLE notes (text)",
    "a version": "PRAGMA user_version = 1",
    "a newer version": "PRAGMA user_version = 99",
    "an application": "PRAGMA application_id = 1",
    "a table and our version": "CREATE TABLE nottwice_runs (id); PRAGMA user_version = 1",
    "a view": "CREATE VIEW notes AS SELECT 1",
    "a table beside those of LangGraph": "CREATE TABLE checkpoints (a); CREATE TABLE notes (text)",
    "LangGraph's tables and a version": "CREATE TABLE checkpoints (a); PRAGMA user_version = 1",
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_foreign_database_is_refused_untouched(
    path: Path, connection: sqlite3.Connection, what: str
) -> None:
    connection.executescript(FOREIGN[what])
    before = path.read_bytes()
    for judge in (version_of, bring_forward):
        with pytest.raises(StoreError, match=r"here is a SQLite database, but not.*Choose another"):
            judge(connection, "here")
    assert path.read_bytes() == before
    assert pragma(connection, "journal_mode") == "delete"


def test_a_ledger_of_a_newer_nottwice_is_refused_untouched(
    path: Path, connection: sqlite3.Connection
) -> None:
    bring_forward(connection, "here")
    connection.execute("PRAGMA user_version = 99")
    connection.execute("PRAGMA journal_mode = DELETE")
    before = path.read_bytes()
    for judge in (version_of, bring_forward):
        with pytest.raises(SchemaTooNew, match=rf"version 99.*knows {NEWEST}.*Upgrade"):
            judge(connection, "here")
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [0, 1])
def test_a_ledger_without_tables_is_corrupt(connection: sqlite3.Connection, version: int) -> None:
    connection.execute("PRAGMA application_id = " + str(APPLICATION_ID))
    connection.execute("PRAGMA user_version = " + str(version))
    for judge in (version_of, bring_forward):
        with pytest.raises(LedgerCorrupt, match="has no tables"):
            judge(connection, "here")


# Development versions had other scripts. Their tables had no prefix at first. Later their ledgers
# had no list of scripts, and then a list without the first one.
DEVELOPMENT = {
    "tables without a prefix": lambda sql: sql.replace("nottwice_", ""),
    "no list of scripts": lambda sql: sql + "DROP TABLE nottwice_schema_version;",
    "a list that begins later": lambda sql: (
        sql + "UPDATE nottwice_schema_version SET version = version + 1;"
    ),
}


@pytest.mark.parametrize("version", [1, 2, 9])
@pytest.mark.parametrize("what", DEVELOPMENT)
def test_a_ledger_of_a_development_version_is_refused_untouched(
    path: Path, connection: sqlite3.Connection, version: int, what: str
) -> None:
    """P218."""
    sql = (kept.FOLDER / "0001.sql").read_text(encoding="utf-8")
    connection.executescript(DEVELOPMENT[what](sql))
    connection.execute("PRAGMA user_version = " + str(version))
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"development version.*Nothing was changed.*--store"):
        SqliteStore(path, now=NOW)
    for judge in (version_of, bring_forward):
        with pytest.raises(StoreError, match="here was written by a development version"):
            judge(connection, "here")
    assert path.read_bytes() == before


# What LangGraph's SqliteSaver makes where it keeps its checkpoints.
LANGGRAPH = """
CREATE TABLE IF NOT EXISTS checkpoints (
  thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
  parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
CREATE TABLE IF NOT EXISTS writes (
  thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
  task_id TEXT NOT NULL, idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, value BLOB,
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
"""


@pytest.mark.parametrize("first", ["LangGraph", "nottwice"])
def test_a_file_is_shared_with_the_saver_of_langgraph_whichever_comes_first(
    path: Path, connection: sqlite3.Connection, first: str
) -> None:
    """P219."""
    connection.execute("PRAGMA journal_mode = WAL")
    if first == "LangGraph":
        connection.executescript(LANGGRAPH)
    store = SqliteStore(path, now=NOW)
    store.commit(note(1))
    connection.executescript(LANGGRAPH)
    connection.execute("INSERT INTO checkpoints (thread_id, checkpoint_id) VALUES ('t', 'c')")
    store.commit(note(2))
    store.close()
    again = SqliteStore(path, now=NOW)
    assert noted(again) == [1, 2]
    again.close()
    assert connection.execute("SELECT thread_id FROM checkpoints").fetchall() == [("t",)]


# Going forward


def test_an_empty_file_becomes_a_ledger_of_the_newest_version(
    connection: sqlite3.Connection,
) -> None:
    bring_forward(connection, "here")
    assert version_of(connection, "here") == NEWEST
    assert pragma(connection, "application_id") == APPLICATION_ID
    assert pragma(connection, "journal_mode") == "wal"
    assert pragma(connection, "integrity_check") == "ok"


def test_the_table_has_the_prescribed_key_and_index(connection: sqlite3.Connection) -> None:
    """L1: these names, in this order."""
    bring_forward(connection, "here")
    columns = connection.execute("PRAGMA table_info(tool_call_results)").fetchall()
    key = sorted((column[5], column[1]) for column in columns if column[5])
    assert [name for _, name in key] == [
        "workflow_id",
        "node_id",
        "checkpoint_id",
        "tool_name",
        "input_hash",
    ]
    assert {"result_json", "created_at"} <= {column[1] for column in columns}
    index = connection.execute("PRAGMA index_info(tcr_workflow)").fetchall()
    assert [column[2] for column in index] == ["workflow_id", "created_at"]


def test_every_key_begins_with_the_run(connection: sqlite3.Connection) -> None:
    bring_forward(connection, "here")
    prefixed = (f"nottwice_{name}" for name in ("runs", "steps", "reviews", "evidence", "audit"))
    for table in ("tool_call_results", *prefixed):
        columns = connection.execute("PRAGMA table_info(" + table + ")").fetchall()
        keys = [name for _, name in sorted((c[5], c[1]) for c in columns if c[5])]
        assert keys[:1] in (["workflow_id"], []), table
        assert columns[0][1] == "workflow_id", table


@pytest.mark.parametrize("spoiled", [b"\xff\xfe", "two", 1.5])
def test_a_spoiled_row_of_versions_keeps_no_ledger_from_being_read(
    connection: sqlite3.Connection, spoiled: object
) -> None:
    bring_forward(connection, "here")
    connection.execute("UPDATE nottwice_schema_version SET needs = ?", (spoiled,))
    assert version_of(connection, "here") == known_scripts()[-1].number


def test_a_ledger_of_the_newest_version_is_left_alone(connection: sqlite3.Connection) -> None:
    bring_forward(connection, "here")
    before = connection.total_changes
    bring_forward(connection, "here")
    assert connection.total_changes == before


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """The scripts of a nottwice to come, which has one more."""
    with as_file(files("nottwice.store") / "sql" / "sqlite") as folder:
        shutil.copytree(folder, tmp_path / "scripts")
    (tmp_path / "scripts" / f"{NEWEST + 1:04}_colours.sql").write_text(
        "-- Every run gets a colour.\n"
        "ALTER TABLE nottwice_runs ADD COLUMN colour TEXT NOT NULL DEFAULT 'red; or -- blue';\n"
        "CREATE TABLE colours (name TEXT);\n"
    )
    return tmp_path / "scripts"


def test_a_ledger_goes_forward_and_keeps_what_it_holds(path: Path, newer: Path) -> None:
    store = SqliteStore(path, now=NOW)
    store.commit(note(1))
    store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        bring_forward(connection, "here", scripts=read_scripts(newer))
        assert pragma(connection, "user_version") == NEWEST + 1
        assert pragma(connection, "application_id") == APPLICATION_ID
        assert connection.execute("SELECT why FROM nottwice_audit").fetchall() == [("note 1",)]
        assert connection.execute("SELECT count(colour) FROM nottwice_runs").fetchall() == [(0,)]
    with pytest.raises(SchemaTooNew):
        SqliteStore(path, now=NOW)


def test_a_new_ledger_goes_all_the_way(connection: sqlite3.Connection, newer: Path) -> None:
    bring_forward(connection, "here", scripts=read_scripts(newer))
    assert pragma(connection, "user_version") == NEWEST + 1
    assert connection.execute("SELECT * FROM colours").fetchall() == []


def test_a_step_that_fails_leaves_the_ledger_as_it_was(path: Path, newer: Path) -> None:
    store = SqliteStore(path, now=NOW)
    store.commit(note(1))
    store.close()
    last = newer / f"{NEWEST + 1:04}_colours.sql"
    good = last.read_text()
    last.write_text(good + "INSERT INTO nowhere VALUES (1);\n")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with pytest.raises(sqlite3.OperationalError, match="nowhere"):
            bring_forward(connection, "here", scripts=read_scripts(newer))
        assert not connection.in_transaction
        assert version_of(connection, "here") == NEWEST
        columns = connection.execute("PRAGMA table_info(nottwice_runs)").fetchall()
        assert "status" in {column[1] for column in columns}
        assert "colour" not in {column[1] for column in columns}
    reopened = SqliteStore(path, now=NOW)
    assert noted(reopened) == [1]
    reopened.close()
    last.write_text(good)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        bring_forward(connection, "here", scripts=read_scripts(newer))
        assert pragma(connection, "user_version") == NEWEST + 1


# The scripts


def test_the_shipped_scripts_are_numbered_without_gaps() -> None:
    assert [script.number for script in known_scripts()] == list(range(1, NEWEST + 1))


def test_other_files_beside_the_scripts_are_ignored(newer: Path) -> None:
    (newer / "README.md").write_text("about")
    (newer / "0001_ledger.sql~").write_text("an editor left this")
    (newer / "__pycache__").mkdir()
    assert [script.number for script in read_scripts(newer)] == list(range(1, NEWEST + 2))


@pytest.mark.parametrize("name", [f"{NEWEST + 3:04}_gap.sql", "0001_twice.sql"])
def test_a_gap_or_a_number_used_twice_is_refused(newer: Path, name: str) -> None:
    (newer / name).write_text("CREATE TABLE more (x);")
    with pytest.raises(StoreError, match="not numbered from 1 without gaps"):
        read_scripts(newer)


def test_a_script_is_taken_apart_into_its_statements() -> None:
    script = (
        "-- A comment; with a semicolon.\n"
        "CREATE TABLE a (\n  b TEXT DEFAULT 'x;\ny' -- why; not\n);\n\n"
        "CREATE INDEX i ON a (b);\n"
        "-- The end.\n\n"
    )
    with closing(sqlite3.connect(":memory:")) as connection:
        statements = statements_of(script)
        for statement in statements:
            connection.execute(statement)
        assert len(statements) == 2
        assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (2,)


def test_a_script_that_ends_in_the_middle_is_refused() -> None:
    with pytest.raises(StoreError, match="middle of a statement"):
        statements_of("CREATE TABLE a (b);\nCREATE TABLE c (d)\n")


# Durability is read back


def test_wal_and_full_are_enough(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    check_durable(connection, "here")


@pytest.mark.parametrize("mode", ["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "OFF"])
def test_any_other_journal_is_refused(connection: sqlite3.Connection, mode: str) -> None:
    connection.execute("PRAGMA journal_mode = " + mode)
    connection.execute("PRAGMA synchronous = FULL")
    with pytest.raises(StoreError, match=rf"journal_mode={mode.lower()}.*Nothing was opened"):
        check_durable(connection, "here")


@pytest.mark.parametrize(("level", "number"), [("OFF", 0), ("NORMAL", 1), ("EXTRA", 3)])
def test_any_other_level_is_refused(
    connection: sqlite3.Connection, level: str, number: int
) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = " + level)
    with pytest.raises(StoreError, match=f"synchronous={number} instead of wal and 2"):
        check_durable(connection, "here")


def test_the_page_about_sqlite_explains_every_table(connection: sqlite3.Connection) -> None:
    bring_forward(connection, "here")
    found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    tables = {name for (name,) in found if not name.startswith("sqlite_")}
    page = (ROOT / "docs" / "internals" / "sqlite.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == tables
