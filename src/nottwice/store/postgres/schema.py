"""What is in this schema of the database: a ledger, nothing yet, or something else?

The schema is judged before anything is written to it. All scripts that it has not seen are applied
in one transaction under a lock of that transaction. So any number of processes can open an empty
database at the same time, even behind a pooler that switches connections (P61). The keys of all
rows of a run begin with the run, and the id of a run of one call with its group (P370).
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import logging
from collections.abc import Sequence

import psycopg

from nottwice.errors import LedgerCorrupt, NoLedger, StoreError
from nottwice.store import migrations
from nottwice.store.migrations import Script, read_scripts
from nottwice.store.postgres.functions import functions_script, name_of
from nottwice.store.postgres.place import DEFAULT_SCHEMA, Place
from nottwice.store.postgres.statements import SQL
from nottwice.store.tables import HOLDERS

log = logging.getLogger("nottwice")


@functools.cache
def known_scripts() -> tuple[Script, ...]:
    """The scripts of this nottwice. The last one leads to the version that it writes."""
    folder = importlib.resources.files("nottwice.store") / "sql" / "postgres"
    return read_scripts(folder)


def roles_script(schema: str = DEFAULT_SCHEMA) -> str:
    """The SQL that grants readers, operators and writers what they need, and nothing else (P60)."""
    file = importlib.resources.files("nottwice.store") / "sql" / "postgres_roles.sql"
    return in_schema(file.read_text(encoding="utf-8"), schema)


@functools.cache
def in_schema(sql: str, schema: str) -> str:
    """A statement for a ledger that is in another schema than nottwice.

    The name was checked when the URL was read: small letters, digits and underscores.
    """
    if schema == DEFAULT_SCHEMA:
        return sql
    sql = sql.replace(DEFAULT_SCHEMA + ".", schema + ".")
    for words in ("SCHEMA IF NOT EXISTS ", "ON SCHEMA ", "IN SCHEMA "):
        sql = sql.replace(words + DEFAULT_SCHEMA, words + schema)
    return sql


def lock_number(*words: str) -> int:
    """The number of the lock for the thing that these words name."""
    text = "\0".join(words).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big", signed=True)


def version_of(connection: psycopg.Connection, place: Place, *, newest: int | None = None) -> int:
    """The schema version of a ledger; 0 if there is none yet. Writes nothing.

    It may be newer than this nottwice knows, if the ledger can still be used (P225).
    """
    newest = known_scripts()[-1].number if newest is None else newest
    found = connection.execute(SQL["count_tables"], (place.schema,)).fetchone()
    assert found is not None
    tables, ours = found
    if not tables:
        return 0
    if not ours:
        raise StoreError(
            f"The schema {place.schema!r} of {place.location} has other tables, but no nottwice "
            "ledger. Nothing was changed. Choose another schema with ?schema=NAME in the URL."
        )
    row = connection.execute(in_schema(SQL["schema_version"], place.schema)).fetchone()
    assert row is not None
    version: int = row[0]
    migrations.check_usable(place.location, version=version, needed=row[1], known=newest)
    if not version or tables < 2:
        raise LedgerCorrupt(
            f"{place.location} says that it is a ledger but has no tables. Nothing was changed. "
            "Restore it from a backup."
        )
    return version


def open_schema(
    connection: psycopg.Connection, place: Place, *, create: bool, busy_seconds: float
) -> None:
    """Make sure that the ledger exists and is up to date.

    Durable: when it returns. A user who may not create tables can open an up-to-date ledger.
    """
    version = version_of(connection, place)
    if not version and not create:
        raise NoLedger(
            f"There is no ledger at {place.location}. Nothing was created. Name another with "
            "--store or NOTTWICE_STORE."
        )
    if version < known_scripts()[-1].number:
        try:
            bring_forward(connection, place, busy_seconds=busy_seconds)
        except psycopg.errors.InsufficientPrivilege as error:
            raise StoreError(
                f"{place.location} has schema version {version} and needs version "
                f"{known_scripts()[-1].number}, but this user may not change it "
                f"({place.hide_secrets(str(error))}). Nothing was changed. Open the ledger once as "
                "the user who owns it."
            ) from error
    elif not _functions_are_there(connection, place):
        _make_functions(connection, place, busy_seconds=busy_seconds)


def bring_forward(
    connection: psycopg.Connection,
    place: Place,
    *,
    busy_seconds: float = 60.0,
    scripts: Sequence[Script] | None = None,
) -> None:
    """Apply the scripts that a ledger has not seen yet, all in one transaction.

    Durable: when it returns.
    """
    scripts = known_scripts() if scripts is None else scripts
    schema = place.schema
    connection.execute(SQL["begin"])
    try:
        connection.execute(SQL["limit_lock_wait"], (f"{busy_seconds * 1000:.0f}ms",))
        connection.execute(SQL["lock_schema"], (lock_number("nottwice schema", schema),))
        # Read again, because another process may have done everything while this one waited.
        version = version_of(connection, place, newest=scripts[-1].number)
        if not version:
            if not _schema_exists(connection, schema):
                connection.execute(in_schema(SQL["create_schema"], schema))
        elif version < scripts[-1].number:
            living = connection.execute(in_schema(SQL["living_holders"], schema)).fetchall()
            alive = HOLDERS.records(living)
            migrations.check_none_alive(place.location, scripts[version:], alive)
        for script in scripts[version:]:
            connection.execute(in_schema(script.sql, schema))
            needed = migrations.needs(scripts, script.number)
            connection.execute(in_schema(SQL["add_version"], schema), (script.number, needed))
        if not _functions_are_there(connection, place):
            connection.execute(in_schema(functions_script(), schema))
        connection.execute("COMMIT")
    except BaseException:
        if not connection.closed:
            connection.execute("ROLLBACK")
        raise


def _make_functions(connection: psycopg.Connection, place: Place, *, busy_seconds: float) -> None:
    """Create the functions of this nottwice in a ledger that has those of another version.

    A user who may not create them can do without: commits then take more round trips.
    """
    try:
        bring_forward(connection, place, busy_seconds=busy_seconds)
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction):
        log.warning(
            "%s lacks the functions of this nottwice, so commits take longer. To create them, open "
            "the ledger once as the user who owns it",
            place.location,
        )


def _functions_are_there(connection: psycopg.Connection, place: Place) -> bool:
    """Whether a ledger has the functions that this nottwice calls."""
    name = in_schema(name_of("write_pending"), place.schema)
    found = connection.execute(SQL["function_exists"], (name,)).fetchone()
    return bool(found and found[0])


def _schema_exists(connection: psycopg.Connection, schema: str) -> bool:
    """Asked first, because IF NOT EXISTS needs a right that the owner of the tables may lack."""
    found = connection.execute(SQL["schema_exists"], (schema,)).fetchone()
    return bool(found and found[0])


def check_durable(connection: psycopg.Connection, place: Place) -> None:
    """Refuse a connection whose commits could be lost."""
    found = connection.execute(SQL["synchronous_commit"]).fetchone()
    assert found is not None
    if found[0] == "off":
        raise commits_may_be_lost(place)
    if place.only_synchronous:
        _check_synchronous(connection, place, found[0])
    server = connection.execute(SQL["server_version"]).fetchone()
    if server is not None and "CockroachDB" in server[0]:
        raise StoreError(
            f"{place.location} is CockroachDB, which accepts PostgreSQL's advisory locks but does "
            "not lock, so two writers would not notice each other. Nothing was written. "
            "Use PostgreSQL."
        )
    _check_encoding(connection, place)
    disk = connection.execute(SQL["disk_settings"]).fetchone()
    if disk != ("on", "on"):
        log.warning(
            "%s runs with fsync=%s and full_page_writes=%s: a power cut there can lose receipts",
            place.location,
            *(disk or ("?", "?")),
        )


def _check_encoding(connection: psycopg.Connection, place: Place) -> None:
    """Refuse a database that cannot hold all text: it would refuse some receipts (P285)."""
    found = connection.execute(SQL["server_encoding"]).fetchone()
    if found != ("UTF8",):
        raise StoreError(
            f"{place.location} keeps text as {found and found[0]}, which cannot hold all "
            "characters, so the result of an effect could be lost. Nothing was written. "
            "Make a database that can: CREATE DATABASE name TEMPLATE template0 ENCODING 'UTF8'"
        )


def _check_synchronous(connection: psycopg.Connection, place: Place, waits_for: str) -> None:
    """Compare what a URL says about standbys with what the server does (P122)."""
    if waits_for == "local":
        raise StoreError(
            f"{place.location} says standbys=synchronous but runs with synchronous_commit=local: "
            "no commit waits for a standby. Nothing was written. Switch it on: "
            "ALTER ROLE ... SET synchronous_commit = on"
        )
    if connection.execute(SQL["has_standbys"]).fetchone() != (True,):
        log.warning(
            "%s says standbys=synchronous, but synchronous_standby_names is empty: no commit waits "
            "for a standby",
            place.location,
        )


def commits_may_be_lost(place: Place) -> StoreError:
    """The error for synchronous_commit=off."""
    return StoreError(
        f"{place.location} runs with synchronous_commit=off for this user or database. It reports "
        "a commit as durable before it is, so after a crash of the server an effect could be sent "
        "a second time. Nothing was written. Switch it on: "
        "ALTER ROLE ... SET synchronous_commit = on"
    )
