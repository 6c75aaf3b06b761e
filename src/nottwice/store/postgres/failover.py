"""Is this still the database that acknowledged our commits, and if not, what has it forgotten?

A promoted standby lacks whatever it had not received, and a database that forgot commits has also
forgotten that it did. Two things remember: the ledger itself, which records the system identifier
and the timeline of each server that it has lived on; and living processes, which remember their
last commits. Every commit carries the start time of the server that this process knows. Another
server, or the same one after a restart, writes nothing and is examined first:

- If the ledger is on the same server and has the last commits of this process, it was a restart.
- Otherwise it is marked like a restored copy (restored.py): its runs are held (P91, P120).

A mark does not hold runs that a living process vouches for. WAL is replayed in order, so a server
that has the last commit of a process also has all earlier ones. Looking for that commit needs no
position in the WAL, and a restart after the promotion destroys no proof. A process vouches

- for a run that it holds, if the last commit of the run is there and its lease never ran out, so
  that no other process can have taken the run over on the lost server;
- for everything it did, if its very last commit and the last renewal of its lease are there.

When every process that had a lease at the end of the copy has vouched for everything, no run is
held any more (P121). The end of the copy is the last transaction that the standby replayed. If a
server does not know that time, every process that the ledger knows is asked.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from nottwice.model.review import (
    ACCOUNTED_FOR,
    COPIED,
    FAILOVER,
    HELD,
    VOUCHED,
    AuditEntry,
    found_text,
)
from nottwice.model.run import GraphRecord, HolderRecord, RunRecord, RunStatus
from nottwice.model.sealing.seal import Head, head_to_text
from nottwice.store.interface import LEDGER, Commit
from nottwice.store.postgres.connections import PostgresConnections
from nottwice.store.postgres.plan import once
from nottwice.store.postgres.schema import in_schema, lock_number
from nottwice.store.postgres.statements import SQL, storable
from nottwice.store.sealing import Sealing
from nottwice.store.statements import Statement
from nottwice.store.table import Table
from nottwice.store.tables import AUDIT, EVIDENCE, GRAPHS, HOLDERS, RUNS, micros, seconds

log = logging.getLogger("nottwice")
MOST_REMEMBERED = 1000
"""How many of the runs that this process created in one ledger can be recorded again."""

_NOT_TOLD = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.FeatureNotSupported,
)

Ask = Callable[[str, Any], list[Any]]


class Elsewhere(Exception):
    """A commit met a server that this process has not examined. Nothing was written."""


@dataclass(slots=True)
class _Held:
    """A run that this process holds."""

    run: RunRecord
    last: Commit | None
    """Its last commit; None if another process may have held the run since."""


_made: dict[str, dict[str, tuple[RunRecord, GraphRecord | None]]] = {}
"""The last runs that this process created, by the location of their ledger. They outlive a store,
because after an outage the work may continue with another store."""


class Witness:
    """What one process remembers of its commits, and concludes about a server."""

    def __init__(
        self,
        connections: PostgresConnections,
        holder: HolderRecord,
        *,
        sealing: Sealing,
        busy_seconds: float,
    ) -> None:
        self.committing = threading.RLock()
        """Held from sending a commit until it is remembered, and while a server is examined."""
        self.server: str | None = None
        """The start time of the server that every commit must meet; None: not examined yet."""
        self._origin: str | None = None
        self._connections = connections
        self._place = connections.place
        self._holder = holder
        self._sealing = sealing
        self._busy_seconds = busy_seconds
        self._held: dict[str, _Held] = {}
        self._made = _made.setdefault(self._place.location, {})
        self._last: Commit | None = None
        self._renewed: Commit | None = None
        """The last commit that was acknowledged before the last renewal of the lease."""
        self._lease_until: str | None = None

    def look_once(self, connection: psycopg.Connection) -> None:
        """Accept a server if the ledger says that it is on it. A commit examines any other."""
        sql = in_schema(SQL["server_and_lineage"], self._place.schema)
        try:
            found = connection.execute(sql).fetchone()
        except _NOT_TOLD:
            return
        if found is not None and found[1] is not None and found[1] == found[2]:
            self.server, self._origin = found[0], found[1]

    # Remembering

    def remember(self, commit: Commit) -> None:
        """Remember a commit that was acknowledged."""
        self._last = commit
        claim, run_id = commit.claim, commit.workflow_id
        if claim is not None:
            if claim.after_epoch is None:
                self._made[run_id] = (claim.run, commit.graph)
                if len(self._made) > MOST_REMEMBERED:
                    self._made.pop(next(iter(self._made)), None)
            if claim.run.holder_id == self._holder.holder_id:
                self._held[run_id] = _Held(claim.run, commit)
        elif commit.run is not None and commit.run.release:
            self._held.pop(run_id, None)
        elif commit.fence is not None and run_id in self._held:
            self._held[run_id].last = commit

    def overtaken(self, run_id: str) -> None:
        """Forget a run that another process holds now."""
        self._held.pop(run_id, None)

    def renewing(self) -> tuple[str | None, str | None, Commit | None]:
        """What a renewal needs: the server, the end of the lease, and the last commit."""
        return self.server, self._lease_until, self._last

    def lease_renewed(self, lease_until: str, *, had_run_out: bool, after: Commit | None) -> None:
        """Record a renewal. If the lease had run out, other processes may have taken runs over."""
        self._lease_until = lease_until
        self._renewed = after
        if had_run_out:
            for held in list(self._held.values()):
                held.last = None

    # Examining a server

    def look(self) -> bool:
        """Examine a server before the next commit to it. True if held runs are free now.

        Durable: when it returns, everything that must be known about it is in the ledger.
        """
        with self.committing, self._connections.use() as connection, connection.transaction():

            def ask(sql: str, parameters: Any = ()) -> list[Any]:
                cursor = connection.execute(
                    in_schema(sql, self._place.schema), storable(parameters)
                )
                return cursor.fetchall() if cursor.description else []

            ask(SQL["read_committed"])
            number = lock_number(self._place.schema, "lineage")
            timeout = f"{self._busy_seconds * 1000:.0f}ms"
            ask(SQL["lock_lineage"], {"lock_timeout": timeout, "number": number})
            server, origin = _whereabouts(connection)
            freed = self._compare(ask, origin)
        self.server = server
        self._origin = origin
        return freed

    def _compare(self, ask: Ask, origin: str | None) -> bool:
        """Compare the database with what the ledger and this process remember."""
        found = ask(SQL["last_origin"], ())
        recorded = found[0][0] if found else None
        if origin is not None and recorded != origin:
            ask(SQL["add_origin"], {"origin": origin})
        lasts = [self._last, *(held.last for held in self._held.values())]
        missing = any(self._has(ask, one) is False for one in lasts if one is not None)
        before = {one for one in (recorded, self._origin) if one is not None}
        moved = origin is not None and bool(before - {origin})
        if not moved and not missing:
            return False
        mark = self._standing_mark(ask)
        if self._needs_mark(mark, origin, recorded, missing=missing):
            older = mark
            mark = self._put_mark(ask, origin, recorded or self._origin, missing=missing)
            if older is None and not missing:
                # If commits are missing, or there was a mark before, a person must account for it.
                lease_seconds = self._place.lease_seconds
                ask(SQL["ask_holders"], {"asked": mark.subject, "lease_seconds": lease_seconds})
        return False if mark is None else self._testify(ask, mark, missing=missing)

    def _needs_mark(
        self,
        mark: AuditEntry | None,
        origin: str | None,
        recorded: str | None,
        *,
        missing: bool,
    ) -> bool:
        if missing:
            return mark is None or origin != recorded
        if origin == recorded:
            # Another process has examined this server before and recorded what it found.
            return False
        before = recorded or self._origin
        same_system = before is not None and _system(before) == _system(origin)
        return not (self._place.only_synchronous and same_system)

    def _standing_mark(self, ask: Ask) -> AuditEntry | None:
        wanted = {"workflow_id": LEDGER, "copied": COPIED, "accounted_for": ACCOUNTED_FOR}
        found = ask(SQL["last_mark"], wanted)
        if not found or found[0][2] == ACCOUNTED_FOR:
            return None
        subject, at, action = found[0]
        return AuditEntry(LEDGER, seconds(at), "", action, subject, "")

    def _put_mark(
        self, ask: Ask, origin: str | None, before: str | None, *, missing: bool
    ) -> AuditEntry:
        at = seconds(ask(SQL["last_change"], {"workflow_id": LEDGER})[0][0])
        subject = f"{FAILOVER} {secrets.token_hex(4)}"
        why = _why(before, origin, missing=missing)
        mark = AuditEntry(LEDGER, at, self._holder.describe(), COPIED, subject, why)
        self._add(ask, mark)
        log.error(
            "%s: %s. Its runs are held, unless their holders can vouch for them. Next: "
            "nottwice --store '%s'",
            *(self._place.location, why, self._place.location),
        )
        return mark

    # Vouching

    def _testify(self, ask: Ask, mark: AuditEntry, *, missing: bool) -> bool:
        """Record what this process knows about a mark. True if it was the last one asked."""
        holder_id = self._holder.holder_id
        lease = {"lease_until": self._lease_until, "holder_id": holder_id}
        found = ask(SQL["lease_is_there"], lease) if self._lease_until is not None else []
        is_same, runs_on = found[0] if found else (False, False)
        for run_id, held in list(self._held.items()):
            if not self._vouch(ask, mark, held, leased=bool(runs_on)):
                taken = {"epoch": held.run.epoch, "workflow_id": run_id, "holder_id": holder_id}
                ask(SQL["take_away"], taken)
                ask(SQL["ready_since"], {"workflow_id": run_id})
                del self._held[run_id]
        for run, graph in list(self._made.values()):
            if not ask(SQL["holder_of_run"], {"workflow_id": run.workflow_id}):
                self._put_back(ask, mark, run, graph)
        if missing and self._lease_until is not None:
            # Recorded as a holder that is asked and never vouches, whatever the others say.
            holder = HOLDERS.named(HOLDERS.row(self._holder))
            ask(SQL["object_to_copy"], {**holder, "asked": mark.subject})
        if missing or not is_same or not self._has_last(ask, mark):
            return False
        if not ask(SQL["vouch_for_all"], {"holder_id": holder_id, "asked": mark.subject}):
            return False
        if ask(SQL["still_asked"], {"asked": mark.subject})[0][0]:
            return False
        why = "every process that had a lease has found its last commit in the ledger"
        self._add(ask, AuditEntry(LEDGER, mark.at, "nottwice", ACCOUNTED_FOR, mark.subject, why))
        log.warning("%s has lost nothing: %s. No run is held", self._place.location, why)
        return True

    def _vouch(self, ask: Ask, mark: AuditEntry, held: _Held, *, leased: bool) -> bool:
        """Vouch for a run that this process holds, if possible."""
        run_id = held.run.workflow_id
        found = ask(SQL["lock_holder_of_run"], {"workflow_id": run_id})
        if not found:
            self._put_back(ask, mark, held.run, None)
            return False
        is_mine = found[0][:2] == (held.run.epoch, self._holder.holder_id)
        if not (is_mine and leased and held.last is not None and self._has(ask, held.last)):
            return False
        why = "the last commit of the process that holds it is in the ledger"
        who = self._holder.describe()
        self._add(ask, AuditEntry(run_id, mark.at, who, VOUCHED, mark.subject, why))
        return True

    def _has_last(self, ask: Ask, mark: AuditEntry) -> bool:
        """Whether the last commit is there. A later renewal of the lease proves the same."""
        last = self._last
        if last is None or last is self._renewed or self._has(ask, last):
            return True
        if last.run is None or last.fence is None:
            return False
        # It released a run that was opened, and held for review, since.
        why = found_text(last.fence.epoch, last.run.at)
        entry = {"action": HELD, "subject": mark.subject, "why": why}
        return bool(ask(SQL["found_as"], {"workflow_id": last.workflow_id, **entry}))

    def _put_back(
        self, ask: Ask, mark: AuditEntry, run: RunRecord, graph: GraphRecord | None
    ) -> None:
        """Record a run again that the ledger has forgotten, so that opening it asks a person."""
        run = replace(
            run,
            status=RunStatus.RUNNING,
            epoch=run.epoch + 1,
            holder_id=None,
            created_at=min(run.created_at, mark.at),
        )
        if run.workflow_id in self._made:
            graph = self._made[run.workflow_id][1]
        if graph is not None:
            ask(SQL["add_graph"], self._named(GRAPHS, graph))
        ask(SQL["put_run"], self._named(RUNS, run))
        seals = self._sealing.seals
        if seals is not None:
            head = head_to_text(seals.sealed(run.workflow_id, Head()))
            ask(SQL["put_head"], {"head": head, "workflow_id": run.workflow_id})
        ask(SQL["ready_since"], {"workflow_id": run.workflow_id})

    def _add(self, ask: Ask, entry: AuditEntry) -> None:
        ask(SQL["add_audit"], {**self._named(AUDIT, entry), "once": _once(AUDIT, entry)})

    def _named(self, table: Table[Any], record: Any) -> dict[str, Any]:
        """A record as parameters, with its seal."""
        return table.named(self._sealing.put(table, storable(table.row(record))))

    def _has(self, ask: Ask, commit: Commit) -> bool | None:
        """Whether a commit is there, by what it wrote; None if others have changed that since."""
        found = ask(SQL["holder_of_run"], {"workflow_id": commit.workflow_id})
        epoch, holder_id, status = found[0] if found else (-1, None, None)
        if status == RunStatus.REMOVED.value:
            return None
        made_at = _epoch(commit)
        if made_at is not None and epoch != made_at:
            return None if epoch > made_at else False
        if made_at is not None and holder_id not in (None, self._holder.holder_id):
            return False
        question = next(_traces(commit), None)
        return None if question is None else bool(ask(*question))


def _whereabouts(connection: psycopg.Connection) -> tuple[str, str | None]:
    """The start time of a server, and its system and timeline; None if it does not say."""
    try:
        with connection.transaction():
            found = connection.execute(SQL["server_and_origin"]).fetchone()
    except _NOT_TOLD:
        found = connection.execute(SQL["server_start"]).fetchone()
    assert found is not None
    return found[0], found[1]


def _epoch(commit: Commit) -> int | None:
    if commit.claim is not None:
        return commit.claim.run.epoch
    return None if commit.fence is None else commit.fence.epoch


def _traces(commit: Commit) -> Iterator[Statement]:
    """Queries that return a row if, and only if, a commit is there."""
    run = commit.workflow_id
    for write in reversed(commit.calls):
        row = write.row
        yield SQL["call_is_there"], (*row.identity, row.attempt_id, row.status.value)
    for checkpoint in reversed(commit.checkpoints):
        made = micros(checkpoint.created_at)
        yield SQL["checkpoint_is_there"], (run, checkpoint.version, made)
    for step in reversed(commit.steps):
        place = (step.workflow_id, step.node_id, step.checkpoint_id)
        yield SQL["step_is_there"], (*place, step.status.value)
    for review_write in commit.reviews:
        yield SQL["review_is_there"], (review_write.review.review_id, review_write.review.version)
    if commit.claim is not None:
        yield SQL["update_is_there"], (run, micros(commit.claim.run.updated_at))
    if commit.run is not None:
        yield SQL["update_is_there"], (run, micros(commit.run.at))
    for entry in commit.audit:
        yield SQL["audit_is_there"], (run, _once(AUDIT, entry))
    for item in commit.evidence:
        yield SQL["evidence_is_there"], (run, _once(EVIDENCE, item))
    for event_write in commit.events:
        yield SQL["event_is_there"], (run, event_write.event.event_id)


def _once(table: Table[Any], record: Any) -> str:
    return once(table, table.row(record))


def _system(origin: str | None) -> str:
    return "" if origin is None else origin.partition("/")[0]


def _why(before: str | None, origin: str | None, *, missing: bool) -> str:
    if before == origin or origin is None or before is None:
        text = "the database has changed"
    elif _system(before) == _system(origin):
        was, now = before.partition("/")[2], origin.partition("/")[2]
        text = f"the database failed over, or was restored (timeline {was} before, {now} now)"
    else:
        text = "the ledger is on another database server than before"
    if missing:
        return f"{text}, and commits that were acknowledged are missing"
    return f"{text}, and may lack commits that were acknowledged"
