"""The embedded ledger: SQLite in WAL mode, synchronous=FULL, one file on a local disk (B1).

Promises kept here: P5, P6, P7, and P10 (a commit that returned survives power loss). FULL is read
back after it was set, because one fsync error leaves WAL silently off, and with NORMAL most
power cuts re-fire an effect. A COMMIT that fails is ambiguous: the connection is closed, what is
visible is forced to disk, and the same commit is repeated, which changes nothing if it was there.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from nottwice.errors import NoLedger, NottwiceError, StoreError
from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.review import AuditEntry, Evidence, Review
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
from nottwice.store import graph_rows, leftovers, locks, rows, tally, whereabouts
from nottwice.store.files import disk
from nottwice.store.filesystem import check_filesystem
from nottwice.store.interface import LEDGER, Commit
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
from nottwice.store.sqlite import reads
from nottwice.store.sqlite.commits import SqliteCommits, inode_at
from nottwice.store.sqlite.connections import Connections, store_error
from nottwice.store.sqlite.copy import OnProgress, copy_ledger
from nottwice.store.sqlite.lost import Acknowledged
from nottwice.store.sqlite.schema import bring_forward, check_durable, known_scripts, version_of
from nottwice.store.sqlite.writes import (
    ADD_AUDIT,
    CHARGED,
    OPEN_REVIEWS,
    charged_parameters,
)

BUSY_SECONDS = 30.0
_OPENING_PLACE = (1 << 62) + 1

log = logging.getLogger("nottwice")

_WALK = SealWalk(
    lambda sql: sql.replace("nottwice.", "").replace("%s", "?").replace("arrival", "rowid")
)


class SqliteStore(whereabouts.OnDisk, SqliteCommits):
    """A ledger in one SQLite file."""

    _pid: int
    _shared: SharedCommits

    # In WAL mode no writer keeps a reader waiting.
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
        """Open the ledger at ``path``; ``busy_seconds``: how long to wait for other processes;
        ``seals``: what to seal rows with, and to check them by."""
        self._name(path)
        self._now = now
        self._busy_seconds = whereabouts.busy_seconds(busy_seconds)
        self._acknowledged = Acknowledged()
        self._sealing = Sealing(seals)
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
        found = self._read(reads.HOLDER, (holder_id,))
        return rows.locking_holder_from_sql(found[0]) if found else None

    def life_of(self, holder_id: str) -> Life:
        record = self.load_holder(holder_id)
        return self._lock.life_of(record)

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
        most = -1 if limit is None else limit
        if after is None:
            found = self._sealed(CALLS, reads.CALLS_IN_ORDER, (workflow_id, most))
        else:
            found = self._sealed(CALLS, reads.CALLS_AFTER, (workflow_id, *after, most))
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
        asked = (run, run, run, run, LEDGER, run)
        return rows.standing_from_sql(self._read(reads.STANDING, asked))

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
        self._sealing.check(STEPS, [row[:-2] for row in found])
        return [LastVisit(rows.step_from_sql(row), row[-2]) for row in found]

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
        return self._found_reviews(reads.REVIEWS_OF_RUN, (workflow_id,))

    def open_reviews(self, workflow_id: str | None = None) -> list[Review]:
        if workflow_id is None:
            return [rows.review_from_sql(row) for row in self._read(reads.ALL_OPEN_REVIEWS, ())]
        return self._found_reviews(OPEN_REVIEWS, (workflow_id,))

    def find_reviews(self, prefix: str) -> list[Review]:
        return self._found_reviews(reads.FIND_REVIEWS, (prefix, prefix))

    def evidence(self, workflow_id: str, call_id: str | None = None) -> list[Evidence]:
        found = self._sealed(EVIDENCE, reads.EVIDENCE, (workflow_id, call_id, call_id))
        return [rows.evidence_from_sql(row) for row in found]

    def audit(self, workflow_id: str | None = None) -> list[AuditEntry]:
        asked = (reads.WHOLE_AUDIT, ()) if workflow_id is None else (reads.AUDIT, (workflow_id,))
        return [rows.audit_from_sql(row) for row in self._read(*asked)]

    def charged(self, meter: str, *, since: float | None = None, besides: str = "") -> int:
        shown: int = self._read(CHARGED, charged_parameters(meter, since, besides))[0][0]
        return shown

    def checkpoint_chain(
        self, workflow_id: str, version: int | None = None
    ) -> list[CheckpointRecord]:
        if version is None:
            found = self._sealed(CHECKPOINTS, reads.NEWEST_CHAIN, (workflow_id, workflow_id))
        else:
            found = self._sealed(CHECKPOINTS, reads.CHAIN, (workflow_id, version))
        return graph_rows.checkpoints_from_sql(found)

    def checkpoints(self, workflow_id: str) -> list[CheckpointRecord]:
        found = self._read(reads.VERSIONS, (workflow_id,))
        return [graph_rows.checkpoint_from_sql(row) for row in found]

    def events(self, workflow_id: str, name: str | None = None) -> list[EventRecord]:
        found = self._sealed(EVENTS, reads.EVENTS, (workflow_id, name, name))
        return [graph_rows.event_from_sql(row) for row in found]

    def load_graph(self, graph_id: str) -> GraphRecord | None:
        found = self._sealed(GRAPHS, reads.GRAPH, (graph_id,))
        return graph_rows.graph_from_sql(found[0]) if found else None

    def graphs(self) -> list[GraphRecord]:
        return [
            graph_rows.graph_from_sql(row) for row in self._sealed(GRAPHS, reads.ALL_GRAPHS, ())
        ]

    def children(self, workflow_id: str) -> list[RunRecord]:
        found = self._read(reads.CHILDREN, (workflow_id,))
        return [rows.run_from_sql(row) for row in found]

    def ready_runs(
        self, *, begun: bool, now: float, limit: int, without: Collection[str] = ()
    ) -> list[RunRecord]:
        skipped = json.dumps(list(without))
        if begun:
            asked = (skipped, limit, skipped, rows.micros(now), limit, limit)
            found = self._read(reads.READY_RUNS, asked)
        else:
            found = self._read(reads.QUEUED_RUNS, (skipped, limit))
        return [rows.run_from_sql(row) for row in found]

    def holders_of_runs(self) -> list[str]:
        return [holder_id for (holder_id,) in self._read(reads.HOLDERS_OF_RUNS, ())]

    def runs_held_by(self, holder_id: str) -> list[RunRecord]:
        return [rows.run_from_sql(row) for row in self._read(reads.HELD_RUNS, (holder_id,))]

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
        connection.execute(ADD_AUDIT, rows.audit_to_sql(entry))
        _WALK.adopt(
            lambda sql, given: connection.execute(sql, given).fetchall(),
            workflow_id,
            self._sealing,
        )
        connection.execute("COMMIT")

    def copy_to(self, destination: Path, *, mark: AuditEntry, on_progress: OnProgress) -> None:
        """Make a whole copy of one moment, while others write. Durable: when it returns."""
        self._in_this_process()
        with self._connections.unmoved():
            copy_ledger(self._path, destination, mark=mark, on_progress=on_progress)

    def close(self) -> None:
        """Close the files. What was reported durable stays so; a later use opens them again."""
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
        connections = Connections(self._path, busy_seconds=self._busy_seconds)
        try:
            self._lock = self._open(connections, create=create)
            # Whoever opens a ledger reads from it next, and need not wait for a connection then.
            connections.read(reads.HOLDER, ("",))
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
        # Last: whoever sees this process's number here finds everything in place.
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
            # Before anything lies beside it, which would tell of a ledger that was deleted (P116).
            disk.sync_folder(self._path.parent)
        except FileExistsError:
            pass
        except OSError as error:
            raise StoreError(
                f"The ledger {self.location} could not be created ({error.strerror}). Nothing "
                "was opened. Create its folder, or choose another place."
            ) from error

    def _open(self, connections: Connections, *, create: bool) -> locks.HolderLock:
        """Judge the file, then become a holder of it, then write to it: in this order."""
        with connections.judging() as connection:
            version = version_of(connection, self.location)
            if not version and not create:
                raise self._no_ledger()
            lock = locks.hold(self._path.with_name(self._path.name + ".holders"), now=self._now)
            mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        if version < known_scripts()[-1].number or mode != "wal":
            lock.exclusively(
                _OPENING_PLACE,
                lambda: self._bring_forward(connections),
                wait_seconds=self._busy_seconds,
            )
        return lock

    def _bring_forward(self, connections: Connections) -> None:
        with connections.writer.guard:
            connection = connections.connect(connections.writer)
            with connections.writer.files.turn(self._busy_seconds):
                bring_forward(connection, self.location)
            connections.secure()
            check_durable(connection, self.location)

    def _no_ledger(self) -> NoLedger:
        return NoLedger(
            f"There is no ledger at {self.location}. Nothing was created. Name another with "
            "--store PATH or NOTTWICE_STORE."
        )

    # Reading

    def _sealed(self, table: str, sql: str, parameters: Sequence[Any]) -> list[Any]:
        """Rows that end with their seal, if all of them are believed."""
        return self._sealing.check(table, self._read(sql, parameters))

    def _found_reviews(self, sql: str, parameters: Sequence[Any]) -> list[Review]:
        return [rows.review_from_sql(row) for row in self._sealed(REVIEWS, sql, parameters)]

    def _read(self, sql: str, parameters: Sequence[Any]) -> list[Any]:
        self._in_this_process()
        try:
            return self._connections.read(sql, parameters)
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise store_error(error, self.location) from error
        except UnicodeEncodeError:
            # What cannot be stored is not stored.
            return []


_stores: weakref.WeakSet[SqliteStore] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for store in list(_stores):
        # Another thread of the parent may have held it, and does not exist here.
        store._reopening = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _close_at_exit() -> None:
    """Nothing else clears the log away, once the last process that used a ledger has ended."""
    for store in list(_stores):
        if store._pid == os.getpid():
            store._connections.close_idle()


atexit.register(_close_at_exit)
