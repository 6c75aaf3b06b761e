"""What is in this file: a ledger, nothing yet, or something that is not ours to touch?

A file is judged before anything is written to it, and by more than its version number: other
programs number their schemas, too. The schema goes forward by numbered SQL files, each in a
transaction of its own, so a process that dies in between leaves a whole older schema behind.
Promises kept here: P48, P218, P219.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.resources
import sqlite3
from collections.abc import Sequence
from importlib.resources.abc import Traversable
from pathlib import Path

from nottwice.errors import LedgerCorrupt, SchemaTooNew, StoreError
from nottwice.model.records import frozen_record

APPLICATION_ID = 0x6E6F7432
LANGGRAPH = frozenset({"checkpoints", "writes"})
"""The tables of LangGraph's SqliteSaver. A file with nothing else in it may become a ledger."""


@frozen_record(frozen=True, slots=True)
class Script:
    """One step forward: its SQL leads to schema version ``number``."""

    number: int
    sql: str


@functools.cache
def known_scripts() -> tuple[Script, ...]:
    """The scripts of this nottwice; the last one leads to the version it writes."""
    return read_scripts(importlib.resources.files("nottwice.store") / "sql" / "sqlite")


def read_scripts(folder: Traversable) -> tuple[Script, ...]:
    """The scripts of a folder in order. A gap would skip a step, so it is refused."""
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    numbers = [int(name[:4]) for name in names]
    if numbers != list(range(1, len(names) + 1)):
        raise StoreError(f"The schema scripts are not numbered from 1 without gaps: {names}.")
    texts = [(folder / name).read_text(encoding="utf-8") for name in names]
    return tuple(map(Script, numbers, texts))


def version_of(connection: sqlite3.Connection, location: str, *, newest: int | None = None) -> int:
    """The schema version of a ledger; 0 for a database that is still empty. Writes nothing."""
    newest = known_scripts()[-1].number if newest is None else newest
    # One look, in one transaction: another process may be making the tables at this moment.
    connection.execute("BEGIN")
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        found = connection.execute("SELECT DISTINCT tbl_name FROM sqlite_schema")
        tables = {name for (name,) in found} - LANGGRAPH
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    if application != APPLICATION_ID:
        if application or version or tables:
            raise StoreError(
                f"{location} is a SQLite database, but not a nottwice ledger. Nothing was "
                "changed. Choose another file."
            )
        return 0
    if "tool_call_results" in tables and "nottwice_runs" not in tables:
        raise StoreError(
            f"{location} was written by a development version of nottwice, from before its first "
            "release, whose tables had other names. Nothing was changed. Keep the file as a "
            "record, and give new runs another ledger: --store PATH or NOTTWICE_STORE."
        )
    if version > newest:
        raise SchemaTooNew(
            f"{location} has schema version {version}; this nottwice knows {newest}. Nothing was "
            "changed. Upgrade nottwice here, too."
        )
    if not version or not tables:
        raise LedgerCorrupt(
            f"{location} says that it is a ledger and holds no tables. Nothing was changed. "
            "Restore it from a backup."
        )
    return version


def peek(path: Path) -> int:
    """The schema version of the ledger in a file, without touching anything beside or in it.

    0 for a file that is still empty. What nobody has open is all in the file itself; else SQLite
    looks into its log as well, as a reader.
    """
    log = path.with_name(path.name + "-wal")
    mode = "?mode=ro" if log.exists() else "?mode=ro&immutable=1"
    try:
        opened = sqlite3.connect(path.as_uri() + mode, uri=True, isolation_level=None)
        with contextlib.closing(opened) as connection:
            return version_of(connection, str(path))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise StoreError(
            f"{path} cannot be read as a ledger ({error}). Nothing was changed. Name another file."
        ) from error


def bring_forward(
    connection: sqlite3.Connection, location: str, *, scripts: Sequence[Script] | None = None
) -> None:
    """Switch WAL on and apply the scripts that a ledger has not seen yet.

    Durable: each script when it is done. Others must be kept out meanwhile.
    """
    scripts = known_scripts() if scripts is None else scripts
    version = version_of(connection, location, newest=scripts[-1].number)
    connection.execute("PRAGMA journal_mode = WAL")
    for script in scripts[version:]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements_of(script.sql):
                connection.execute(statement)
            # A pragma takes no parameters; both numbers are our own.
            connection.execute("PRAGMA application_id = " + str(APPLICATION_ID))
            connection.execute("PRAGMA user_version = " + str(script.number))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def statements_of(script: str) -> list[str]:
    """The statements of a script, since executescript() would commit on its own."""
    found, current = [], ""
    for line in script.splitlines():
        current += line + "\n"
        if sqlite3.complete_statement(current):
            found.append(current)
            current = ""
    if any(line.strip() and not line.startswith("--") for line in current.splitlines()):
        raise StoreError(f"A schema script ends in the middle of a statement: {current!r}")
    return found


def check_durable(connection: sqlite3.Connection, location: str) -> None:
    """Refuse a connection whose commits could be lost: what was set is read back."""
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    level = connection.execute("PRAGMA synchronous").fetchone()[0]
    if (mode, level) != ("wal", 2):
        raise StoreError(
            f"{location} opened with journal_mode={mode} and synchronous={level} instead of wal "
            "and 2 (FULL), so a power cut could lose receipts. Nothing was opened. Check the disk."
        )
