"""What is in this file: a ledger, nothing yet, or something that belongs to another program?

A file is judged before anything is written to it, and by more than its version number, because
other programs also number their schemas. Numbered SQL files move the schema forward, each in a
separate transaction, so a process that dies in between leaves a complete older schema behind. A new
ledger gets all of them in one.
Promises kept here: P48, P218, P219, P225.
"""

from __future__ import annotations

import contextlib
import functools
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from nottwice.errors import LedgerCorrupt, StoreError
from nottwice.model.run import HolderRecord
from nottwice.store import migrations
from nottwice.store.migrations import Script as Script
from nottwice.store.migrations import read_scripts as read_scripts
from nottwice.store.sqlite.statements import SQL
from nottwice.store.tables import HOLDERS

APPLICATION_ID = 0x6E6F7432
LANGGRAPH = frozenset({"checkpoints", "writes"})
"""The tables of LangGraph's SqliteSaver. A file that has only these may become a ledger."""
_VERSIONS = "nottwice_schema_version"
_APPLIED_SO_FAR = "SELECT min(version), max(version), max(needs) FROM nottwice_schema_version"
_APPLIED = "INSERT INTO nottwice_schema_version (version, needs) VALUES (?, ?)"
Alive = Callable[[Iterable[HolderRecord]], Iterable[HolderRecord]]
"""Picks the processes that are alive out of all that ever wrote to a ledger."""


@functools.cache
def known_scripts() -> tuple[Script, ...]:
    """The scripts of this nottwice. The last one leads to the version that it writes."""
    return read_scripts(Path(__file__).parent.parent / "sql" / "sqlite")


def version_of(connection: sqlite3.Connection, location: str, *, newest: int | None = None) -> int:
    """The schema version of a ledger; 0 for a database that is still empty. Writes nothing.

    It may be newer than this nottwice knows, if the ledger can still be used.
    """
    newest = known_scripts()[-1].number if newest is None else newest
    # Read in one transaction, because another process may be creating the tables right now.
    connection.execute("BEGIN")
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        found = connection.execute("SELECT DISTINCT tbl_name FROM sqlite_schema")
        tables = {name for (name,) in found} - LANGGRAPH
        first = last = needs = 0
        if application == APPLICATION_ID and _VERSIONS in tables:
            first, last, needs = connection.execute(_APPLIED_SO_FAR).fetchone()
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
    if "tool_call_results" in tables and first != 1:
        raise StoreError(
            f"{location} was written by a development version of nottwice, from before its first "
            "release, whose tables were different. Nothing was changed. Keep the file as a "
            "record, and give new runs another ledger: --store PATH or NOTTWICE_STORE."
        )
    # A version that the table does not know was not written by the rule, nor was another type.
    needed = needs if last == version and isinstance(needs, int) else version
    migrations.check_usable(location, version=version, needed=needed, known=newest)
    if not version or not tables:
        raise LedgerCorrupt(
            f"{location} says that it is a ledger but has no tables. Nothing was changed. "
            "Restore it from a backup."
        )
    return version


def peek(path: Path) -> int:
    """The schema version of the ledger in a file, without changing anything in it or beside it.

    0 for a file that is still empty. If no process has the ledger open, everything is in the file
    itself. Otherwise SQLite also reads its log.
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
    connection: sqlite3.Connection,
    location: str,
    *,
    scripts: Sequence[Script] | None = None,
    alive: Alive | None = None,
) -> None:
    """Switch WAL on and apply the scripts that a ledger has not seen yet.

    Durable: each script when it is done. The caller must keep other processes out meanwhile.
    ``alive``: refuses a script that older processes, which are alive, would not survive (P225).
    """
    scripts = known_scripts() if scripts is None else scripts
    version = version_of(connection, location, newest=scripts[-1].number)
    if 0 < version < scripts[-1].number and alive is not None:
        known = HOLDERS.records(connection.execute(SQL["all_holders"]).fetchall())
        migrations.check_none_alive(location, scripts[version:], alive(known))
    connection.execute("PRAGMA journal_mode = WAL")
    # A new ledger is made whole or not at all, and each of its pages is written once.
    steps = [[script] for script in scripts[version:]] if version else [scripts]
    for step in steps:
        connection.execute("BEGIN IMMEDIATE")
        try:
            for script in step:
                _apply(connection, script, needs=migrations.needs(scripts, script.number))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _apply(connection: sqlite3.Connection, script: Script, *, needs: int) -> None:
    for statement in statements_of(script.sql):
        connection.execute(statement)
    connection.execute(_APPLIED, (script.number, needs))
    # A pragma takes no parameters. Both numbers are our own.
    connection.execute("PRAGMA application_id = " + str(APPLICATION_ID))
    connection.execute("PRAGMA user_version = " + str(script.number))


def statements_of(script: str) -> list[str]:
    """The statements of a script, because executescript() would commit by itself."""
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
    """Refuse a connection whose commits could be lost. The settings are read back."""
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    level = connection.execute("PRAGMA synchronous").fetchone()[0]
    if (mode, level) != ("wal", 2):
        raise StoreError(
            f"{location} opened with journal_mode={mode} and synchronous={level} instead of wal "
            "and 2 (FULL), so a power cut could lose receipts. Nothing was opened. Check the disk."
        )
