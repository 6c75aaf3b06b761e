"""Was there a ledger here that is gone now? The files that it left behind answer this.

After ``rm agent.db`` a program would create an empty ledger and do everything a second time. The
lock file and SQLite's log are created after the ledger itself. If one of them exists and the ledger
does not, the ledger was deleted or moved. An emptied ledger (``: > agent.db``) looks like one whose
first start was killed. So the lock file gets its only byte once the tables of the ledger are in its
file: if the byte is there and the tables are not, the ledger was emptied. Promise kept here: P116.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from nottwice.errors import LedgerDeleted

_MADE_AFTER_THE_LEDGER = (".holders", "-wal", "-journal")


def was_complete(holders: Path) -> bool:
    """Whether the ledger with this lock file ever had its tables. Call this *before* looking for
    them: another process may be creating them."""
    try:
        return holders.stat().st_size > 0
    except FileNotFoundError:
        return False


def refuse_to_fill_again(path: Path, holders: Path) -> None:
    """Refuse to make a ledger of what is left of one. LedgerDeleted names the file to remove."""
    raise LedgerDeleted(
        f"{path} has no tables, but {holders} says that it was a ledger: it was emptied or "
        "replaced. Nothing was written, because a new ledger knows of no run, and everything would "
        "be done a second time. Restore the ledger from a backup. To start over on purpose, remove "
        f"what it left: rm {shlex.quote(str(holders))}"
    )


def left_beside(path: Path) -> list[Path]:
    """The files that a ledger at this path left behind. Call this *before* looking for the ledger:
    another process that is just creating a ledger creates these files after it."""
    beside = [path.with_name(path.name + ending) for ending in _MADE_AFTER_THE_LEDGER]
    return [file for file in beside if os.path.exists(file)]


def refuse_to_begin_anew(path: Path, left: list[Path]) -> None:
    """Refuse to create a ledger where there was one. LedgerDeleted names the files to remove."""
    if not left:
        return
    names = " and ".join(str(file) for file in left)
    verb = "is" if len(left) == 1 else "are"
    raise LedgerDeleted(
        f"There is no ledger at {path}, but {names} {verb} still there: the ledger was deleted or "
        "moved. Nothing was created, because a new ledger knows of no run, and everything would be "
        "done a second time. Put the ledger back, or restore it from a backup. To start over on "
        f"purpose, remove what it left: rm {shlex.join(map(str, left))}"
    )
