"""What would opening a ledger do to it? Told without opening it, for those who deploy.

A newer nottwice brings an older ledger forward when it opens it, and an older one cannot open it
any more after that. Whoever has both must know before.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nottwice.errors import NoLedger
from nottwice.guard.ledger import FOLDER
from nottwice.store import jsonfile_document as document
from nottwice.store.jsonfile import OWN_FOLDER
from nottwice.store.sqlite_schema import known_scripts, peek


@dataclass(frozen=True, slots=True)
class LedgerFormat:
    """The format that a ledger has, and the one that this nottwice writes."""

    location: str
    kind: str
    """What is numbered: the ``schema`` of a SQLite file, the ``format`` of JSON files."""
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


def preview_ledger(store: str | Path) -> LedgerFormat | None:
    """Look at a ledger without changing anything; SchemaTooNew if it is newer than we know.

    None for what is not in a file: whoever is asked over a network is not only looked at.
    """
    if "://" in str(store):
        return None
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
