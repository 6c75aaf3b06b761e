"""Copy a ledger while it is in use, and record what happened to a copy (L8).

Promises kept here: the first part of P91 (every copy carries its mark), and P96, for copies and
everything else that takes data out of a ledger.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

from nottwice.engine.doubts.restored import mark_of
from nottwice.errors import UsageError
from nottwice.guard.frames import shows_one_frame
from nottwice.guard.ledger import FOLDER, Ledger, ledger_of
from nottwice.model.call import check_id
from nottwice.model.data.printable import one_line
from nottwice.model.data.records import frozen_record
from nottwice.model.review import ACCOUNTED_FOR, COPIED, AuditEntry
from nottwice.store.interface import LEDGER, Commit, Store

BACKED_UP = "backup"
EXPORTED = "export"
OnProgress = Callable[[int, int], None]


@runtime_checkable
class CanCopy(Protocol):
    """A store that can be copied while it is in use."""

    def copy_to(self, destination: Path, *, mark: AuditEntry, on_progress: OnProgress) -> None:
        """Make a complete copy of one point in time. Durable: when it returns."""


@frozen_record(frozen=True, slots=True)
class Copy:
    """A copy of a ledger."""

    location: str
    made_at: float
    bytes: int


@shows_one_frame
def backup(
    destination: str | Path,
    *,
    store: str | Path | Ledger | Store | None = None,
    by: str = "a program",
    on_progress: OnProgress | None = None,
) -> Copy:
    """Copy a SQLite or JSON ledger to a new place, while it is in use.

    A run of the copy is held for a person when it is first opened, because the original may have
    continued. ``on_progress`` is called with the number of parts that are copied, and their total.
    Durable: when it returns. An interrupted copy leaves nothing behind.
    """
    who = check_id(by, what="Who makes the copy")
    ledger = ledger_of(store, create=False)
    if not isinstance(ledger.store, CanCopy):
        raise UsageError(
            f"{ledger.location} must be copied with the tools of its database, for PostgreSQL "
            "pg_dump or a base backup: only they see all of it at one moment. Nothing was copied. "
            "After you restore one, say so before any program runs: nottwice backup --restored"
        )
    place = _place(destination)
    now = ledger.clock.now()
    mark = _entry(now, who, COPIED, one_line(f"of {ledger.location}"))
    ledger.store.copy_to(place, mark=mark, on_progress=on_progress or (lambda done, all: None))
    told = AuditEntry(LEDGER, now, who, BACKED_UP, one_line(str(place)), mark.subject)
    ledger.store.commit(Commit(workflow_id=LEDGER, audit=(told,)))
    return Copy(str(place), now, _size(place))


def tell_of_export(ledger: Ledger, *, by: str, to: str | Path, what: str) -> None:
    """Record that data is taken out of a ledger. Durable: when it returns.

    Call it before anything is taken: if it fails, or the process is killed, nothing was taken.
    """
    who = check_id(by, what="Who takes it")
    now = ledger.clock.now()
    entry = AuditEntry(LEDGER, now, who, EXPORTED, one_line(str(Path(to).absolute())), what)
    ledger.store.commit(Commit(workflow_id=LEDGER, audit=(entry,)))


def hold_restored(ledger: Ledger, *, by: str, why: str) -> None:
    """Record that a ledger was restored from a copy without a mark. Durable: when it returns."""
    _check(by, why)
    entry = _entry(ledger.clock.now(), by, COPIED, why)
    ledger.store.commit(Commit(workflow_id=LEDGER, audit=(entry,)))


def account_for(ledger: Ledger, *, by: str, why: str) -> AuditEntry:
    """Record that everything since a copy was made is accounted for, in all its runs.

    Durable: when it returns. Reviews that are already open close when their run is opened;
    ``nottwice.reviews.accounting`` decides them, so that workers open it.
    """
    _check(by, why)
    mark = mark_of(ledger.store)
    if mark is None:
        raise UsageError(
            f"{ledger.location} is not a copy, or is already accounted for. Nothing was changed."
        )
    now = max(ledger.clock.now(), mark.at)
    entry = AuditEntry(LEDGER, now, by, ACCOUNTED_FOR, mark.subject, why)
    ledger.store.commit(Commit(workflow_id=LEDGER, audit=(entry,)))
    return entry


def _entry(now: float, by: str, action: str, why: str) -> AuditEntry:
    return AuditEntry(LEDGER, now, by, action, f"copy {secrets.token_hex(4)}", why)


def _check(by: str, why: str) -> None:
    check_id(by, what="Who says so")
    if not why.strip():
        raise UsageError("The reason is missing, and it is recorded. Nothing was changed.")


def _place(given: str | Path) -> Path:
    text = str(given).removeprefix(FOLDER)
    if not text or "\0" in text or "://" in text:
        raise UsageError(f"{str(given)!r} is not a path. Nothing was copied.")
    place = Path(text).expanduser().absolute()
    if not place.parent.is_dir():
        raise UsageError(f"There is no folder {place.parent}. Nothing was copied. Make it first.")
    return place


def _size(place: Path) -> int:
    if place.is_file():
        return place.stat().st_size
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
