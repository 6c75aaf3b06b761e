"""What would opening a ledger do to it? Told without opening it, for those who deploy.

A newer nottwice brings an older ledger forward when it opens it, and an older one cannot open it
any more after that. Whoever has both must know before.
"""

from __future__ import annotations

from pathlib import Path

from nottwice.errors import NoLedger, UsageError
from nottwice.guard.ledger import FOLDER, refuse_url
from nottwice.model.records import frozen_record
from nottwice.store.files import document
from nottwice.store.files.store import OWN_FOLDER
from nottwice.store.postgres.place import is_postgres, read_place
from nottwice.store.sqlite.schema import known_scripts, peek

CONNECT_SECONDS = 10


@frozen_record(frozen=True, slots=True)
class LedgerFormat:
    """The format that a ledger has, and the one that this nottwice writes."""

    location: str
    kind: str
    """What is numbered: the ``schema`` of a database, the ``format`` of JSON files."""
    found: int
    """0: nothing is in it yet."""
    known: int

    @property
    def goes_forward(self) -> bool:
        """Whether the next open changes it."""
        return 0 < self.found < self.known

    def __str__(self) -> str:
        if not self.found:
            return f"{self.location}: empty; {self.kind} {self.known} at next open"
        if self.goes_forward:
            return (
                f"{self.location}: {self.kind} {self.found} → {self.known} at next open; an older "
                "nottwice cannot open it after that"
            )
        return f"{self.location}: {self.kind} {self.found}, as this nottwice writes it"


def preview_ledger(store: str | Path) -> LedgerFormat:
    """Look at a ledger without changing anything; SchemaTooNew if it is newer than we know."""
    if is_postgres(store):
        return _on_postgres(str(store))
    refuse_url(str(store).removeprefix(FOLDER))
    path = Path(str(store).removeprefix(FOLDER)).expanduser()
    if not path.exists():
        raise NoLedger(f"There is no ledger at {path}. Nothing was created.")
    path = path.resolve()
    if not path.is_dir():
        return LedgerFormat(str(path), "schema", peek(path), known_scripts()[-1].number)
    mark = path / OWN_FOLDER / "format.json"
    if not mark.exists():
        raise NoLedger(f"There is no ledger in {path}. Nothing was created. Write {FOLDER}FOLDER.")
    number = document.check_mark(mark.read_bytes(), where=str(mark))
    return LedgerFormat(str(path), "format", number, document.FORMAT)


def _on_postgres(url: str) -> LedgerFormat:
    place = read_place(url)
    try:
        # Here, because the driver is only there for those who asked for it.
        import psycopg

        from nottwice.store.postgres import schema as postgres_schema
        from nottwice.store.postgres.connections import store_error
    except ImportError:
        raise UsageError(
            "A ledger on PostgreSQL needs its driver, which is not installed. Nothing was opened. "
            "Install it: pip install 'nottwice[postgres]'"
        ) from None
    known = postgres_schema.known_scripts()[-1].number
    try:
        words = {"connect_timeout": CONNECT_SECONDS, **place.connection}
        with psycopg.connect(**words) as connection:  # type: ignore[arg-type]
            connection.read_only = True
            found = postgres_schema.version_of(connection, place)
    except psycopg.Error as error:
        raise store_error(error, place) from error
    return LedgerFormat(place.location, "schema", found, known)
