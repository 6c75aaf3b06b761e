"""The ledger for many processes and machines: PostgreSQL (B3).

Promises kept here: P5, P6, P7, P55, P56.
A connection that breaks around COMMIT leaves open what became of it, and looks the same either way:
the same commit is repeated on a new connection, which changes nothing if it was there. Until that
is answered nobody is told anything, so no effect is fired on an intent that may not exist.
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

from nottwice.errors import Fenced
from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.review import AuditEntry, Evidence, Review, ReviewKind, ReviewStatus
from nottwice.model.run import (
    CheckpointRecord,
    EventRecord,
    GraphRecord,
    HolderRecord,
    LastVisit,
    Life,
    RunCount,
    RunRecord,
    RunStatus,
    Standing,
    StepRecord,
)
from nottwice.model.seal import Seals
from nottwice.model.tally import Tally
from nottwice.store import graph_rows, locks, rows, tally, whereabouts
from nottwice.store.interface import LEDGER, Commit, ReviewWrite
from nottwice.store.postgres import lease, reads
from nottwice.store.postgres.commits import Commits
from nottwice.store.postgres.connections import (
    Connections,
    Lost,
    patiently,
    store_error,
)
from nottwice.store.postgres.failover import Elsewhere, Witness
from nottwice.store.postgres.place import read_place
from nottwice.store.postgres.schema import check_durable, in_schema, open_schema
from nottwice.store.postgres.wanted import EVER
from nottwice.store.postgres.writes import ADD_AUDIT, once
from nottwice.store.seal_walk import SealWalk
from nottwice.store.sealing import (
    CALLS,
    CHECKPOINTS,
    EVENTS,
    EVIDENCE,
    GRAPHS,
    REVIEWS,
    STEPS,
    Sealing,
)
from nottwice.store.shared import SharedCommits

T = TypeVar("T")
BUSY_SECONDS = 20.0
PATIENCE_SECONDS = 20.0
"""How long a database may be away, restarting for example, before that is an error."""

log = logging.getLogger("nottwice")

_WALK = SealWalk(str)


class PostgresStore:
    """A ledger in one schema of a PostgreSQL database."""

    _pid: int
    _connections: Connections
    _commits: Commits
    _witness: Witness
    _shared: SharedCommits
    _record: HolderRecord
    _renewal: lease.Renewal | None

    # A table may be locked, and a server away.
    reads_can_block = True

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
        """Open the ledger at ``url``; ``patience_seconds``: how long the database may be away;
        ``busy_seconds``: how long to wait for others who write; ``seals``: what to seal rows with,
        and to check them by."""
        self._url = url
        self._settle()
        self._now = now
        self._patience_seconds = patience_seconds
        self._busy_seconds = whereabouts.busy_seconds(busy_seconds)
        self._reopening = threading.Lock()
        self._leasing = threading.Lock()
        self._held: set[str] = set()
        self._closed = False
        self._sealing = Sealing(seals)
        self._prepare(create=create)
        _stores.add(self)
        log.info("ledger opened at %s", self.location)
        log.info(self._sealing.describe())

    def __repr__(self) -> str:
        return f"PostgresStore({self.location!r})"

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
                self._renewal = lease.Renewal(
                    self._renew_lease, lease_seconds=lease_seconds
                )
                self._renewal.start()
        return self._record

    def load_holder(self, holder_id: str) -> HolderRecord | None:
        found = self._read(reads.HOLDER, (holder_id,))
        return rows.holder_from_sql(found[0][:-1]) if found else None

    def life_of(self, holder_id: str) -> Life:
        found = self._read(reads.HOLDER, (holder_id,))
        record = rows.holder_from_sql(found[0][:-1]) if found else None
        leased = bool(found and found[0][-1])
        return lease.life_of(record, leased=leased, here=self._record)

    def load_run(self, workflow_id: str) -> RunRecord | None:
        found = self._read(reads.RUN, (workflow_id,))
        return rows.run_from_sql(found[0]) if found else None

    def load_call(self, identity: CallIdentity) -> CallRow | None:
        found = self._sealed(CALLS, reads.CALL, identity)
        return rows.call_from_sql(found[0]) if found else None

    def load_step(self, workflow_id: str, node_id: str, checkpoint_id: str) -> StepRecord | None:
        found = self._sealed(STEPS, reads.STEP, (workflow_id, node_id, checkpoint_id))
        return rows.step_from_sql(found[0]) if found else None

    def load_review(self, review_id: str) -> Review | None:
        found = self._sealed(REVIEWS, reads.REVIEW, (review_id,))
        return rows.review_from_sql(found[0]) if found else None

    def calls(
        self, workflow_id: str, *, limit: int | None = None, after: CallIdentity | None = None
    ) -> list[CallRow]:
        if after is None:
            found = self._sealed(CALLS, reads.CALLS, (workflow_id, limit))
        else:
            found = self._sealed(CALLS, reads.CALLS_AFTER, (workflow_id, *after, limit))
        return [rows.call_from_sql(row) for row in found]

    def last_calls(
        self, workflow_id: str, *, limit: int, before: CallIdentity | None = None
    ) -> list[CallRow]:
        if before is None:
            found = self._sealed(CALLS, reads.LAST_CALLS, (workflow_id, limit))
        else:
            found = self._sealed(CALLS, reads.CALLS_BEFORE, (workflow_id, *before, limit))
        return [rows.call_from_sql(row) for row in reversed(found)]

    def count_calls(self, workflow_id: str) -> int:
        counted: int = self._read(reads.COUNT_CALLS, (workflow_id,))[0][0]
        return counted

    def calls_in_doubt(self, workflow_id: str | None = None) -> list[CallRow]:
        if workflow_id is None:
            found = self._sealed(CALLS, reads.ALL_CALLS_IN_DOUBT, ())
        else:
            found = self._sealed(CALLS, reads.CALLS_IN_DOUBT, (workflow_id, workflow_id))
        return [rows.call_from_sql(row) for row in found]

    def standing(self, workflow_id: str) -> Standing:
        run = workflow_id
        found = self._read(reads.STANDING, (run, run, run, run, LEDGER, run))
        return rows.standing_from_sql(found)

    def calls_under(
        self, workflow_id: str, node_id: str, *, visit: str | None = None
    ) -> list[CallRow]:
        sql = reads.CALLS_UNDER if visit is None else reads.CALLS_OF_VISIT
        found = self._sealed(CALLS, sql, rows.place_to_sql(workflow_id, node_id, visit))
        return rows.calls_inside(found, node_id)

    def steps(
        self, workflow_id: str, *, after: int = -1, in_progress_at: str | None = None
    ) -> list[StepRecord]:
        found = self._sealed(STEPS, *reads.steps(workflow_id, after, in_progress_at))
        return [rows.step_from_sql(row) for row in found]

    def last_visits(self, workflow_id: str) -> list[LastVisit]:
        found = self._read(reads.LAST_VISITS, (workflow_id,))
        self._sealing.check(STEPS, [row[:-1] for row in found])
        return [LastVisit(rows.step_from_sql(row), row[-1]) for row in found]

    def last_use_of_key(self, tool_name: str, key: str) -> CallRow | None:
        found = self._sealed(CALLS, reads.KEY_USE, (tool_name, key))
        return rows.call_from_sql(found[0]) if found else None

    def runs(
        self,
        *,
        limit: int | None = None,
        prefix: str = "",
        graph: str | None = None,
        status: RunStatus | None = None,
        queued: bool | None = None,
        before: RunRecord | None = None,
    ) -> list[RunRecord]:
        sql, asked = reads.runs(
            limit=limit,
            prefix=prefix,
            graph=graph,
            status=None if status is None else status.value,
            queued=queued,
            before=None if before is None else (rows.micros(before.updated_at), before.workflow_id),
        )
        return [rows.run_from_sql(row) for row in self._read(sql, asked)]

    def count_runs(self, *, prefix: str = "", graph: str | None = None) -> list[RunCount]:
        found = self._read(*reads.count_runs(prefix=prefix, graph=graph))
        return [rows.run_count_from_sql(row) for row in found]

    def tally(
        self,
        *,
        now: float,
        prefix: str = "",
        graph: str | None = None,
        over: bool = True,
        limit: int = 0,
    ) -> Tally:
        at = rows.micros(now)
        return tally.from_sql(
            self._read(*reads.count_groups(at, prefix=prefix, graph=graph, over=over)),
            self._read(*reads.told_runs(at, prefix=prefix, graph=graph, limit=limit)),
            self._read(reads.COUNT_OPEN_REVIEWS, ()),
            self._read(reads.OLDEST_REVIEWS, (limit,)),
        )

    def reviews(self, workflow_id: str | None = None) -> list[Review]:
        if workflow_id is None:
            return [rows.review_from_sql(row) for row in self._read(reads.ALL_REVIEWS, ())]
        return self._found_reviews(reads.REVIEWS, (workflow_id,))

    def open_reviews(self, workflow_id: str | None = None) -> list[Review]:
        if workflow_id is None:
            return [rows.review_from_sql(row) for row in self._read(reads.ALL_OPEN_REVIEWS, ())]
        return self._found_reviews(reads.OPEN_REVIEWS, (workflow_id,))

    def find_reviews(self, prefix: str) -> list[Review]:
        return self._found_reviews(reads.FIND_REVIEWS, (prefix,))

    def evidence(self, workflow_id: str, call_id: str | None = None) -> list[Evidence]:
        if call_id is None:
            found = self._sealed(EVIDENCE, reads.EVIDENCE, (workflow_id,))
        else:
            found = self._sealed(EVIDENCE, reads.EVIDENCE_OF_CALL, (workflow_id, call_id))
        return [rows.evidence_from_sql(row) for row in found]

    def audit(self, workflow_id: str | None = None) -> list[AuditEntry]:
        asked = (reads.WHOLE_AUDIT, ()) if workflow_id is None else (reads.AUDIT, (workflow_id,))
        return [rows.audit_from_sql(row) for row in self._read(*asked)]

    def charged(self, meter: str, *, since: float | None = None, besides: str = "") -> int:
        after = EVER if since is None else rows.micros(since)
        shown: int = self._read(reads.CHARGED, (meter, after, besides))[0][0]
        return shown

    def checkpoint_chain(
        self, workflow_id: str, version: int | None = None
    ) -> list[CheckpointRecord]:
        wanted = (workflow_id, version, workflow_id, workflow_id)
        return graph_rows.checkpoints_from_sql(self._sealed(CHECKPOINTS, reads.CHAIN, wanted))

    def checkpoints(self, workflow_id: str) -> list[CheckpointRecord]:
        found = self._read(reads.VERSIONS, (workflow_id,))
        return [graph_rows.checkpoint_from_sql(row) for row in found]

    def events(self, workflow_id: str, name: str | None = None) -> list[EventRecord]:
        if name is None:
            found = self._sealed(EVENTS, reads.EVENTS, (workflow_id,))
        else:
            found = self._sealed(EVENTS, reads.EVENTS_NAMED, (workflow_id, name))
        return [graph_rows.event_from_sql(row) for row in found]

    def load_graph(self, graph_id: str) -> GraphRecord | None:
        found = self._sealed(GRAPHS, reads.GRAPH, (graph_id,))
        return graph_rows.graph_from_sql(found[0]) if found else None

    def graphs(self) -> list[GraphRecord]:
        return [graph_rows.graph_from_sql(row) for row in self._sealed(GRAPHS, reads.GRAPHS, ())]

    def children(self, workflow_id: str) -> list[RunRecord]:
        found = self._read(reads.CHILDREN, (workflow_id,))
        return [rows.run_from_sql(row) for row in found]

    def ready_runs(
        self, *, begun: bool, now: float, limit: int, without: Collection[str] = ()
    ) -> list[RunRecord]:
        sql = reads.READY_RUNS if begun else reads.QUEUED_RUNS
        wanted = (list(without), rows.micros(now), limit)
        found = self._read(sql, (*wanted, *wanted, limit))
        return [rows.run_from_sql(row) for row in found]

    def holders_of_runs(self) -> list[str]:
        return [holder_id for (holder_id,) in self._read(reads.HOLDERS_OF_RUNS, ())]

    def runs_held_by(self, holder_id: str) -> list[RunRecord]:
        found = self._read(reads.RUNS_HELD, (holder_id,))
        return [rows.run_from_sql(row) for row in found]

    def expired_runs(
        self, *, ended_before: float, due_before: float, limit: int, after: str = ""
    ) -> list[RunRecord]:
        moments = rows.micros(ended_before), rows.micros(due_before)
        found = self._read(reads.EXPIRED_RUNS, (after, *moments, limit))
        return [rows.run_from_sql(row) for row in found]

    def load_head(self, workflow_id: str) -> str | None:
        found = self._read(_WALK.head, (workflow_id,))
        return found[0][0] if found else None

    def flaws(self, workflow_id: str, *, thorough: bool = False) -> list[str]:
        if self._sealing.seals is None:
            return []
        return _WALK.flaws(self._read, workflow_id, self._sealing, thorough=thorough)

    def adopt(self, workflow_id: str, *, entry: AuditEntry) -> None:
        self._in_this_process()

        def seal() -> None:
            with self._connections.use() as connection, connection.transaction():

                def ask(sql: str, parameters: Sequence[Any]) -> list[Any]:
                    cursor = connection.execute(self._sql(sql), parameters)
                    return cursor.fetchall() if cursor.description else []

                ask(ADD_AUDIT, (*rows.audit_to_sql(entry), once(entry)))
                _WALK.adopt(ask, workflow_id, self._sealing)

        self._retrying(seal)
        self._sealing.forget()

    def close(self) -> None:
        """Close the connections. What was reported durable stays so; a later use opens others.

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
        connections = Connections(self._place, busy_seconds=BUSY_SECONDS)
        try:
            with connections.use() as connection:
                busy_seconds = self._busy_seconds
                open_schema(connection, self._place, create=create, busy_seconds=busy_seconds)
                check_durable(connection, self._place)
                record = locks.describe_this_process(self._now)
                witness = Witness(
                    connections, record, sealing=self._sealing, busy_seconds=self._busy_seconds
                )
                witness.look_once(connection)
        except (Lost, psycopg.Error) as error:
            connections.close()
            # Not the error itself, whose traceback shows what it was called with.
            raise store_error(error, self._place) from None
        except BaseException:
            connections.close()
            raise
        if hasattr(self, "_connections"):
            # They belong to the parent of this process, and closing them here would close its own.
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
        # Last: whoever sees this process's number here finds everything in place.
        self._pid = os.getpid()

    def _in_this_process(self) -> None:
        """After a fork, open anew: this process is another holder, with connections of its own."""
        if self._pid != os.getpid():
            with self._reopening:
                if self._pid != os.getpid():
                    self._settle()
                    self._prepare(create=False)

    def _settle(self) -> None:
        """Find out where the ledger lies in this process."""
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
                raise Lost(Elsewhere("the address leads to several servers"))

    def _renew_here(self) -> bool:
        """Renew the lease on the server that this process knows; False: it met another one."""
        server, until, last = self._witness.renewing()
        holder = rows.holder_to_sql(self._record)
        parameters = (*holder, self._place.lease_seconds, server, until)
        with self._connections.use() as connection:
            renewed = connection.execute(self._sql(lease.RENEW), parameters).fetchone()
        if renewed is None:
            return False
        until, had_run_out = renewed
        self._witness.lease_renewed(until, had_run_out=had_run_out, after=last)
        return True

    def _look_at_server(self) -> None:
        """Look at a server that this process does not know, before anything is written to it."""
        with self._witness.committing:
            found = self.open_reviews() if self._witness.look() else []
            for review in found:
                if review.kind is ReviewKind.RESTORED and review.status is ReviewStatus.OPEN:
                    closed = review.closed("processes that vouched", now=review.opened_at)
                    write = ReviewWrite(closed, review.version)
                    # One that is decided at this moment frees its run, too.
                    self._commits.commit_many(
                        [Commit(workflow_id=review.identity.workflow_id, reviews=(write,))]
                    )

    def _renew_lease(self) -> None:
        """In the background, every so often."""
        if self._closed and not self._held:
            renewal = self._renewal
            if renewal is not None:
                renewal.stop()
            return
        try:
            patiently(self._renew, patience_seconds=self._place.lease_seconds / 4)
        except (Lost, psycopg.Error) as error:
            raise store_error(error, self._place) from None
        finally:
            if self._closed:
                self._connections.close()

    # Reading

    def _sealed(self, table: str, sql: str, parameters: Sequence[Any]) -> list[Any]:
        """Rows that end with their seal, if all of them are believed."""
        return self._sealing.check(table, self._read(sql, parameters))

    def _found_reviews(self, sql: str, parameters: Sequence[Any]) -> list[Review]:
        return [rows.review_from_sql(row) for row in self._sealed(REVIEWS, sql, parameters)]

    def _read(self, sql: str, parameters: Sequence[Any]) -> list[Any]:
        self._in_this_process()
        if any(isinstance(one, str) and "\0" in one for one in parameters):
            # What cannot be stored is not stored.
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
        """Do what changes nothing when it is done again, until the database is there."""
        try:
            return patiently(action, patience_seconds=self._patience_seconds)
        except (Lost, psycopg.Error) as error:
            raise store_error(error, self._place) from None

    def _sql(self, sql: str) -> str:
        return in_schema(sql, self._place.schema)

    # Writing

    def _commit_many(self, commits: Sequence[Commit]) -> Sequence[BaseException | None]:
        with self._witness.committing:
            outcomes = self._commits.commit_many(commits)
            for commit, outcome in zip(commits, outcomes, strict=True):
                if outcome is None:
                    self._witness.remember(commit)
                self._remember_holding(commit, outcome)
        return outcomes

    def _remember_holding(self, commit: Commit, outcome: BaseException | None) -> None:
        claim, update = commit.claim, commit.run
        if outcome is None and claim is not None and claim.run.holder_id == self._record.holder_id:
            self._held.add(commit.workflow_id)
        released = outcome is None and update is not None and update.release
        if released or isinstance(outcome, Fenced):
            self._held.discard(commit.workflow_id)
        if isinstance(outcome, Fenced):
            self._witness.overtaken(commit.workflow_id)


_stores: weakref.WeakSet[PostgresStore] = weakref.WeakSet()
_inherited: list[Any] = []
"""What belongs to the parent of this process; closed here, it would be closed there."""


def _after_fork_in_child() -> None:
    for store in list(_stores):
        # Another thread of the parent may have held them, and does not exist here.
        store._reopening = threading.Lock()
        store._leasing = threading.Lock()


def _say_goodbye() -> None:
    """Let the server know that this process ends; its leases run out, or its death is proven."""
    for store in list(_stores):
        if store._pid == os.getpid():
            store._connections.close()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_say_goodbye)
