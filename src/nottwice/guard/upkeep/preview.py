"""What would opening a ledger do to it? Answered without opening it, for deploys.

A newer nottwice migrates an older ledger when it opens it. Whether an older nottwice can still use
it then depends on the migration. If you run both versions, you must know this before you deploy.
What cannot be opened is a named error (P287).
"""

from __future__ import annotations

from pathlib import Path

from nottwice.errors import NoLedger, SchemaTooNew, StoreError, UsageError
from nottwice.guard.ledger import FOLDER, local_path
from nottwice.model.data.records import frozen_record
from nottwice.store import registry
from nottwice.store.files import document
from nottwice.store.files.store import OWN_FOLDER
from nottwice.store.migrations import needs
from nottwice.store.postgres.place import is_postgres, read_place, without_secrets
from nottwice.store.sqlite.schema import known_scripts, peek

CONNECT_SECONDS = 10


@frozen_record(frozen=True, slots=True)
class LedgerFormat:
    """The format of a ledger, and the format that this nottwice writes."""

    location: str
    kind: str
    """What the number means: the ``schema`` of a database, the ``format`` of JSON files."""
    found: int | None
    """0: the ledger is still empty. None: its store is of another package, which does not tell."""
    known: int | None
    needs: int = 0
    """The oldest schema whose code can use the ledger after the next open. 0: only the newest."""

    @property
    def goes_forward(self) -> bool:
        """Whether the next open migrates it."""
        return self.found is not None and self.known is not None and 0 < self.found < self.known

    def __str__(self) -> str:
        if self.found is None:
            return f"{self.location}: its store does not tell its format, so it was not checked"
        if not self.found:
            return f"{self.location}: empty; {self.kind} {self.known} at next open"
        if self.goes_forward:
            after = "an older nottwice cannot open it after that"
            if 0 < self.needs <= self.found:
                after = f"code for {self.kind} {self.needs} or later can use it after that"
            return f"{self.location}: {self.kind} {self.found} → {self.known} at next open; {after}"
        if self.known is not None and self.found > self.known:
            return (
                f"{self.location}: {self.kind} {self.found}, newer than {self.known} that this "
                "nottwice writes, and usable"
            )
        return f"{self.location}: {self.kind} {self.found}, as this nottwice writes it"


def preview_ledger(store: str | Path) -> LedgerFormat:
    """Inspect a ledger without changing it; SchemaTooNew if its format is too new to be known."""
    if is_postgres(store):
        return _on_postgres(str(store))
    if registry.is_installed(store):
        return _in_installed_store(str(store))
    path = local_path(store)
    if not path.exists():
        raise NoLedger(f"There is no ledger at {path}. Nothing was created.")
    path = path.resolve()
    if path.is_file():
        known = known_scripts()[-1].number
        return LedgerFormat(str(path), "schema", peek(path), known, needs(known_scripts(), known))
    if not path.is_dir():
        # Opening a pipe would wait for a process that writes into it.
        raise NoLedger(f"{path} is neither a file nor a folder. Nothing was opened.")
    mark = path / OWN_FOLDER / "format.json"
    if not mark.exists():
        raise NoLedger(f"There is no ledger in {path}. Nothing was created. Write {FOLDER}FOLDER.")
    try:
        content = mark.read_bytes()
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read as a ledger ({error}). Nothing was changed. Name another "
            "folder."
        ) from error
    number = document.check_mark(content, where=str(mark))
    return LedgerFormat(str(path), "format", number, document.FORMAT)


def _in_installed_store(url: str) -> LedgerFormat:
    numbers = registry.preview_installed(url)
    location = without_secrets(url)
    if numbers is None:
        return LedgerFormat(location, "format", None, None)
    found, known = numbers
    if found > known:
        raise SchemaTooNew(
            f"The ledger {location} has format {found}, and its store writes format {known}. "
            "Nothing was opened. Install the newer version of the package that has this store."
        )
    return LedgerFormat(location, "format", found, known)


def _on_postgres(url: str) -> LedgerFormat:
    place = read_place(url)
    try:
        # Imported here, because the driver is an optional dependency.
        import psycopg

        from nottwice.store.postgres import schema as postgres_schema
        from nottwice.store.postgres.connections import store_error
    except ImportError:
        raise UsageError(
            "A ledger on PostgreSQL needs its driver, which is not installed. Nothing was opened. "
            "Install it: pip install 'nottwice[postgres]'"
        ) from None
    scripts = postgres_schema.known_scripts()
    known = scripts[-1].number
    try:
        words = {"connect_timeout": CONNECT_SECONDS, **place.connection}
        with psycopg.connect(**words) as connection:  # type: ignore[arg-type]
            connection.read_only = True
            found = postgres_schema.version_of(connection, place)
    except psycopg.Error as error:
        raise store_error(error, place) from error
    return LedgerFormat(place.location, "schema", found, known, needs(scripts, known))
