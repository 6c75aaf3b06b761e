"""The ledger for many processes and machines: PostgreSQL (B3).

Promises kept here: P5, P6, P7, P55, P56.
If a connection breaks around COMMIT, the outcome is unknown. The same commit is then repeated on a
new connection, which changes nothing if the first one was durable. Until it is answered, nothing is
reported, so no effect is fired on an intent that may not exist.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import psycopg

from nottwice.errors import OwnershipLost
from nottwice.model.review import AuditEntry, ReviewKind, ReviewStatus
from nottwice.model.run import HolderRecord, Life
from nottwice.model.sealing.seal import Seals
from nottwice.store import seal_walk
from nottwice.store.claiming import ClaimedRun, ClaimRequest
from nottwice.store.interface import Commit, ReviewWrite, commit_of
from nottwice.store.machine import locks, whereabouts
from nottwice.store.postgres import claims, lease
from nottwice.store.postgres.commits import Commits
from nottwice.store.postgres.connections import (
    ConnectionLost,
    PostgresConnections,
    patiently,
    store_error,
)
from nottwice.store.postgres.failover import Elsewhere, Witness
from nottwice.store.postgres.place import read_place
from nottwice.store.postgres.plan import once
from nottwice.store.postgres.schema import check_durable, in_schema, open_schema
from nottwice.store.postgres.statements import SQL, storable
from nottwice.store.sealing import Sealing
from nottwice.store.shared import SharedCommits
from nottwice.store.sql_store import SqlStore
from nottwice.store.statements import Parameters
from nottwice.store.tables import AUDIT, HOLDERS
from nottwice.store.visits import VisitCommit

T = TypeVar("T")
BUSY_SECONDS = 20.0
PATIENCE_SECONDS = 20.0
"""How long a database may be away, for example during a restart, before that is an error."""

log = logging.getLogger("nottwice")


class PostgresStore(SqlStore):
    """A ledger in one schema of a PostgreSQL database."""

    _pid: int
    _statements = SQL
    _connections: PostgresConnections
    _commits: Commits
    _witness: Witness
    _shared: SharedCommits
    _record: HolderRecord
    _renewal: lease.Renewal | None

    # A table may be locked, and the server may be away.
    reads_can_block = True
    # Unless the ledger turns out to lack the function.
    claims_many = True

    def __init__(
        self,
        url: str,
        *,
        now: float,
        create: bool = True,
        patience_seconds: float = PATIENCE_SECONDS,
        busy_seconds: float = BUSY_SECONDS,
        seals: Seals | None = None,
    ) -> None:
        """Open the ledger at ``url``. ``patience_seconds``: how long the database may be away.
        ``busy_seconds``: how long to wait for other writers. ``seals``: the key to seal and check
        rows with."""
        self._url = url
        self._settle()
        self._now = now
        self._patience_seconds = patience_seconds
        self._busy_seconds = whereabouts.busy_seconds(busy_seconds)
        self._reopening = threading.Lock()
        self._leasing = threading.Lock()
        self._held: set[str] = set()
        self._closed = False
        self._sealing = Sealing(seals, location=self.location)
        self._prepare(create=create)
        _stores.add(self)
        log.info("ledger opened at %s", self.location)
        log.info(self._sealing.describe())

    def commit(self, commit: Commit) -> None:
        self._in_this_process()
        self._shared.commit(commit)

    def commit_soon(self, commit: Commit) -> Future[None]:
        self._in_this_process()
        return self._shared.commit_soon(commit)

    def holder(self) -> HolderRecord:
        self._in_this_process()
        with self._leasing:
            self._closed = False
            if not self._registered:
                self._retrying(self._renew)
                lease_seconds = self._place.lease_seconds
                self._renewal = lease.Renewal(self._renew_lease, lease_seconds=lease_seconds)
                self._renewal.start()
        return self._record

    def load_holder(self, holder_id: str) -> HolderRecord | None:
        record, _ = self._holder(holder_id)
        return record

    def life_of(self, holder_id: str) -> Life:
        record, leased = self._holder(holder_id)
        return lease.life_of(record, leased=leased, here=self._record)

    def lease_left(self, holder_id: str) -> float | None:
        for (left,) in self._ask("lease_left", {"holder_id": holder_id}):
            return max(0.0, float(left))
        return None

    def _holder(self, holder_id: str) -> tuple[HolderRecord | None, bool]:
        """A holder, and whether its lease is still valid."""
        found = self._ask("holder", {"holder_id": holder_id})
        leased = any(is_leased for *_, is_leased in found)
        return HOLDERS.first(found), leased

    def lives(self) -> dict[str, Life]:
        found = self._ask("holders_and_leases", {})
        here = self._record
        return {
            held_by: lease.life_of(
                None if row[0] is None else HOLDERS.record(row), leased=leased, here=here
            )
            for *row, leased, held_by in found
        }

    def claim_ready(self, wanted: ClaimRequest) -> list[ClaimedRun]:
        """See ``Store.claim_ready``. One statement, whatever the number of runs."""
        mine = self.holder()

        def claim() -> list[ClaimedRun]:
            return claims.claim_ready(
                self._connections,
                self._witness,
                wanted,
                holder_id=mine.holder_id,
                has_key=self._sealing.seals is not None,
            )

        try:
            with self._witness.committing:
                try:
                    found = claim()
                except Elsewhere:
                    self._look_at_server()
                    found = claim()
                for one in found:
                    if one.run is not None:
                        commit = commit_of(one)
                        self._witness.remember(commit)
                        self._remember_holding(commit, None)
        except claims.LACKING:
            self.claims_many = False
            return []
        except (ConnectionLost, Elsewhere, psycopg.Error) as error:
            # Not repeated here: runs that were claimed meanwhile are found as P128 says.
            raise store_error(error, self._place) from None
        return found

    def adopt(self, workflow_id: str, *, entry: AuditEntry) -> None:
        self._in_this_process()

        def seal() -> None:
            with self._connections.use() as connection, connection.transaction():

                def ask(name: str, parameters: dict[str, Any]) -> list[Any]:
                    cursor = connection.execute(self._sql(SQL[name]), storable(parameters))
                    return cursor.fetchall() if cursor.description else []

                row = AUDIT.row(entry)
                ask("add_audit", {**AUDIT.named(row), "once": once(AUDIT, row)})
                seal_walk.adopt(ask, workflow_id, self._sealing)

        self._retrying(seal)
        self._sealing.forget()

    def close(self) -> None:
        """Close the connections. What was reported durable stays so, and a later use reopens them.

        A run that this process still holds keeps its lease.
        """
        if self._pid != os.getpid():
            return
        self._shared.close()
        with self._leasing:
            self._closed = True
            renewal = self._renewal
        if renewal is not None and not self._held:
            renewal.stop()
        self._connections.close()

    # Opening

    def _prepare(self, *, create: bool) -> None:
        connections = PostgresConnections(self._place, busy_seconds=BUSY_SECONDS)
        try:
            with connections.use() as connection:
                check_durable(connection, self._place)
                busy_seconds = self._busy_seconds
                open_schema(connection, self._place, create=create, busy_seconds=busy_seconds)
                record = locks.describe_this_process(self._now)
                witness = Witness(
                    connections, record, sealing=self._sealing, busy_seconds=self._busy_seconds
                )
                witness.look_once(connection)
        except (ConnectionLost, psycopg.Error) as error:
            connections.close()
            # Without the original error, whose traceback shows the arguments of the call.
            raise store_error(error, self._place) from None
        except BaseException:
            connections.close()
            raise
        if hasattr(self, "_connections"):
            # They belong to the parent process. Closing them here would close the parent's, too.
            _inherited.append((self._connections, self._shared))
        self._connections = connections
        self._commits = Commits(
            connections,
            patience_seconds=self._patience_seconds,
            busy_seconds=self._busy_seconds,
            sealing=self._sealing,
            witness=witness,
            look=self._look_at_server,
        )
        self._witness = witness
        self._sealing.forget()
        self._shared = SharedCommits(self._commit_many)
        self._record = record
        self._renewal = None
        self._held = set()
        # Set last: a thread that sees the number of this process here finds everything in place.
        self._pid = os.getpid()

    def _in_this_process(self) -> None:
        """Reopen after a fork: the child is another holder and needs its own connections."""
        if self._pid != os.getpid():
            with self._reopening:
                if self._pid != os.getpid():
                    self._settle()
                    self._prepare(create=False)

    def _settle(self) -> None:
        """Find out where the ledger is in this process."""
        self._place = read_place(whereabouts.told().server_of(self._url))
        self.location = self._place.location

    # The lease

    @property
    def _registered(self) -> bool:
        return self._renewal is not None and self._renewal.works

    def _renew(self) -> None:
        if not self._renew_here():
            self._look_at_server()
            if not self._renew_here():
                raise ConnectionLost(Elsewhere("the address leads to several servers"))

    def _renew_here(self) -> bool:
        """Renew the lease on the server that this process knows; False if it met another one."""
        server, until, last = self._witness.renewing()
        parameters = {
            **HOLDERS.named(HOLDERS.row(self._record)),
            "lease_seconds": self._place.lease_seconds,
            "server": server,
            "lease_until": until,
        }
        with self._connections.use() as connection:
            renewed = connection.execute(self._sql(SQL["renew_lease"]), parameters).fetchone()
        if renewed is None:
            return False
        until, had_run_out = renewed
        self._witness.lease_renewed(until, had_run_out=had_run_out, after=last)
        return True

    def _look_at_server(self) -> None:
        """Examine a server that this process does not know, before anything is written to it."""
        with self._witness.committing:
            found = self.open_reviews() if self._witness.look() else []
            for review in found:
                if review.kind is ReviewKind.RESTORED and review.status is ReviewStatus.OPEN:
                    closed = review.closed("processes that vouched", now=review.opened_at)
                    write = ReviewWrite(closed, review.version)
                    # If a review is decided at this moment, its decision also frees the run.
                    self._commits.commit_many(
                        [Commit(workflow_id=review.identity.workflow_id, reviews=(write,))]
                    )

    def _renew_lease(self) -> None:
        """Renew the lease. Called regularly in the background."""
        if self._closed and not self._held:
            renewal = self._renewal
            if renewal is not None:
                renewal.stop()
            return
        try:
            patiently(self._renew, patience_seconds=self._place.lease_seconds / 4)
        except (ConnectionLost, psycopg.Error) as error:
            raise store_error(error, self._place) from None
        finally:
            if self._closed:
                self._connections.close()

    # Reading

    def _listed(self, texts: Collection[str]) -> list[str]:
        return list(texts)

    def _read(self, sql: str, parameters: Parameters) -> list[Any]:
        self._in_this_process()
        if storable(parameters) is not parameters:
            # A name that cannot be stored has no rows.
            return []
        wanted = self._sql(sql)

        def ask() -> list[Any]:
            with self._connections.use() as connection:
                return connection.execute(wanted, parameters).fetchall()

        try:
            return self._retrying(ask)
        except UnicodeEncodeError:
            return []

    def _retrying(self, action: Callable[[], T]) -> T:
        """Do something repeatable until the database answers."""
        try:
            return patiently(action, patience_seconds=self._patience_seconds)
        except (ConnectionLost, psycopg.Error) as error:
            raise store_error(error, self._place) from None

    def _sql(self, sql: str) -> str:
        return in_schema(sql, self._place.schema)

    # Writing

    def _commit_many(self, commits: Sequence[Commit]) -> Sequence[BaseException | None]:
        with self._witness.committing:
            outcomes = self._commits.commit_many(commits)
            for commit, outcome in zip(commits, outcomes, strict=True):
                if outcome is None and not isinstance(commit, VisitCommit):
                    self._witness.remember(commit)
                self._remember_holding(commit, outcome)
        return outcomes

    def _remember_holding(self, commit: Commit, outcome: BaseException | None) -> None:
        claim, update = commit.claim, commit.run
        if outcome is None and claim is not None and claim.run.holder_id == self._record.holder_id:
            self._held.add(commit.workflow_id)
        released = outcome is None and update is not None and update.release
        if released or isinstance(outcome, OwnershipLost):
            self._held.discard(commit.workflow_id)
        if isinstance(outcome, OwnershipLost):
            self._witness.overtaken(commit.workflow_id)


_stores: weakref.WeakSet[PostgresStore] = weakref.WeakSet()
_inherited: list[Any] = []
"""Objects that belong to the parent process. Closing them here would close them there, too."""


def _after_fork_in_child() -> None:
    for store in list(_stores):
        # Another thread of the parent may have held the locks, and does not exist here.
        store._reopening = threading.Lock()
        store._leasing = threading.Lock()


def _say_goodbye() -> None:
    """Tell the server that this process ends. Its leases run out, or its death is proven."""
    for store in list(_stores):
        if store._pid == os.getpid():
            store._connections.close()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_say_goodbye)
