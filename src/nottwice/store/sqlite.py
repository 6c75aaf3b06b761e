"""The embedded ledger: SQLite in WAL mode, synchronous=FULL, one file on a local disk (B1).

Promises kept here: P5, P6, P7, and P10 (a commit that returned survives power loss). FULL is read
back after it was set, because one fsync error leaves WAL silently off, and with NORMAL most
power cuts re-fire an effect. A COMMIT that fails is ambiguous: the connection is closed, what is
visible is forced to disk, and the same commit is repeated, which changes nothing if it was there.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import logging
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from nottwice.errors import (
    CommitUnknown,
    LedgerCorrupt,
    NoLedger,
    NottwiceError,
    SchemaTooNew,
    StoreError,
)
from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.review import AuditEntry, Evidence, Review
from nottwice.model.run import HolderRecord, Life, RunRecord, StepRecord
from nottwice.store import locks, rows
from nottwice.store.filesystem import check_filesystem
from nottwice.store.interface import Blocked, Commit, Outdated
from nottwice.store.shared import SharedCommits
from nottwice.store.sqlite_writes import BLOCKING_REVIEWS, plan, quick

SCHEMA_VERSION = 1
APPLICATION_ID = 0x6E6F7432
BUSY_SECONDS = 30.0
_OPENING_PLACE = (1 << 62) + 1

log = logging.getLogger("nottwice")
_abandoned: list[sqlite3.Connection] = []

_CALLS = "SELECT " + rows.CALL_COLUMNS + " FROM tool_call_results WHERE workflow_id = ?"
_CALL = _CALLS + " AND node_id = ? AND checkpoint_id = ? AND tool_name = ? AND input_hash = ?"
_CALLS_IN_ORDER = _CALLS + " ORDER BY created_at, rowid"
_CALLS_IN_DOUBT = _CALLS + " AND status IN ('PENDING', 'UNKNOWN') ORDER BY created_at, rowid"
_CALLS_UNDER = _CALLS + " AND node_id >= ? AND node_id < ? ORDER BY created_at, rowid"
_KEY_USE = (
    "SELECT " + rows.CALL_COLUMNS + " FROM tool_call_results"
    " WHERE tool_name = ? AND idempotency_key = ? ORDER BY created_at DESC LIMIT 1"
)
_RUN = "SELECT " + rows.RUN_COLUMNS + " FROM runs WHERE workflow_id = ?"
_RUNS = (
    "SELECT " + rows.RUN_COLUMNS + " FROM runs WHERE substr(workflow_id, 1, length(?1)) = ?1"
    " ORDER BY updated_at DESC LIMIT ?2"
)
_STEPS = "SELECT " + rows.STEP_COLUMNS + " FROM steps WHERE workflow_id = ?"
_STEP = _STEPS + " AND node_id = ? AND checkpoint_id = ?"
_STEPS_IN_ORDER = _STEPS + " ORDER BY ordinal"
_REVIEWS = "SELECT " + rows.REVIEW_COLUMNS + " FROM reviews"
_REVIEW = _REVIEWS + " WHERE review_id = ?"
_REVIEWS_OF_RUN = _REVIEWS + " WHERE workflow_id = ? ORDER BY opened_at, review_id"
_ALL_REVIEWS = _REVIEWS + " ORDER BY opened_at, review_id"
_ALL_OPEN_REVIEWS = _REVIEWS + " WHERE status IN ('open', 'decided') ORDER BY opened_at, review_id"
_FIND_REVIEWS = _REVIEWS + " WHERE substr(review_id, 1, length(?1)) = ?1 ORDER BY review_id"
_EVIDENCE = (
    "SELECT " + rows.EVIDENCE_COLUMNS + " FROM evidence"
    " WHERE workflow_id = ?1 AND (?2 IS NULL OR call_id = ?2) ORDER BY at, rowid"
)
_AUDIT = (
    "SELECT " + rows.AUDIT_COLUMNS + " FROM audit"
    " WHERE ?1 IS NULL OR workflow_id = ?1 ORDER BY at, rowid"
)
_HOLDER = "SELECT " + rows.HOLDER_COLUMNS + " FROM holders WHERE holder_id = ?"
_ADD_HOLDER = "INSERT INTO holders VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"


class SqliteStore:
    """A ledger in one SQLite file."""

    _pid: int
    _lock: locks.HolderLock
    _shared: SharedCommits
    _registered: bool
    _write_guard: threading.Lock
    _writer: sqlite3.Connection | None
    _readers: deque[sqlite3.Connection]

    def __init__(self, path: str | Path, *, now: float, create: bool = True) -> None:
        self._path = Path(path).expanduser().resolve()
        self.location = str(self._path)
        self._now = now
        self._prepare(create=create)
        log.info("ledger opened at %s", self.location)

    def commit(self, commit: Commit) -> None:
        self._in_this_process()
        self._shared.commit(commit)

    def commit_soon(self, commit: Commit) -> Future[None]:
        self._in_this_process()
        return self._shared.commit_soon(commit)

    def holder(self) -> HolderRecord:
        self._in_this_process()
        record = self._lock.record
        if not self._registered:
            with self._write_guard:
                try:
                    self._open_writer().execute(_ADD_HOLDER, rows.holder_to_sql(record))
                except sqlite3.Error as error:
                    raise self._store_error(error) from error
            self._registered = True
        return record

    def load_holder(self, holder_id: str) -> HolderRecord | None:
        found = self._read(_HOLDER, (holder_id,))
        return rows.holder_from_sql(found[0]) if found else None

    def life_of(self, holder_id: str) -> Life:
        record = self.load_holder(holder_id)
        return self._lock.life_of(record)

    def load_run(self, workflow_id: str) -> RunRecord | None:
        found = self._read(_RUN, (workflow_id,))
        return rows.run_from_sql(found[0]) if found else None

    def load_call(self, identity: CallIdentity) -> CallRow | None:
        found = self._read(_CALL, identity.axes())
        return rows.call_from_sql(found[0]) if found else None

    def load_step(self, workflow_id: str, node_id: str, checkpoint_id: str) -> StepRecord | None:
        found = self._read(_STEP, (workflow_id, node_id, checkpoint_id))
        return rows.step_from_sql(found[0]) if found else None

    def load_review(self, review_id: str) -> Review | None:
        found = self._read(_REVIEW, (review_id,))
        return rows.review_from_sql(found[0]) if found else None

    def calls(self, workflow_id: str) -> list[CallRow]:
        return [rows.call_from_sql(row) for row in self._read(_CALLS_IN_ORDER, (workflow_id,))]

    def calls_in_doubt(self, workflow_id: str) -> list[CallRow]:
        return [rows.call_from_sql(row) for row in self._read(_CALLS_IN_DOUBT, (workflow_id,))]

    def calls_under(self, workflow_id: str, node_id: str) -> list[CallRow]:
        found = self._read(_CALLS_UNDER, (workflow_id, node_id, node_id + "\U0010ffff"))
        inside = (node_id, node_id + "/", node_id + "[")
        return [
            rows.call_from_sql(row)
            for row in found
            if row[1] == node_id or row[1].startswith(inside[1:])
        ]

    def steps(self, workflow_id: str) -> list[StepRecord]:
        return [rows.step_from_sql(row) for row in self._read(_STEPS_IN_ORDER, (workflow_id,))]

    def last_use_of_key(self, tool_name: str, key: str) -> CallRow | None:
        found = self._read(_KEY_USE, (tool_name, key))
        return rows.call_from_sql(found[0]) if found else None

    def runs(self, *, limit: int | None = None, prefix: str = "") -> list[RunRecord]:
        found = self._read(_RUNS, (prefix, -1 if limit is None else limit))
        return [rows.run_from_sql(row) for row in found]

    def reviews(self, workflow_id: str | None = None) -> list[Review]:
        if workflow_id is None:
            return [rows.review_from_sql(row) for row in self._read(_ALL_REVIEWS, ())]
        return [rows.review_from_sql(row) for row in self._read(_REVIEWS_OF_RUN, (workflow_id,))]

    def open_reviews(self, workflow_id: str | None = None) -> list[Review]:
        if workflow_id is None:
            return [rows.review_from_sql(row) for row in self._read(_ALL_OPEN_REVIEWS, ())]
        return [rows.review_from_sql(row) for row in self._read(BLOCKING_REVIEWS, (workflow_id,))]

    def find_reviews(self, prefix: str) -> list[Review]:
        return [rows.review_from_sql(row) for row in self._read(_FIND_REVIEWS, (prefix,))]

    def evidence(self, workflow_id: str, call_id: str | None = None) -> list[Evidence]:
        found = self._read(_EVIDENCE, (workflow_id, call_id))
        return [rows.evidence_from_sql(row) for row in found]

    def audit(self, workflow_id: str | None = None) -> list[AuditEntry]:
        return [rows.audit_from_sql(row) for row in self._read(_AUDIT, (workflow_id,))]

    def close(self) -> None:
        """Close the files. What was reported durable stays so; a later use opens them again."""
        if self._pid != os.getpid():
            return
        self._shared.close()
        with self._write_guard:
            while self._readers:
                self._readers.pop().close()
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    # Opening

    def _prepare(self, *, create: bool) -> None:
        warning = check_filesystem(self._path)
        if warning:
            log.warning(warning)
        self._create_file(create=create)
        self._pid = os.getpid()
        self._writer = None
        self._readers = deque()
        self._write_guard = threading.Lock()
        self._registered = False
        self._shared = SharedCommits(self._commit_many)
        lock_path = self._path.with_name(self._path.name + ".holders")
        try:
            self._lock = locks.hold(lock_path, now=self._now)
            with self._lock.exclusively(_OPENING_PLACE):
                _migrate(self._open_writer(), self.location)
                _check_durable(self._open_writer(), self.location)
        except (sqlite3.Error, OSError) as error:
            raise self._store_error(error) from error

    def _create_file(self, *, create: bool) -> None:
        if self._path.exists():
            return
        if not create:
            raise NoLedger(
                f"There is no ledger at {self.location}. Nothing was created. Name another with "
                "--store PATH or NOTTWICE_STORE."
            )
        try:
            descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            os.close(descriptor)
        except FileExistsError:
            pass
        except OSError as error:
            raise StoreError(
                f"The ledger {self.location} could not be created ({error.strerror}). Nothing "
                "was opened. Create its folder, or choose another place."
            ) from error

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA synchronous = FULL")
        # macOS only: its fsync does not reach the disk. Elsewhere these do nothing.
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        return connection

    def _open_writer(self) -> sqlite3.Connection:
        if self._writer is None:
            self._writer = self._connect()
        return self._writer

    def _in_this_process(self) -> None:
        """After a fork, open anew: a SQLite connection must not cross, nor be closed there."""
        if self._pid != os.getpid():
            _abandoned.extend(self._readers)
            if self._writer is not None:
                _abandoned.append(self._writer)
            self._prepare(create=False)

    # Reading

    def _read(self, sql: str, parameters: Sequence[Any]) -> list[Any]:
        self._in_this_process()
        try:
            try:
                connection = self._readers.pop()
            except IndexError:
                connection = self._connect()
            found = connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._store_error(error) from error
        self._readers.append(connection)
        return found

    # Writing

    def _commit_many(self, commits: Sequence[Commit]) -> Sequence[BaseException | None]:
        with self._write_guard:
            try:
                if len(commits) == 1 and self._single_statement(commits[0]):
                    return [None]
                return self._transaction(commits)
            except _InDoubt as doubt:
                return self._resolve(commits, doubt.error)
            except _Failed as failed:
                if len(commits) == 1:
                    return [self._store_error(failed.error)]
                # The batch is rolled back whole; each member repeats alone.
                return [self._alone(commit) for commit in commits]

    def _single_statement(self, commit: Commit) -> bool:
        """A transaction of one statement, which needs no BEGIN; False: nothing was written."""
        statement = quick(commit)
        if statement is None:
            return False
        try:
            return self._open_writer().execute(*statement).rowcount == 1
        except sqlite3.Error as error:
            self._roll_back()
            raise _failed_or_in_doubt(error) from error

    def _transaction(self, commits: Sequence[Commit]) -> list[BaseException | None]:
        """One transaction for all members; those whose preconditions fail write nothing."""
        connection = self._open_writer()
        refused: list[BaseException | None] = []
        try:
            connection.execute("BEGIN IMMEDIATE")
            for commit in commits:
                try:
                    statement = quick(commit)
                    if statement is not None and connection.execute(*statement).rowcount == 1:
                        refused.append(None)
                        continue
                    statements = plan(connection, commit)
                except (NottwiceError, Blocked, Outdated) as refusal:
                    refused.append(refusal)
                    continue
                for sql, parameters in statements:
                    connection.execute(sql, parameters)
                refused.append(None)
        except sqlite3.Error as error:
            self._roll_back()
            raise _Failed(error) from error
        except BaseException:
            self._roll_back()
            raise
        if all(refused):
            self._roll_back()
            return refused
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise _failed_or_in_doubt(error) from error
        return refused

    def _alone(self, commit: Commit) -> BaseException | None:
        try:
            return self._transaction([commit])[0]
        except _InDoubt as doubt:
            return self._resolve([commit], doubt.error)[0]
        except _Failed as failed:
            return self._store_error(failed.error)

    def _resolve(
        self, commits: Sequence[Commit], error: sqlite3.Error
    ) -> list[BaseException | None]:
        """After an ambiguous COMMIT: reopen, force what is visible to disk, repeat each once.

        A failed fsync may have dropped pages that reads still see, and the next fsync would not
        say so. Moving them into the main file writes them again before anybody believes them.
        """
        try:
            with contextlib.suppress(sqlite3.Error):
                self._open_writer().close()
            self._writer = None
            writer = self._open_writer()
            _check_durable(writer, self.location)
            busy = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            if busy:
                raise sqlite3.OperationalError("the log is in use by another process")
            return [self._transaction([commit])[0] for commit in commits]
        except (sqlite3.Error, StoreError, _Failed, _InDoubt) as again:
            text = (
                f"A commit to {self.location} failed ({error}; then {again}). It may or may not "
                "be durable. No effect was fired because of it, and none will be reported. Repair "
                "the disk and open the run again: what is in doubt will be reconciled."
            )
            return [CommitUnknown(text) for _ in commits]

    def _roll_back(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            if self._writer is not None and self._writer.in_transaction:
                self._writer.execute("ROLLBACK")

    def _store_error(self, error: BaseException) -> StoreError:
        if isinstance(error, StoreError):
            return error
        text = f"The ledger {self.location} could not be used ({error}). Nothing was written."
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_FULL:
            return StoreError(f"{text} Free some disk space, then open the run again.")
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return LedgerCorrupt(f"{text} It is damaged or no ledger; restore it from a backup.")
        return StoreError(text)


class _Failed(Exception):
    """A transaction failed before COMMIT; nothing of it is durable."""

    def __init__(self, error: sqlite3.Error) -> None:
        super().__init__(str(error))
        self.error = error


class _InDoubt(_Failed):
    """COMMIT itself failed; the transaction may or may not be durable."""


def _failed_or_in_doubt(error: sqlite3.Error) -> _Failed:
    if error.sqlite_errorcode in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY):
        # Nothing reached the log: the commit record is the last thing written.
        return _Failed(error)
    return _InDoubt(error)


def _migrate(connection: sqlite3.Connection, location: str) -> None:
    """Bring the schema forward, one numbered file at a time, each in a transaction of its own."""
    connection.execute("PRAGMA journal_mode = WAL")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise SchemaTooNew(
            f"{location} has schema version {version}; this nottwice knows {SCHEMA_VERSION}. "
            "Nothing was changed. Upgrade nottwice here, too."
        )
    if version == 0:
        _check_empty(connection, location)
    folder = importlib.resources.files("nottwice.store") / "sql" / "sqlite"
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        number = int(file.name[:4])
        if number <= version:
            continue
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in _statements(file.read_text(encoding="utf-8")):
                connection.execute(statement)
            # A pragma takes no parameters; both numbers are our own constants.
            connection.execute("PRAGMA application_id = " + str(APPLICATION_ID))
            connection.execute("PRAGMA user_version = " + str(number))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _check_empty(connection: sqlite3.Connection, location: str) -> None:
    if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        raise StoreError(
            f"{location} is a SQLite database, but not a nottwice ledger. Nothing was changed. "
            "Choose another file."
        )


def _statements(script: str) -> list[str]:
    """The statements of a script, since executescript() would commit on its own."""
    found, current = [], ""
    for line in script.splitlines():
        current += line + "\n"
        if sqlite3.complete_statement(current):
            found.append(current)
            current = ""
    return found


def _check_durable(connection: sqlite3.Connection, location: str) -> None:
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    level = connection.execute("PRAGMA synchronous").fetchone()[0]
    if (mode, level) != ("wal", 2):
        raise StoreError(
            f"{location} opened with journal_mode={mode} and synchronous={level} instead of wal "
            "and 2 (FULL), so a power cut could lose receipts. Nothing was opened. Check the disk."
        )
