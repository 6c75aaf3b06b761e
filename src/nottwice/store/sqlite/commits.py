"""How does a commit become durable on SQLite, and what happens if it does not?

Every commit is one transaction, made while this process has the turn, so that no other nottwice
process writes. A COMMIT that fails is ambiguous: the connection is closed, what is visible is
forced to disk, and the same commit is repeated, which changes nothing if it was durable. Before and
after a commit, the open files must be those that other processes find. Promises kept here: P5, P7,
P110, P111.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from nottwice.errors import CommitUnknown, StoreError
from nottwice.store.interface import Commit
from nottwice.store.machine import locks
from nottwice.store.sealing import Sealing
from nottwice.store.sqlite import locks as sqlite_locks
from nottwice.store.sqlite import plan
from nottwice.store.sqlite.connections import (
    SqliteConnections,
    check_fresh,
    primary_code,
    store_error,
)
from nottwice.store.sqlite.lost import Acknowledged, stop_using
from nottwice.store.sqlite.quick import quick, write_quickly
from nottwice.store.sqlite.statements import SQL
from nottwice.store.statements import Statement
from nottwice.store.tables import HOLDERS
from nottwice.store.visits import VisitCommit

# Errors that SQLite raises before the last page of a transaction is in the log. After any other
# error of a COMMIT, the transaction may or may not come back after a crash.
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


class SqliteCommits:
    """The writing part of a ledger on SQLite."""

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
                # SQLite would keep writing to a file that no other process can find.
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
                        was_removed = not files.in_place()
                        outcomes = [] if was_removed else self._commit_in_turn(commits)
                    finally:
                        files.end_turn()
                if was_removed:
                    return [self._log_removed(files) for _ in commits]
                if files.in_place():
                    self._acknowledged.note(commits, outcomes)
                    return outcomes
            except (sqlite3.Error, OSError, UnicodeDecodeError, StoreError) as error:
                return [store_error(error, self.location) for _ in commits]
            return self._lost(commits, files)

    def _gone(self, commits: Sequence[Commit], *, replaced: bool) -> list[BaseException | None]:
        """Refuse commits because the ledger that was opened is not at its path any more."""
        what_next = "Put the file back, or look up what happened before you run anything again."
        writer = self._connections.writer
        if replaced and writer.connection is not None:
            what_next = stop_using(writer.files, self._acknowledged)
        text = (
            f"The ledger {self.location} was deleted or replaced while it was in use. Nothing was "
            f"written, and what this process has seen since is not on record. {what_next}"
        )
        return [StoreError(text) for _ in commits]

    def _log_removed(self, files: sqlite_locks.LedgerFiles) -> StoreError:
        """Refuse a commit into an old log, which would also be moved into the ledger when full."""
        return StoreError(
            f"The log of the ledger {self.location} was removed while this process used it. "
            "Nothing was written, and this process cannot use the ledger any more. "
            f"{stop_using(files, self._acknowledged)}"
        )

    def _lost(
        self, commits: Sequence[Commit], files: sqlite_locks.LedgerFiles
    ) -> list[BaseException | None]:
        """Report that a commit went to a log that no other process can find."""
        text = (
            f"The log of the ledger {self.location} was removed while this process wrote to it, so "
            "this commit may or may not be durable, and nottwice did not act on it. "
            f"This process cannot use the ledger any more. {stop_using(files, self._acknowledged)}"
        )
        return [CommitUnknown(text) for _ in commits]

    def _commit_in_turn(self, commits: Sequence[Commit]) -> Sequence[BaseException | None]:
        if len(commits) == 1:
            return [self._alone(commits[0])]
        try:
            return self._transaction(commits)
        except _InDoubt as doubt:
            return self._resolve(commits, doubt.error)
        except _Failed as failed:
            if primary_code(failed.error) == sqlite3.SQLITE_BUSY:
                # All members have waited long enough. Each alone would wait as long again.
                return [store_error(failed.error, self.location) for _ in commits]
            # The whole batch was rolled back. Each member is repeated alone.
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
        """Execute a transaction of one statement, without BEGIN; False if nothing was written."""
        connection = self._connections.writer.connection
        if connection is None or connection.in_transaction:
            connection = self._writer()
        try:
            return connection.execute(*statement).rowcount == 1
        except BaseException as error:
            raise self._broken_off(error, committing=True) from error

    def _transaction(self, commits: Sequence[Commit]) -> list[BaseException | None]:
        """One transaction for all members. Members whose preconditions fail write nothing.

        The first transaction of a process also writes its record as a holder, so that other
        processes can look up every holder that a run names.
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
        """The writer, outside of any transaction. An interrupt may have left it in one."""
        try:
            connection = self._connections.connect_writer()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except (sqlite3.Error, StoreError) as error:
            raise _Failed(error) from error
        return connection

    def _broken_off(self, error: BaseException, *, committing: bool) -> _Failed:
        """Roll back, and return what an error means. An interrupt is raised again."""
        self._sealing.forget()
        writer = self._connections.writer
        try:
            if writer.connection is not None and writer.connection.in_transaction:
                writer.connection.execute("ROLLBACK")
        except sqlite3.Error:
            writer.close()
        if not isinstance(error, Exception):
            raise error
        # An error raised by Python itself means that nothing reached SQLite.
        from_sqlite = isinstance(error, sqlite3.Error | MemoryError)
        if committing and from_sqlite and primary_code(error) not in _NOTHING_IS_DURABLE:
            return _InDoubt(error)
        return _Failed(error)

    def _resolve(
        self, commits: Sequence[Commit], error: BaseException
    ) -> list[BaseException | None]:
        """After an ambiguous COMMIT: reopen, force what is visible to disk, repeat each once.

        A failed fsync may have dropped pages that reads still see, and the next fsync would not
        report it. Moving the pages into the main file writes them again before they are trusted.
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
            "durable, and nottwice did not act on it. Repair the disk and open the run again: "
            "calls in doubt will be reconciled."
        )


class _Failed(Exception):
    """A transaction failed before COMMIT. Nothing of it is durable."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class _InDoubt(_Failed):
    """COMMIT itself failed. The transaction may or may not be durable."""


def _write(
    connection: sqlite3.Connection, commit: Commit, sealing: Sealing
) -> BaseException | None:
    """Write one member of a batch, or return why it is refused. A refused one writes nothing."""
    if isinstance(commit, VisitCommit):
        commit.work(lambda sql, given: connection.execute(sql, given).fetchall())
        return None
    statement = quick(commit)
    if statement is not None and write_quickly(connection, commit, statement, sealing):
        return None
    return plan.write(connection, commit, sealing)


def inode_at(path: str) -> tuple[int, int] | None:
    """The identity of the file at a path. The path is a text, because every commit calls this."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
