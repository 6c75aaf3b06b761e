"""The embedded ledger: SQLite in WAL mode, synchronous=FULL, one file on a local disk (B1).

Promises kept here: P5, P6, P7, and P10 (a commit that returned survives power loss). FULL is read
back after it was set, because one fsync error leaves WAL silently off, and with NORMAL most power
cuts would repeat an effect. A COMMIT that fails is ambiguous: the connection is closed, what is
visible is forced to disk, and the same commit is repeated, which changes nothing if it was durable.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from nottwice.errors import NoLedger, NottwiceError, StoreError
from nottwice.model.review import AuditEntry
from nottwice.model.run import HolderRecord, Life
from nottwice.model.sealing.seal import Seals
from nottwice.store import seal_walk
from nottwice.store.files import disk
from nottwice.store.interface import Commit
from nottwice.store.machine import leftovers, locks, whereabouts
from nottwice.store.machine.filesystem import check_filesystem
from nottwice.store.sealing import Sealing
from nottwice.store.shared import SharedCommits
from nottwice.store.sql_store import SqlStore
from nottwice.store.sqlite.commits import SqliteCommits, inode_at
from nottwice.store.sqlite.connections import SqliteConnections, store_error
from nottwice.store.sqlite.copy import OnProgress, copy_ledger
from nottwice.store.sqlite.lost import Acknowledged
from nottwice.store.sqlite.schema import bring_forward, check_durable, known_scripts, version_of
from nottwice.store.sqlite.statements import SQL
from nottwice.store.statements import Parameters
from nottwice.store.tables import AUDIT, HOLDERS

BUSY_SECONDS = 30.0
_OPENING_PLACE = (1 << 62) + 1

log = logging.getLogger("nottwice")


class SqliteStore(whereabouts.OnDisk, SqliteCommits, SqlStore):
    """A ledger in one SQLite file."""

    _pid: int
    _shared: SharedCommits
    _sealing: Sealing
    _statements = SQL

    # In WAL mode no writer blocks a reader.
    reads_can_block = False

    def __init__(
        self,
        path: str | Path,
        *,
        now: float,
        create: bool = True,
        busy_seconds: float = BUSY_SECONDS,
        seals: Seals | None = None,
    ) -> None:
        """Open the ledger at ``path``. ``busy_seconds``: how long to wait for other processes.
        ``seals``: the key to seal and check rows with."""
        self._name(path)
        self._now = now
        self._busy_seconds = whereabouts.busy_seconds(busy_seconds)
        self._acknowledged = Acknowledged()
        self._sealing = Sealing(seals, location=self.location)
        self._prepare(create=create)
        _stores.add(self)
        log.info("ledger opened at %s", self.location)
        log.info(self._sealing.describe())

    def commit(self, commit: Commit) -> None:
        if self._pid != os.getpid():
            self._in_this_process()
        self._shared.commit(commit)

    def commit_soon(self, commit: Commit) -> Future[None]:
        self._in_this_process()
        return self._shared.commit_soon(commit)

    def holder(self) -> HolderRecord:
        self._in_this_process()
        return self._lock.record

    def load_holder(self, holder_id: str) -> HolderRecord | None:
        return HOLDERS.first(self._ask("holder", {"holder_id": holder_id}))

    def life_of(self, holder_id: str) -> Life:
        record = self.load_holder(holder_id)
        return self._lock.life_of(record)

    def adopt(self, workflow_id: str, *, entry: AuditEntry) -> None:
        self._in_this_process()
        with self._connections.writer.guard:
            connection = self._writer()
            try:
                with self._connections.writer.files.turn(self._busy_seconds):
                    self._adopt(connection, workflow_id, entry)
            except BaseException as error:
                failed = self._broken_off(error, committing=False)
                if isinstance(error, NottwiceError):
                    raise
                raise store_error(failed.error, self.location) from error
            self._sealing.forget()

    def _adopt(self, connection: sqlite3.Connection, workflow_id: str, entry: AuditEntry) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(SQL["add_audit"], AUDIT.named(AUDIT.row(entry)))
        seal_walk.adopt(
            lambda name, given: connection.execute(SQL[name], given).fetchall(),
            workflow_id,
            self._sealing,
        )
        connection.execute("COMMIT")

    def copy_to(self, destination: Path, *, mark: AuditEntry, on_progress: OnProgress) -> None:
        """Make a complete copy of one moment, while others write. Durable: when it returns."""
        self._in_this_process()
        with self._connections.unmoved():
            row = self._sealing.put(AUDIT, AUDIT.row(mark))
            copy_ledger(self._path, destination, mark=row, on_progress=on_progress)

    def close(self) -> None:
        """Close the files. Everything reported durable stays so, and a later use reopens them."""
        if self._pid != os.getpid():
            return
        self._shared.close()
        self._connections.close()

    # Opening

    def _prepare(self, *, create: bool) -> None:
        warning = check_filesystem(self._path)
        if warning:
            log.warning(warning)
        self._create_file(create=create)
        connections = SqliteConnections(
            self._path, busy_seconds=self._busy_seconds, acknowledged=self._acknowledged
        )
        try:
            self._lock = self._open(connections, create=create)
            # The caller reads next, and then does not have to wait for a connection.
            connections.read(SQL["holder"], {"holder_id": ""})
        except BaseException as error:
            connections.close()
            if isinstance(error, sqlite3.Error | OSError | UnicodeDecodeError):
                raise store_error(error, self.location) from error
            raise
        self._connections = connections
        self._inode = inode_at(self.location)
        self._registered = False
        self._sealing.forget()
        self._shared = SharedCommits(self._commit_many)
        # Set last: a thread that sees the number of this process here finds everything in place.
        self._pid = os.getpid()

    def _create_file(self, *, create: bool) -> None:
        left = leftovers.left_beside(self._path)
        try:
            if self._path.exists():
                return
            if not create:
                raise self._no_ledger()
            leftovers.refuse_to_begin_anew(self._path, left)
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            # Before any other file is created, which would suggest a deleted ledger (P116).
            disk.sync_folder(self._path.parent)
        except FileExistsError:
            pass
        except OSError as error:
            raise StoreError(
                f"The ledger {self.location} could not be created ({error.strerror}). Nothing "
                "was opened. Create its folder, or choose another place."
            ) from error

    def _open(self, connections: SqliteConnections, *, create: bool) -> locks.HolderLock:
        """Judge the file, then become a holder of it, then write to it: in this order."""
        holders = self._path.with_name(self._path.name + ".holders")
        was_complete = leftovers.was_complete(holders)
        with connections.judging() as connection:
            version = version_of(connection, self.location)
            if not version and not create:
                raise self._no_ledger()
            if not version and was_complete:
                leftovers.refuse_to_fill_again(self._path, holders)
            lock = locks.hold(holders, now=self._now)
            mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        if version < known_scripts()[-1].number or mode != "wal":
            lock.exclusively(
                _OPENING_PLACE,
                lambda: self._bring_forward(connections, lock),
                wait_seconds=self._busy_seconds,
            )
        if not was_complete:
            lock.mark_complete()
        return lock

    def _bring_forward(self, connections: SqliteConnections, lock: locks.HolderLock) -> None:
        def alive(known: Iterable[HolderRecord]) -> Iterator[HolderRecord]:
            for one in known:
                is_other = one.holder_id != lock.record.holder_id
                if is_other and lock.life_of(one) is Life.ALIVE:
                    yield one

        with connections.writer.guard:
            connection = connections.connect(connections.writer)
            with connections.writer.files.turn(self._busy_seconds):
                bring_forward(connection, self.location, alive=alive)
                # The tables go into the file itself. Otherwise a new ledger without its log would
                # be an empty file, and commits that went with the log would not be missed (P111).
                connection.execute("PRAGMA wal_checkpoint").fetchone()
            connections.secure()
            check_durable(connection, self.location)

    def _no_ledger(self) -> NoLedger:
        return NoLedger(
            f"There is no ledger at {self.location}. Nothing was created. Name another with "
            "--store PATH or NOTTWICE_STORE."
        )

    # Reading

    def _listed(self, texts: Collection[str]) -> str:
        return json.dumps(list(texts))

    def _read(self, sql: str, parameters: Parameters) -> list[Any]:
        self._in_this_process()
        try:
            return self._connections.read(sql, parameters)
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise store_error(error, self.location) from error
        except UnicodeEncodeError:
            # A name that cannot be stored has no rows.
            return []


_stores: weakref.WeakSet[SqliteStore] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for store in list(_stores):
        # Another thread of the parent may have held the lock, and does not exist here.
        store._reopening = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _close_at_exit() -> None:
    """Close at exit, so that the last process that used a ledger removes its log."""
    for store in list(_stores):
        if store._pid == os.getpid():
            store._connections.close_idle()


atexit.register(_close_at_exit)
