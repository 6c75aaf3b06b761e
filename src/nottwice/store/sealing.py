"""What does a SQL store seal when it writes, and check when it reads, if it has a key (L9)?

Every row ends with its seal. The calls of a run are also numbered, and the run keeps a head over
them (seal.py). Only the holder of a run writes its calls, so this process knows the heads of the
runs that it drives. When a transaction fails, it forgets all heads and reads them again. It trusts
only what it has read, or what it wrote and made durable. Promise kept here: P97.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

from nottwice.errors import KeyMissing, LedgerTampered
from nottwice.model.run import RunStatus
from nottwice.model.sealing.seal import Head, Seals, head_to_text
from nottwice.store.interface import Commit
from nottwice.store.table import Row, Table
from nottwice.store.tables import CALLS, CHANGING, RUNS

_MOST_REMEMBERED = 10_000
_MOST_NAMED = 10
_IN_DOUBT = ("PENDING", "UNKNOWN")


class Numbers(NamedTuple):
    """The position of a call within its run, and how often its row was written."""

    nth: int
    writes: int


class Sealing:
    """Seals and checks rows for one store of one process. Without a key it does neither."""

    def __init__(self, seals: Seals | None, *, location: str) -> None:
        self.seals = seals
        self._location = location
        self._heads: dict[tuple[str, int], Head] = {}
        self._numbers: dict[str, Numbers] = {}

    def describe(self) -> str:
        """Whether rows are sealed, as a text for the log."""
        if self.seals is None:
            return "rows are not sealed: no key was given"
        return f"rows are sealed with key {self.seals.keyring.current.id}"

    # Rows

    def put(self, table: Table[Any], row: Row) -> tuple[Any, ...]:
        """The row to write: with its seal, if there is a key."""
        if self.seals is None or not table.is_sealed:
            return tuple(row)
        return table.changed(row, seal=self.seals.seal(table.name, table.under_seal(row)))

    def claimed(self, row: Row, found: Row) -> tuple[Any, ...]:
        """The record of an existing run that is claimed. A claim does not repair a bad seal."""
        same = RUNS.under_seal(row) == RUNS.under_seal(found)
        if self.seals is None or same or self.flaw(RUNS, found) is not None:
            return RUNS.changed(row, seal=RUNS.value(found, "seal"))
        return self.put(RUNS, row)

    def check(self, table: Table[Any], found: list[Any]) -> list[Any]:
        """The same rows, if all are as nottwice wrote them; otherwise raises LedgerTampered."""
        if self.seals is not None and table.is_sealed:
            for row in found:
                flaw = self.flaw(table, row)
                if flaw is not None:
                    raise not_believed(table, row, flaw)
        return found

    def flaw(self, table: Table[Any], row: Row) -> str | None:
        """Why a row cannot be believed; None if it can."""
        assert self.seals is not None
        return self.seals.flaw(table.name, table.under_seal(row), table.value(row, "seal"))

    # Heads

    def check_may_write(self, workflow_id: str, head: str | None) -> None:
        """Refuse to write to a sealed run without its key: those rows would not be believed."""
        if head is None:
            return
        if self.seals is None:
            raise KeyMissing(
                f"Run {workflow_id!r} is sealed, and no key was given. Nothing was written. Set "
                "NOTTWICE_KEY_FILE or NOTTWICE_KEY to the key that the ledger was sealed with."
            )
        key_id = self.seals.unknown_key(head.rpartition("/")[2])
        if key_id is not None:
            known = ", ".join(key.id for key in self.seals.keyring.keys)
            raise KeyMissing(
                f"Run {workflow_id!r} is sealed with key {key_id}, and the keys here are {known}. "
                "Nothing was written. Put that key back, on a line below the newest one. If it is "
                "lost, and you know that the run is right as it is: nottwice audit --adopt "
                f"{shlex.quote(workflow_id)} --why TEXT --store {shlex.quote(self._location)}",
                key_id=key_id,
            )

    def known_head(self, workflow_id: str, epoch: int) -> Head | None:
        """The head of a run that this process has been driving since this epoch."""
        return self._heads.get((workflow_id, epoch))

    def known_numbers(self, call_id: str) -> Numbers | None:
        """The numbers of a call that this process wrote and that is not finished yet."""
        return self._numbers.get(call_id)

    def remember(
        self, workflow_id: str, epoch: int, head: Head, numbers: dict[str, Numbers | None]
    ) -> None:
        """Remember what was written. If it does not become durable, ``forget`` discards it."""
        if len(self._heads) + len(self._numbers) > _MOST_REMEMBERED:
            self.forget()
        self._heads[(workflow_id, epoch)] = head
        for call_id, known in numbers.items():
            if known is None:
                self._numbers.pop(call_id, None)
            else:
                self._numbers[call_id] = known

    def forget(self) -> None:
        """Forget everything: a transaction failed, so it is unknown which writes were kept."""
        self._heads.clear()
        self._numbers.clear()


class HeadChange:
    """What one commit adds to the head of its run, collected while the commit is planned."""

    def __init__(self, sealing: Sealing, commit: Commit, head: str | None) -> None:
        self._sealing = sealing
        self._commit = commit
        self._text = head
        self._before: Head | None = None
        self._added = self._written = 0
        self._seals: list[str] = []
        self._numbers: dict[str, Numbers | None] = {}

    def add(self, row: Row) -> tuple[Any, ...]:
        """The row of a new call, numbered and sealed."""
        if self._sealing.seals is None:
            return tuple(row)
        self._added += 1
        return self._sealed(row, Numbers(self._head().rows + self._added, 1))

    def change(self, row: Row, found: Row) -> tuple[Any, ...]:
        """The new row of an existing call; unchanged if the commit is a repetition."""
        # The row as it will be stored: what never changes about a call stays the same.
        said = CALLS.changed(found, **{name: CALLS.value(row, name) for name in CHANGING})
        if self._sealing.seals is None or said == tuple(found):
            return said
        if self._sealing.flaw(CALLS, found) is not None:
            # The outcome of the call is kept, but not sealed: the bad seal stays bad.
            return said
        numbers = Numbers(CALLS.value(found, "nth"), CALLS.value(found, "writes") + 1)
        return self._sealed(said, numbers)

    def remove(self, found: Row) -> None:
        """Record that a call is removed, as retention does."""
        self._added -= 1
        self._written -= CALLS.value(found, "writes")
        self._seals.append(f"without {CALLS.value(found, 'seal')}")

    def head(self, *, newest: int | None = None) -> str | None:
        """The head after this commit, to be written with it; None if it does not change.

        ``newest``: the newest remaining checkpoint, if this commit removed one.
        """
        seals, commit = self._sealing.seals, self._commit
        ended = _end_of(commit)
        versions = [one.version for one in commit.checkpoints]
        if seals is None or not (self._seals or versions or ended or newest is not None):
            return None
        try:
            before = self._head()
        except LedgerTampered:
            if self._seals or versions:
                raise
            # The run only ends. Its head does not fit already, and stays that way.
            return None
        link = seals.link(before, self._seals) if self._seals else before.link
        version = max(newest if newest is not None else before.version, *versions, -1)
        rows_now, writes_now = before.rows + self._added, before.writes + self._written
        after = seals.sealed(commit.workflow_id, Head(rows_now, writes_now, version, ended, link))
        if _epoch(commit) >= 0:
            self._sealing.remember(commit.workflow_id, _epoch(commit), after, self._numbers)
        return head_to_text(after)

    def _sealed(self, row: Row, numbers: Numbers) -> tuple[Any, ...]:
        sealed = self._sealing.put(CALLS, CALLS.changed(row, **numbers._asdict()))
        self._written += 1
        self._seals.append(CALLS.value(sealed, "seal"))
        in_doubt = CALLS.value(row, "status") in _IN_DOUBT
        self._numbers[CALLS.value(row, "call_id")] = numbers if in_doubt else None
        return sealed

    def _head(self) -> Head:
        if self._before is None:
            assert self._sealing.seals is not None
            run = self._commit.workflow_id
            # Other processes may change a run that this process does not hold.
            epoch = _epoch(self._commit)
            known = self._sealing.known_head(run, epoch) if epoch >= 0 else None
            self._before = known or self._sealing.seals.head_from_text(run, self._text)
        return self._before


def _epoch(commit: Commit) -> int:
    if commit.claim is not None:
        return commit.claim.run.epoch
    return -1 if commit.fence is None else commit.fence.epoch


def _end_of(commit: Commit) -> str:
    if commit.removal is not None:
        return RunStatus.REMOVED.value
    status = None if commit.run is None else commit.run.status
    return status.value if status is not None and status.is_final else ""


def flaws_of_run(
    sealing: Sealing, run: Row, head: str | None, *, calls: int, writes: int, newest: int
) -> list[str]:
    """What does not add up in a run: its own row, and its head compared with its rows."""
    assert sealing.seals is not None
    name = RUNS.value(run, "workflow_id")
    flaw = sealing.flaw(RUNS, run)
    flaws = [] if flaw is None else [f"the record of run {name!r} cannot be trusted: {flaw}"]
    try:
        said = sealing.seals.head_from_text(name, head)
    except LedgerTampered as error:
        return [*flaws, str(error)]
    if calls != said.rows:
        flaws.append(f"run {name!r} has {calls:,} calls, but its head says {said.rows:,}")
    elif writes != said.writes:
        flaws.append(
            f"the calls of run {name!r} were written {writes:,} times, but its head says "
            f"{said.writes:,}: some rows were set back to an earlier state"
        )
    if newest != said.version:
        flaws.append(
            f"the newest checkpoint of run {name!r} is {newest}, but its head says {said.version}"
        )
    status = RunStatus(RUNS.value(run, "status"))
    if status.is_final and status.value != said.ended:
        flaws.append(f"run {name!r} has the status {status.value}, but its head does not say so")
    return flaws


def flaws_of_order(
    sealing: Sealing, name: str, numbers: Sequence[int], head: str | None
) -> list[str]:
    """What the numbers of a run's calls show: calls that are missing or out of order."""
    assert sealing.seals is not None
    flaws = []
    if list(numbers) != sorted(numbers):
        flaws.append(f"calls of run {name!r} are out of order")
    last = max(numbers, default=0)
    known = set(numbers)
    missing = [str(nth) for nth in range(1, last + 1) if nth not in known]
    if missing:
        shown = ", ".join(missing[:_MOST_NAMED]) + (" …" if len(missing) > _MOST_NAMED else "")
        flaws.append(f"calls are missing from the middle of run {name!r}: {shown}")
    with contextlib.suppress(LedgerTampered):
        rows_ever = sealing.seals.head_from_text(name, head).rows
        if last < rows_ever:
            flaws.append(f"calls are missing from the end of run {name!r}: all after {last:,}")
    return flaws


def not_believed(table: Table[Any], row: Row, flaw: str) -> LedgerTampered:
    where = list(table.where(row))
    return LedgerTampered(
        f"The ledger holds a row of {table.name} that cannot be trusted: {flaw}. It is at "
        f"{where!r}. nottwice did not act on it. List everything that does not fit: "
        "nottwice audit --verify"
    )
