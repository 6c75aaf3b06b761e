"""Engines and stores that are wrong about who may write, who lives, and what is durable."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Sequence
from typing import Any

from nottwice.engine.asks import Doing
from nottwice.engine.calls import attempt as attempts
from nottwice.engine.calls import dispatch
from nottwice.engine.doubts import reconcile
from nottwice.errors import OwnershipLost, StoreError
from nottwice.model.run import Life
from nottwice.store import rules
from nottwice.store.interface import Commit
from nottwice.store.machine import locks, process_table
from nottwice.store.machine.ofd import ByteLocks
from nottwice.store.sealing import Sealing
from nottwice.store.shared import SharedCommits
from nottwice.store.sqlite import commits as sqlite_commits
from nottwice.store.sqlite import connections as sqlite_connections
from nottwice.store.sqlite import store as sqlite
from nottwice.store.sqlite.connections import Slot, SqliteConnections
from nottwice.store.sqlite.store import SqliteStore
from tests.crash.controls.agents import LONG_BRANCHES, MAILS, NOTING
from tests.crash.controls.control import Control, swap


def no_fence() -> None:
    whole = rules._check_fence

    def broken(data: rules.MemoryData, commit: Commit) -> None:
        with contextlib.suppress(OwnershipLost):
            whole(data, commit)

    swap(rules, "_check_fence", broken)
    # The quick way carries its fence inside its statement.
    swap(sqlite_commits, "quick", lambda commit: None)


def the_living_are_taken_for_dead() -> None:
    def broken(self: SqliteStore, holder_id: str) -> Life:
        return Life.ALIVE if self.holder().holder_id == holder_id else Life.DEAD

    swap(SqliteStore, "life_of", broken)


def the_lock_is_let_go_while_an_attempt_runs() -> None:
    """On a system without a process table to fall back on."""
    swap(process_table, "life_of", lambda record, *, here: None)
    whole = attempts.attempt

    def broken(*given: Any, **named: Any) -> Doing[Any]:
        for lock, place in _held():
            lock.unlocking(place)()
        try:
            return (yield from whole(*given, **named))
        finally:
            for lock, place in _held():
                lock.take(place)

    swap(dispatch, "attempt", broken)
    swap(reconcile, "attempt", broken)


def _held() -> list[tuple[ByteLocks, int]]:
    held = locks._held.values()
    return [(lock._bytes, locks._place_of(lock.record.holder_id)) for lock in held]


def a_failed_commit_is_taken_for_done() -> None:
    """Whatever the disk says about a COMMIT, every caller is told that it succeeded."""
    whole = SqliteStore._transaction

    def broken(self: SqliteStore, commits: Sequence[Commit]) -> list[BaseException | None]:
        try:
            return whole(self, commits)
        except sqlite_commits._Failed:
            return [None for _ in commits]

    swap(SqliteStore, "_transaction", broken)
    swap(sqlite_commits, "quick", lambda commit: None)


def no_sync_with_a_commit() -> None:
    whole = SqliteConnections.connect

    def broken(self: SqliteConnections, slot: Slot) -> sqlite3.Connection:
        connection = whole(self, slot)
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    swap(SqliteConnections, "connect", broken)
    for place in (sqlite, sqlite_connections):
        swap(place, "check_durable", lambda connection, location: None)


def members_of_a_batch_have_savepoints() -> None:
    """On a full disk SQLite rolls the whole batch back, and what follows commits on its own."""
    whole = SqliteStore._commit_many

    def broken(self: SqliteStore, commits: Sequence[Commit]) -> Sequence[BaseException | None]:
        if len(commits) == 1:
            return whole(self, commits)
        with self._connections.writer.guard:
            connection = self._writer()
            # A batch that does not fit into the cache is written before its COMMIT.
            connection.execute("PRAGMA cache_size = 1")
            connection.execute("BEGIN IMMEDIATE")
            outcomes = [_in_a_savepoint(connection, commit) for commit in commits]
            with contextlib.suppress(sqlite3.Error):
                connection.execute("COMMIT")
            return outcomes

    swap(SqliteStore, "_commit_many", broken)
    take = SharedCommits._take_batch

    def take_two_or_more(self: SharedCommits) -> list[Any]:
        # On a busy machine the branches might never commit together by themselves.
        until = time.monotonic() + 1
        while len(self._waiting) < 2 and time.monotonic() < until:
            time.sleep(0.001)
        return take(self)

    swap(SharedCommits, "_take_batch", take_two_or_more)


def _in_a_savepoint(connection: sqlite3.Connection, commit: Commit) -> BaseException | None:
    with contextlib.suppress(sqlite3.Error):
        connection.execute("SAVEPOINT member")
    try:
        refused = sqlite_commits._write(connection, commit, Sealing(None, location="agent.db"))
    except sqlite3.Error as error:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK TO member")
        refused = StoreError(str(error))
    with contextlib.suppress(sqlite3.Error):
        connection.execute("RELEASE member")
    return refused


OWNERS = (
    Control(
        name="writes are not fenced",
        breaks=no_fence,
        agent=MAILS,
        level="takeover",
        invariant="only the holder writes",
    ),
    Control(
        name="a holder that lives is taken for dead",
        breaks=the_living_are_taken_for_dead,
        agent=NOTING,
        level="takeover",
        second=1,
        invariant="no effect twice",
    ),
    Control(
        name="the lock is released while an attempt runs",
        breaks=the_lock_is_let_go_while_an_attempt_runs,
        agent=NOTING,
        level="takeover",
        second=1,
        invariant="no effect twice",
    ),
    Control(
        name="commits are not synced (synchronous=NORMAL)",
        breaks=no_sync_with_a_commit,
        agent=MAILS,
        level="power",
        invariant="no effect twice",
    ),
    Control(
        name="a commit that the disk refused is taken for done",
        breaks=a_failed_commit_is_taken_for_done,
        agent=MAILS,
        level="io",
        invariant="intent before effect",
    ),
    Control(
        name="members of a shared commit have savepoints, and the disk is full",
        breaks=members_of_a_batch_have_savepoints,
        agent=LONG_BRANCHES,
        level="io",
        second=3,
        invariant="intent before effect",
    ),
)
