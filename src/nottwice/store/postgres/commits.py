"""How do commits become durable on PostgreSQL, and what happens if the connection breaks?

A usual commit is one statement, which is a transaction by itself and takes one round trip. Others
take two: read and lock, then write. Commits of many runs share a transaction. If the connection
breaks before the last message to the server, nothing was changed and the commit is tried again. If
it breaks after that, the commit is in doubt: the same commit is repeated alone on a new connection
until it is answered. If it is never answered, the result is CommitUnknown. Promises kept here: P5,
P7, P56.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import psycopg

from nottwice.errors import CommitUnknown, NottwiceError
from nottwice.store.interface import Commit, Outdated
from nottwice.store.postgres.batch import Fast, arrange
from nottwice.store.postgres.connections import (
    ConnectionLost,
    PostgresConnections,
    patiently,
    store_error,
    together,
)
from nottwice.store.postgres.failover import Elsewhere, Witness
from nottwice.store.postgres.plan import PostgresPlan, once
from nottwice.store.postgres.schema import commits_may_be_lost, in_schema
from nottwice.store.postgres.statements import SQL, storable
from nottwice.store.postgres.visits import visit
from nottwice.store.sealing import Sealing
from nottwice.store.sql_plan import Outcome
from nottwice.store.statements import Statement
from nottwice.store.tables import AUDIT
from nottwice.store.visits import VisitCommit

log = logging.getLogger("nottwice")
MOST_REPETITIONS = 5

# Another process was faster, or two waited for each other: nothing was written, so try again.
_WORTH_REPEATING = (
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.UniqueViolation,
)


class Commits:
    """Makes commits durable for all threads of this process."""

    def __init__(
        self,
        connections: PostgresConnections,
        *,
        patience_seconds: float,
        busy_seconds: float,
        sealing: Sealing,
        witness: Witness,
        look: Callable[[], None],
    ) -> None:
        """``look``: examine a server that ``witness`` does not know."""
        self._connections = connections
        self._place = connections.place
        self._patience_seconds = patience_seconds
        self._busy_seconds = busy_seconds
        self._sealing = sealing
        self._witness = witness
        self._look = look

    def commit_many(self, commits: Sequence[Commit]) -> list[Outcome]:
        """One transaction for all, if possible. Durable: each commit whose outcome is None."""
        if any(isinstance(commit, VisitCommit) for commit in commits):
            return self._with_visits(commits)
        if len(commits) == 1:
            return [self._alone(commits[0])]
        try:
            outcomes = self._transaction(commits)
        except _InDoubt as doubt:
            return [self._resolve(commit, doubt) for commit in commits]
        except _NothingWritten:
            # The database refused one of them. Each is tried alone.
            return [self._alone(commit) for commit in commits]
        together_with_all = zip(commits, outcomes, strict=True)
        return [self._alone(one) if said is _LOOK else said for one, said in together_with_all]

    def _with_visits(self, commits: Sequence[Commit]) -> list[Outcome]:
        """The same if adapters are among the callers. Each visit is a transaction by itself."""
        others = [commit for commit in commits if not isinstance(commit, VisitCommit)]
        told = iter(self.commit_many(others) if others else [])
        return [
            visit(commit, self._connections, self._witness, self._look, self._patience_seconds)
            if isinstance(commit, VisitCommit)
            else next(told)
            for commit in commits
        ]

    def _alone(self, commit: Commit) -> Outcome:
        """One commit, repeated while nothing of it is durable and other commits are in its way."""
        quickly, left = True, MOST_REPETITIONS
        while True:
            try:
                outcome = self._transaction([commit], quickly=quickly)[0]
            except _InDoubt as doubt:
                return self._resolve(commit, doubt)
            except _NothingWritten as failed:
                left -= 1
                if quickly and isinstance(failed.error, psycopg.errors.UndefinedFunction):
                    # The functions do not exist yet. The slower way does not need them.
                    quickly = False
                    continue
                if not left or not isinstance(failed.error, _WORTH_REPEATING):
                    return _said(failed.error) or store_error(failed.error, self._place)
                continue
            if outcome is not _LOOK:
                return outcome
            quickly = False

    def _resolve(self, commit: Commit, doubt: _InDoubt) -> Outcome:
        """After an ambiguous COMMIT: the same commit again, on a new connection.

        If the lost transaction is still active on the server, it holds the locks that this one
        waits for. So the outcome is final, and not just what was visible at some moment.
        """
        log.warning("repeating a commit to %s, because its answer was lost", self._place.location)
        last: BaseException = doubt.error
        for _ in range(MOST_REPETITIONS):
            try:
                outcome = self._transaction([commit], quickly=False)[0]
            except _InDoubt as again:
                last = again.error
            except _NothingWritten as failed:
                last = failed.error
                if not isinstance(last, _WORTH_REPEATING):
                    break
            else:
                if isinstance(outcome, Outdated) and self._is_on_record(commit):
                    return None
                return outcome
        told = self._place.hide_secrets(" ".join(f"{doubt.error}; then {last}".split()))
        return CommitUnknown(
            f"The connection to {self._place.location} broke during a commit ({told}). It may or "
            "may not be durable, and nottwice did not act on it. When the database is back, open "
            "the run again: calls in doubt will be reconciled."
        )

    def _is_on_record(self, commit: Commit) -> bool:
        """Whether an outdated commit was applied before: its audit entries are in the ledger."""
        if not commit.audit:
            return False
        onces = sorted({once(AUDIT, AUDIT.row(entry)) for entry in commit.audit})
        sql = in_schema(SQL["known_audit"], self._place.schema)
        asked = {"workflow_id": commit.workflow_id, "onces": onces}

        def count() -> int:
            with self._connections.use() as connection:
                found = connection.execute(sql, asked).fetchone()
                return 0 if found is None else int(found[0])

        try:
            return patiently(count, patience_seconds=self._patience_seconds) == len(onces)
        except (ConnectionLost, psycopg.Error):
            return False

    def _transaction(self, commits: Sequence[Commit], *, quickly: bool = True) -> list[Outcome]:
        """One transaction. _LOOK for a member that wrote nothing and must be tried alone."""
        # A new head depends on rows that were read, so a sealed commit takes the slower way.
        quickly = quickly and self._sealing.seals is None
        fast, slow = arrange(commits) if quickly else ([], list(range(len(commits))))
        planned = [commits[number] for number in slow]
        try:
            told, written = patiently(
                lambda: self._here_or_look(fast, planned), patience_seconds=self._patience_seconds
            )
        except (ConnectionLost, psycopg.Error, UnicodeEncodeError, NottwiceError) as error:
            raise _NothingWritten(error) from error
        outcomes: list[Outcome] = [None] * len(commits)
        for number, outcome in zip(slow, told, strict=True):
            outcomes[number] = outcome
        for number, is_written in written:
            outcomes[number] = None if is_written else _LOOK
        return outcomes

    def _here_or_look(
        self, fast: Sequence[Fast], commits: Sequence[Commit]
    ) -> tuple[list[Outcome], list[tuple[int, bool]]]:
        """Try a transaction. If this process does not know the server, examine it first."""
        try:
            return self._once(fast, commits)
        except Elsewhere:
            self._look()
        try:
            return self._once(fast, commits)
        except Elsewhere as again:
            # The address leads to several servers in turn.
            raise ConnectionLost(again) from again

    def _once(
        self, fast: Sequence[Fast], commits: Sequence[Commit]
    ) -> tuple[list[Outcome], list[tuple[int, bool]]]:
        """Try a transaction once. Returns the outcome of each of ``commits``, and for the members
        of ``fast`` whether they were written.

        ConnectionLost: nothing is durable. _InDoubt: the connection broke after the last message.
        """
        last_words = False
        told: list[Outcome] = []
        writes: list[Statement] = []
        server = self._witness.server
        statements = [(sql, (server, *given)) for sql, given in (one.statement for one in fast)]
        try:
            with self._connections.use() as connection:
                if commits:
                    schema, busy_seconds = self._place.schema, self._busy_seconds
                    plan = PostgresPlan(
                        commits,
                        schema=schema,
                        busy_seconds=busy_seconds,
                        sealing=self._sealing,
                        server=server,
                    )
                    plan.hear(together(connection, self._here(plan.reads)))
                    if not plan.is_here:
                        connection.execute("ROLLBACK")
                        raise Elsewhere("another server, or one that has restarted")
                    if plan.synchronous_commit == "off":
                        raise commits_may_be_lost(self._place)
                    told, writes = plan.outcomes()
                    if not writes and not statements:
                        connection.execute("ROLLBACK")
                        return told, []
                elif len(statements) > 1:
                    writes = [(SQL["begin"], ())]
                last_words = True
                if not commits and len(statements) == 1:
                    ((sql, parameters),) = self._here(statements)
                    return [], fast[0].written(connection.execute(sql, parameters))
                sent = self._here([*writes, *statements, ("COMMIT", ())])
                cursors = together(connection, sent)[len(writes) : -1]
                answered = zip(fast, cursors, strict=True)
                return told, [each for one, cursor in answered for each in one.written(cursor)]
        except ConnectionLost as lost:
            self._sealing.forget()
            if last_words:
                raise _InDoubt(lost.error) from lost
            raise
        except BaseException:
            self._sealing.forget()
            raise

    def _here(self, statements: Sequence[Statement]) -> list[Statement]:
        schema = self._place.schema
        return [(in_schema(sql, schema), storable(given)) for sql, given in statements]


class _NothingWritten(Exception):
    """A transaction failed. Nothing of it is durable."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class _InDoubt(Exception):
    """The connection broke after the last message. The transaction may or may not be durable."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


_LOOK = Outdated("it wrote nothing and must be tried alone")


def _said(error: BaseException) -> NottwiceError | None:
    """An error that already says what happened."""
    return error if isinstance(error, NottwiceError) else None
