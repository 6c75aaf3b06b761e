"""How is a SQLite ledger copied while programs write to it?

SQLite copies it page by page inside one read transaction. The copy shows the ledger at one moment,
and no writer has to wait. It gets its final name when it is complete, checked, marked and on disk.
A process that is killed before that leaves a file that cannot be mistaken for a copy. Promise kept
here: P90.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from nottwice.errors import LedgerCorrupt, StoreError, UsageError
from nottwice.store.files import disk
from nottwice.store.sqlite.statements import SQL
from nottwice.store.table import Row
from nottwice.store.tables import AUDIT

PAGES_AT_ONCE = 1_000
OnProgress = Callable[[int, int], None]
_BESIDE = ("-wal", "-shm", "-journal", ".holders")


def copy_ledger(source: Path, destination: Path, *, mark: Row, on_progress: OnProgress) -> None:
    """Copy a ledger to a file that does not exist yet. Durable: when it returns.

    ``mark``: the audit entry that says what it is, sealed if the ledger is.
    """
    _check_free(destination)
    partial = destination.with_name(f".{destination.name}.partial")
    try:
        _remove(partial)
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        _copy_pages(source, partial, on_progress)
        _finish(partial, mark)
        _check_free(destination)
        os.rename(partial, destination)
        disk.sync_folder(destination.parent)
    except (sqlite3.Error, OSError) as error:
        _remove(partial)
        raise StoreError(
            f"{source} could not be copied to {destination} ({error}). There is no copy, and the "
            "ledger is unchanged. Free some disk space or choose another place, then try again."
        ) from error
    except BaseException:
        _remove(partial)
        raise


def _check_free(destination: Path) -> None:
    """Refuse to overwrite. An old log beside the copy would also be read as the copy's own."""
    for path in (destination, *(destination.with_name(destination.name + end) for end in _BESIDE)):
        if path.exists() or path.is_symlink():
            raise UsageError(
                f"{path} already exists. Nothing was copied. Choose another name, or remove it."
            )


def _copy_pages(source: Path, partial: Path, on_progress: OnProgress) -> None:
    with (
        contextlib.closing(_reader(source)) as reader,
        contextlib.closing(sqlite3.connect(partial, isolation_level=None)) as writer,
    ):
        # The transaction pins one moment. Without it, every commit would restart the copy.
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        reader.backup(
            writer,
            pages=PAGES_AT_ONCE,
            progress=lambda status, left, total: on_progress(total - left, total),
        )
        reader.execute("ROLLBACK")


def _reader(source: Path) -> sqlite3.Connection:
    return sqlite3.connect(source.as_uri() + "?mode=ro", uri=True, isolation_level=None)


def _finish(partial: Path, mark: Row) -> None:
    """Check the copy, write its mark, and put everything into one file and on disk."""
    with contextlib.closing(sqlite3.connect(partial, isolation_level=None)) as connection:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise LedgerCorrupt(
                f"The ledger is damaged ({found}), and so would its copy be. There is no copy. Go "
                "back to an earlier backup, with care."
            )
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(SQL["forget_all_workers"])
        connection.execute(SQL["add_audit"], AUDIT.named(mark))
    descriptor = os.open(partial, os.O_RDWR | os.O_CLOEXEC)
    try:
        disk.sync(descriptor)
    finally:
        os.close(descriptor)


def _remove(partial: Path) -> None:
    for end in ("", *_BESIDE):
        with contextlib.suppress(OSError):
            partial.with_name(partial.name + end).unlink(missing_ok=True)
