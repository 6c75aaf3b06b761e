"""What do commits lock and read on PostgreSQL before they are decided, in one round trip?

The holder of a run shows its fence with every write, and the row of the run is locked while the
fence is checked. So either a claim waits for the write, or the write sees the claim and is refused.
All other commits of a run take turns by a lock that ends with the transaction. So what was read
before a write is still true when it is written, without serializable isolation and its retries.
Promises kept here: P5, P6, P7, P9.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from nottwice.model.call import CallIdentity
from nottwice.store.interface import ChargeWrite, Commit
from nottwice.store.postgres.schema import lock_number
from nottwice.store.postgres.statements import SQL, storable
from nottwice.store.sealing import Sealing
from nottwice.store.sql_plan import Named, Outcome, Plan
from nottwice.store.statements import Statement
from nottwice.store.table import Row, Table
from nottwice.store.tables import CHARGES, EVER, micros

Take = Callable[[Any], None]
_CALL_ARRAYS = ("runs", "nodes", "checkpoints", "tools", "hashes")


class PostgresPlan(Plan):
    """Commits as one transaction: first ``reads``, then ``decide``, then its statements."""

    def __init__(
        self,
        commits: Sequence[Commit],
        *,
        schema: str,
        busy_seconds: float,
        sealing: Sealing,
        server: str | None,
    ) -> None:
        super().__init__(sealing)
        self.synchronous_commit = ""
        self.is_here = False
        """Whether this is the server that the commits are meant for."""
        self._commits, self._schema = commits, schema
        self._asked: list[tuple[Statement, Take | None]] = []
        limits = {"lock_timeout": f"{busy_seconds * 1000:.0f}ms", "server": server}
        self._ask("begin", {}, None)
        self._ask("limits", limits, self._take_setting)
        self._ask_for_turns()
        self._ask_for_records()

    @property
    def reads(self) -> list[Statement]:
        """The statements that lock and read everything that is needed."""
        return [statement for statement, _ in self._asked]

    def hear(self, answers: Iterable[Any]) -> None:
        """Take the results of the reads."""
        for (_, take), cursor in zip(self._asked, answers, strict=True):
            if take is not None:
                for row in cursor.fetchall():
                    take(row)

    def outcomes(self) -> tuple[list[Outcome], list[Statement]]:
        """The outcome of each commit, and the statements of all that are not refused."""
        outcomes, named = self.decide(self._commits)
        return outcomes, [(SQL[name], given) for name, given in named]

    def _ask(self, name: str, given: dict[str, Any], take: Take | None) -> None:
        self._asked.append(((SQL[name], given), take))

    def _ask_for(self, name: str, take: Take, **arrays: list[Any]) -> None:
        """Ask about all of these, or not at all if there are none."""
        if any(arrays.values()):
            self._ask(name, arrays, take)

    def _ask_for_turns(self) -> None:
        # Sorted, so that two transactions never wait for each other.
        schema, commits = self._schema, self._commits
        turns = sorted({lock_number(schema, "run", one.workflow_id) for one in commits})
        self._ask("take_turns", {"numbers": turns}, None)
        keys = {lock_number(schema, "key", tool, key) for tool, key, _ in self._keys()}
        meters = {write.charge.meter for one in commits for write in one.charges}
        keys |= {lock_number(schema, "meter", meter) for meter in meters}
        if any(one.tools for one in commits):
            # Two processes that record the same tools in another order would wait for each other.
            keys.add(lock_number(schema, "tools"))
        if keys:
            self._ask("take_turns", {"numbers": sorted(keys)}, None)

    def _ask_for_records(self) -> None:
        commits = self._commits
        held = {one.workflow_id for one in commits if one.fence or one.claim or one.removal}
        self._ask_for("runs_for_commit", self.take_run, runs=sorted(held))
        others = {one.workflow_id for one in commits} - held
        self._ask_for("heads", lambda row: self.take_head(*row), runs=sorted(others))
        changed = [write.row.identity for one in commits for write in one.calls]
        self._ask_for("known_calls", self.take_call, **_call_arrays(changed))
        removed = [call for one in commits if one.removal for call in one.removal.calls]
        self._ask_for("known_calls", self.take_call, **_call_arrays(removed))
        dropped = [(one.workflow_id, version) for one in commits for version in one.dropped]
        runs, versions = _arrays(dropped, width=2)
        newest = {"runs": sorted(set(runs)), "dropped_of": runs, "dropped": versions}
        self._ask_for("newest_but", lambda row: self.take_newest(*row), **newest)
        keys = dict(zip(("tools", "keys", "hashes"), _arrays(self._keys(), width=3), strict=True))
        self._ask_for("key_conflicts", self.take_other_call, **keys)
        careful = sorted({one.workflow_id for one in commits if one.unless_blocked})
        self._ask_for("blocking_reviews", self.take_blocking_review, runs=careful)
        groups = {one.group for one in commits if one.unless_blocked and one.group is not None}
        take = self.take_blocking_review
        self._ask_for("reviews_of_groups", take, groups=sorted(groups))
        reviews = [write.review.review_id for one in commits for write in one.reviews]
        self._ask_for("known_reviews", self.take_review, reviews=reviews)
        self._ask_for_charges([write for one in commits for write in one.charges])
        events = [write.event for one in commits for write in one.events]
        taken = [(one.workflow_id, one.event_id) for one in events if one.received_by is not None]
        runs, names = _arrays(taken, width=2)
        self._ask_for("known_events", self.take_event, runs=runs, events=names)
        notices = sorted(write.notice.notice_id for one in commits for write in one.notices)
        self._ask_for("known_notices", self.take_notice, notices=notices)

    def _ask_for_charges(self, writes: Sequence[ChargeWrite]) -> None:
        """The charges themselves, because commits that share a transaction count each other's."""
        since: dict[str, int] = {}
        for write in writes:
            if write.at_most is not None:
                after = EVER if write.since is None else micros(write.since)
                since[write.charge.meter] = min(after, since.get(write.charge.meter, after))
        self._ask_for(
            "known_charges", self._take_charge, meters=list(since), since=list(since.values())
        )

    def _keys(self) -> list[tuple[str, str, str]]:
        """The keys of new calls: the tool, the key, and the hash of the arguments."""
        new = [write.row for one in self._commits for write in one.calls if write.after is None]
        return [
            (row.identity.tool_name, row.key, row.identity.input_hash)
            for row in new
            if row.key is not None
        ]

    def _take_setting(self, row: Any) -> None:
        _, _, self.synchronous_commit, self.is_here = row

    def _take_charge(self, row: Row) -> None:
        charge = CHARGES.record(row)
        self.data.charges[(charge.meter, charge.call_id)] = charge

    # What PostgreSQL does differently

    def _stored(self, row: Row) -> Row:
        return tuple(storable(row))

    def _added(self, table: Table[Any], row: Row) -> dict[str, Any]:
        return {**table.named(row), "once": once(table, row)}

    def _remove_calls(self, calls: Sequence[CallIdentity]) -> Iterator[Named]:
        if calls:
            yield "remove_calls", _call_arrays(calls)

    def _before_parent(self, parent_id: str) -> Iterator[Named]:
        # The parent may be about to wait for this very end. One of the two must come first.
        yield "take_turns", {"numbers": [lock_number(self._schema, "run", parent_id)]}


def once(table: Table[Any], row: Row) -> str:
    """A hash of everything that makes two items the same."""
    text = "".join(f"{len(str(part))}:{part}" for part in table.where(storable(row)))
    return hashlib.sha256(text.encode()).hexdigest()


def _call_arrays(calls: Sequence[CallIdentity]) -> dict[str, list[Any]]:
    return dict(zip(_CALL_ARRAYS, _arrays(calls, width=5), strict=True))


def _arrays(found: Sequence[Sequence[Any]], *, width: int) -> list[list[Any]]:
    """Rows as arrays, one per column."""
    return [list(column) for column in zip(*found, strict=True)] if found else [[]] * width
