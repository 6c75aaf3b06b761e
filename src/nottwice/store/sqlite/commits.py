"""How does a commit become durable on SQLite, and what if it does not?

Every commit is one transaction, inside a turn that no other process of nottwice has meanwhile. A
COMMIT that fails is ambiguous: the connection is closed, what is visible is forced to disk, and the
same commit is repeated, which changes nothing if it was there. Before and after it the files must
be those that others find. Promises kept here: P5, P7, P110, P111.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from nottwice.errors import CommitUnknown, StoreError
from nottwice.store import locks
from nottwice.store.interface import Commit
from nottwice.store.sealing import Sealing
from nottwice.store.sqlite import locks as sqlite_locks
from nottwice.store.sqlite import plan
from nottwice.store.sqlite.connections import (
    SqliteConnections,
    check_fresh,
    primary_code,
    store_error,
)
from nottwice.store.sqlite.lost import Acknowledged, look_again
from nottwice.store.sqlite.quick import quick, write_quickly
from nottwice.store.sqlite.statements import SQL
from nottwice.store.statements import Statement
from nottwice.store.tables import HOLDERS

# Errors that SQLite gives before the last page of a transaction is in the log. Any other error
# of a COMMIT leaves open whether the transaction comes back after a crash.
_NOTHING_IS_DURABLE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_TOOBIG,
    }
)

log = logging.getLogger("nottwice")


class SqliteCommits:
    """The part of a ledger on SQLite that writes."""

    location: str
    _path: Path
    _busy_seconds: float
    _sealing: Sealing
    _acknowledged: Acknowledged
    _inode: tuple[int, int] | None
    _lock: locks.HolderLock
    _registered: bool
    _connections: SqliteConnections

    def _commit_many(self, commits: Sequence[Commit]) -> Sequence[BaseException | None]:
        writer = self._connections.writer
        with writer.guard:
            found = inode_at(self.location)
            if found != self._inode:
                # SQLite would go on writing into a file that nobody can find any more.
                return self._gone(commits, replaced=found is not None)
            try:
                if writer.connection is None:
                    self._connections.connect_writer()
                files = writer.files
                check_fresh(files)
                with files.guard:
                    try:
                        if not files.take_turn(self._busy_seconds):
                            return [self._kept_out() for _ in commits]
                        outcomes = self._commit_in_turn(commits)
                    finally:
                        files.end_turn()
                if files.in_place():
                    self._acknowledged.note(commits, outcomes)
                    return outcomes
            except (sqlite3.Error, OSError, UnicodeDecodeError, StoreError) as error:
                return [store_error(error, self.location) for _ in commits]
            return self._lost(commits, files)

    def _gone(self, commits: Sequence[Commit], *, replaced: bool) -> list[BaseException | None]:
        """The ledger that was opened is not at its place."""
        what_next = "Put the file back, or look up what happened before you run anything again."
        writer = self._connections.writer
        if replaced and writer.connection is not None:
            what_next = self._look_again(writer.files)
        text = (
            f"The ledger {self.location} was deleted or replaced while it was in use. Nothing was "
            f"written, and what this process has seen since is not on record. {what_next}"
        )
        return [StoreError(text) for _ in commits]

    def _lost(
        self, commits: Sequence[Commit], files: sqlite_locks.LedgerFiles
    ) -> list[BaseException | None]:
        """A commit went into a log that nobody finds any more."""
        text = (
            f"The log of the ledger {self.location} was removed while this process wrote to it, so "
            "this commit may or may not be durable, and nothing was done on the strength of it. "
            f"This process cannot use the ledger any more. {self._look_again(files)}"
        )
        return [CommitUnknown(text) for _ in commits]

    def _look_again(self, files: sqlite_locks.LedgerFiles) -> str:
        if not files.stale:
            sqlite_locks.abandon(files)
            files.found = look_again(self._path, self._acknowledged)
            log.error("the files of ledger %s were removed. %s", self.location, files.found)
        return files.found

    def _commit_in_turn(self, commits: Sequence[Commit]) -> Sequence[BaseException | None]:
        if len(commits) == 1:
            return [self._alone(commits[0])]
        try:
            return self._transaction(commits)
        except _InDoubt as doubt:
            return self._resolve(commits, doubt.error)
        except _Failed as failed:
            if primary_code(failed.error) == sqlite3.SQLITE_BUSY:
                # Everybody has waited long enough; each alone would wait as long again.
                return [store_error(failed.error, self.location) for _ in commits]
            # The batch is rolled back whole; each member repeats alone.
            return [self._alone(commit) for commit in commits]

    def _kept_out(self) -> StoreError:
        return StoreError(
            f"Another process has been writing to the ledger {self.location} for more than "
            f"{self._busy_seconds:g} s. Nothing was written. If it is stopped, let it continue or "
            "end it, and try again."
        )

    def _alone(self, commit: Commit) -> BaseException | None:
        try:
            statement = None
            if self._registered and self._sealing.seals is None:
                statement = quick(commit)
            if statement is not None and self._executed(statement):
                return None
            return self._transaction([commit])[0]
        except _InDoubt as doubt:
            return self._resolve([commit], doubt.error)[0]
        except _Failed as failed:
            return store_error(failed.error, self.location)

    def _executed(self, statement: Statement) -> bool:
        """A transaction of one statement, which needs no BEGIN; False: nothing was written."""
        connection = self._connections.writer.connection
        if connection is None or connection.in_transaction:
            connection = self._writer()
        try:
            return connection.execute(*statement).rowcount == 1
        except BaseException as error:
            raise self._broken_off(error, committing=True) from error

    def _transaction(self, commits: Sequence[Commit]) -> list[BaseException | None]:
        """One transaction for all members; those whose preconditions fail write nothing.

        The first one of a process carries its record as a holder: nobody holds a run, or is named
        in one, whom others could not look up.
        """
        connection = self._writer()
        committing = False
        try:
            connection.execute("BEGIN IMMEDIATE")
            if not self._registered:
                holder = HOLDERS.named(HOLDERS.row(self._lock.record))
                connection.execute(SQL["add_holder"], holder)
            refused = [_write(connection, commit, self._sealing) for commit in commits]
            if all(refused):
                connection.execute("ROLLBACK")
            else:
                committing = True
                connection.execute("COMMIT")
                self._registered = True
        except BaseException as error:
            raise self._broken_off(error, committing=committing) from error
        return refused

    def _writer(self) -> sqlite3.Connection:
        """The writer, outside of any transaction: an interrupt may have left it in one."""
        try:
            connection = self._connections.connect_writer()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except (sqlite3.Error, StoreError) as error:
            raise _Failed(error) from error
        return connection

    def _broken_off(self, error: BaseException, *, committing: bool) -> _Failed:
        """Roll back, and say what an error means. An interrupt goes on its way."""
        self._sealing.forget()
        writer = self._connections.writer
        try:
            if writer.connection is not None and writer.connection.in_transaction:
                writer.connection.execute("ROLLBACK")
        except sqlite3.Error:
            writer.close()
        if not isinstance(error, Exception):
            raise error
        # What Python itself refuses has not reached SQLite.
        from_sqlite = isinstance(error, sqlite3.Error | MemoryError)
        if committing and from_sqlite and primary_code(error) not in _NOTHING_IS_DURABLE:
            return _InDoubt(error)
        return _Failed(error)

    def _resolve(
        self, commits: Sequence[Commit], error: BaseException
    ) -> list[BaseException | None]:
        """After an ambiguous COMMIT: reopen, force what is visible to disk, repeat each once.

        A failed fsync may have dropped pages that reads still see, and the next fsync would not
        say so. Moving them into the main file writes them again before anybody believes them.
        """
        try:
            self._connections.writer.close()
            writer = self._connections.connect_writer()
            busy = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            if busy:
                raise sqlite3.OperationalError("the log is in use by another process")
        except (sqlite3.Error, StoreError) as again:
            return [self._unknown(error, again) for _ in commits]
        return [self._repeat(commit, error) for commit in commits]

    def _repeat(self, commit: Commit, error: BaseException) -> BaseException | None:
        try:
            return self._transaction([commit])[0]
        except _Failed as again:
            return self._unknown(error, again)

    def _unknown(self, error: BaseException, again: BaseException) -> CommitUnknown:
        return CommitUnknown(
            f"A commit to {self.location} failed ({error}; then {again}). It may or may not be "
            "durable, and nothing was done on the strength of it. Repair the disk and open the run "
            "again: what is in doubt will be reconciled."
        )


class _Failed(Exception):
    """A transaction failed before COMMIT; nothing of it is durable."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class _InDoubt(_Failed):
    """COMMIT itself failed; the transaction may or may not be durable."""


def _write(
    connection: sqlite3.Connection, commit: Commit, sealing: Sealing
) -> BaseException | None:
    """Write one member of a batch; or say why it is refused, and then nothing was written."""
    statement = quick(commit)
    if statement is not None and write_quickly(connection, commit, statement, sealing):
        return None
    return plan.write(connection, commit, sealing)


def inode_at(path: str) -> tuple[int, int] | None:
    """What tells a file from another one at the same path; text, for this is in every commit."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
