"""Where are ledgers on PostgreSQL while the crash test examines code? In a scratch database.

``NOTTWICE_CRASH_POSTGRES`` names a database in which the crash test may create its own schemas.
Whatever ledger the code names is redirected to one of these, a fresh one for every examination.
Without the variable, code that opens a ledger on PostgreSQL is refused. No real ledger is ever
touched.

A killed client leaves a server process behind that may still be working. Before reading what a
crash has left, the test waits until that process is gone, as an operator would.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from nottwice.errors import UsageError
from nottwice.store.postgres.place import read_place
from nottwice.testing.crash.inside.link import ChildLink

VARIABLE = "NOTTWICE_CRASH_POSTGRES"
NOTE = "ledger.postgres"
"""The file in the folder of an examination that contains the schema's name, not the ledger."""
SETTLE_SECONDS = 20.0
_AT_WORK = """
SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid()
"""
_TABLES = """
SELECT c.relname, a.attname IS NOT NULL
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
  LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'arrival'
 WHERE n.nspname = %s AND c.relkind = 'r' AND c.relname <> 'schema_version'
"""


def scratch_url() -> str | None:
    """Return the database that the crash test may use, if one was named."""
    return os.environ.get(VARIABLE) or None


def why_no_files() -> str | None:
    """Return why the disk under a ledger cannot be broken, or None if it can."""
    if scratch_url() is None:
        return None
    return f"a server has its own disk; unset {VARIABLE} to examine ledgers in files"


class Scratch:
    """The schemas of the current examinations. They are emptied and reused."""

    def __init__(self, url: str) -> None:
        import psycopg

        from nottwice.store.postgres.schema import bring_forward

        self._bring_forward = bring_forward
        # Imported once, here, and not by every child.
        importlib.import_module("nottwice.store.postgres.store")
        self._url = url
        self._connection = psycopg.connect(
            **read_place(url).connection,  # type: ignore[arg-type]
            autocommit=True,
        )
        self._made: list[str] = []
        self._free: list[str] = []

    def make(self, folder: Path) -> None:
        """Create an empty ledger for the examination in ``folder``."""
        (folder / NOTE).write_text(self._free.pop() if self._free else self._create())

    def copy(self, before: Path, after: Path) -> None:
        """Copy a ledger, for the examination in ``after``."""
        source = (before / NOTE).read_text()
        self._settle(source)
        self.make(after)
        target = (after / NOTE).read_text()
        for table, is_ordered in self._tables(source):
            self._do(
                "INSERT INTO {target}.{table} OVERRIDING SYSTEM VALUE"
                " SELECT * FROM {source}.{table}",
                target=target,
                source=source,
                table=table,
            )
            if is_ordered:
                self._do(
                    "SELECT setval(pg_get_serial_sequence('{target}.{table}', 'arrival'),"
                    " coalesce((SELECT max(arrival) FROM {target}.{table}), 0) + 1)",
                    target=target,
                    table=table,
                )

    def discard(self, folder: Path) -> None:
        """Empty the ledger of a finished examination, for another one."""
        schema = (folder / NOTE).read_text()
        self._settle(schema)
        for table, _ in self._tables(schema):
            self._do("DELETE FROM {target}.{table}", target=schema, table=table)
        self._free.append(schema)

    def close(self) -> None:
        """Leave nothing behind."""
        for schema in self._made:
            self._do("DROP SCHEMA {target} CASCADE", target=schema)
        self._connection.close()

    def _create(self) -> str:
        schema = f"nottwice_crash_{os.getpid()}_{len(self._made)}"
        place = replace(read_place(self._url), schema=schema)
        self._bring_forward(self._connection, place)
        self._made.append(schema)
        return schema

    def _tables(self, schema: str) -> list[tuple[str, bool]]:
        """Return the tables of a ledger, each with whether it numbers its rows."""
        return self._connection.execute(_TABLES, (schema,)).fetchall()

    def _settle(self, schema: str) -> None:
        wait_until_alone(self._connection, schema)

    def _do(self, sql: str, **names: str) -> None:
        # Every name is our own: schemas that we created, and the tables of the ledger.
        for name, text in names.items():
            sql = sql.replace("{" + name + "}", text)
        self._connection.execute(sql)


def wait_until_alone(connection: Any, schema: str) -> None:
    """Return when no server process of a dead client is working in a schema any more."""
    give_up_at = time.monotonic() + SETTLE_SECONDS
    while connection.execute(_AT_WORK, (schema,)).fetchone() != (0,):
        if time.monotonic() > give_up_at:
            raise UsageError(f"Another process still uses {schema}, which should not happen.")
        time.sleep(0.005)


def server_in(folder: Path, link: ChildLink, *, alone: bool) -> Callable[[str], str]:
    """Return a function that redirects ledgers on PostgreSQL, in a child.

    ``alone``: every earlier process is dead.
    """
    url = scratch_url()
    if url is None:
        return lambda named: _refuse(link)
    place_of = _place_in(folder, url)
    if alone:
        _wait_for_the_dead(place_of())
    return lambda named: place_of()


def _refuse(link: ChildLink) -> NoReturn:
    link.tell("refused", text=REFUSED)
    os._exit(0)


def _place_in(folder: Path, url: str) -> Callable[[], str]:
    def place_of() -> str:
        schema = (folder / NOTE).read_text()
        joint = "&" if "?" in url else "?"
        return f"{url}{joint}schema={schema}&application_name={schema}"

    return place_of


def _wait_for_the_dead(url: str) -> None:
    import psycopg

    place = read_place(url)
    told = {**place.connection, "application_name": "nottwice crash test"}
    with psycopg.connect(**told, autocommit=True) as connection:  # type: ignore[arg-type]
        wait_until_alone(connection, place.schema)


REFUSED = (
    "The crash test never touches a ledger that is in use, so it needs a PostgreSQL database "
    "in which it can create its own ledgers. Nothing was opened. Name one: "
    f"{VARIABLE}=postgresql://user@host/scratch"
)
