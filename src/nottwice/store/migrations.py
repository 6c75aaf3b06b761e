"""Which scripts move a schema forward, and which versions of nottwice may then use the ledger?

During a rolling deploy two versions of nottwice use one ledger. The rule:

- A script that only adds says so with the line ``-- Additive.``. It may add tables, indexes, and
  columns that are NULL or have a default. It must not change what existing columns mean, what
  existing seals cover, or which conditions existing commits check.
- A ledger remembers, for each script, the oldest schema whose code may use it (``needs``). An
  additive script needs what the scripts before it need. Any other script needs itself.
- An older nottwice uses a newer ledger if the ledger needs no more than it knows. It names its
  columns in every statement, so it neither reads nor changes what it does not know. Otherwise it
  refuses the ledger and changes nothing.
- An additive script may be applied while older processes use the ledger. Any other script is
  refused while a process that wrote to the ledger is alive.

JSON files follow the same rule: their format number grows only with a change that older code cannot
read, and what an older nottwice does not know in a file, it writes back unchanged. Promise kept
here: P225.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nottwice.errors import SchemaTooNew, StoreError
from nottwice.model.data.records import frozen_record
from nottwice.model.run import HolderRecord

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

ADDITIVE = "-- Additive."
_MOST_NAMED = 5


@frozen_record(frozen=True, slots=True)
class Script:
    """One migration: its SQL leads to schema version ``number``."""

    number: int
    sql: str

    @property
    def is_additive(self) -> bool:
        """Whether an older nottwice may use the ledger after it."""
        return ADDITIVE in self.sql.splitlines()


def read_scripts(folder: Traversable) -> tuple[Script, ...]:
    """The scripts of a folder in order. A gap would skip a migration, so it is refused."""
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    numbers = [int(name[:4]) for name in names]
    if numbers != list(range(1, len(names) + 1)):
        raise StoreError(f"The schema scripts are not numbered from 1 without gaps: {names}.")
    texts = [(folder / name).read_text(encoding="utf-8") for name in names]
    return tuple(map(Script, numbers, texts))


def needs(scripts: Sequence[Script], number: int) -> int:
    """The oldest schema whose code may use a ledger of schema ``number``."""
    return max(
        (one.number for one in scripts if one.number <= number and not one.is_additive), default=1
    )


def check_usable(location: str, *, version: int, needed: int, known: int) -> None:
    """Refuse a newer ledger that this nottwice cannot use."""
    if needed > known:
        raise SchemaTooNew(
            f"{location} has schema version {version}, which code for schema {needed} or later can "
            f"use; this nottwice knows {known}. Nothing was changed. Upgrade nottwice here, too."
        )


def check_none_alive(
    location: str, pending: Sequence[Script], alive: Iterable[HolderRecord]
) -> None:
    """Refuse a migration that processes which use the ledger now would not survive."""
    wanted = [one.number for one in pending if not one.is_additive]
    found = [record.describe() for record in alive] if wanted else []
    if found:
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        raise StoreError(
            f"{location} must be brought forward to schema version {wanted[-1]}, which the version "
            "of nottwice in running processes cannot use. Nothing was changed. Stop these "
            f"processes first: {', '.join(found[:_MOST_NAMED])}{more}."
        )
