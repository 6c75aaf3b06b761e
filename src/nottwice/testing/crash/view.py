"""What is durable: every ledger of an examination as records, read through the public store.

Opening a ledger lets SQLite recover its log. Reading changes nothing else.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from nottwice.errors import LedgerTampered, NoLedger
from nottwice.guard.settings.keyring import find_keyring
from nottwice.model.call import CallRow
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Evidence, Review
from nottwice.model.run import CheckpointRecord, EventRecord, RunRecord, StepRecord
from nottwice.model.sealing.seal import Seals
from nottwice.store import tables
from nottwice.store.files import document
from nottwice.store.files.store import OWN_FOLDER, JsonFileStore
from nottwice.store.interface import Store
from nottwice.store.sqlite.store import SqliteStore
from nottwice.store.table import Table
from nottwice.testing.crash.inside.scratch import NOTE, scratch_url


@frozen_record(frozen=True, slots=True)
class View:
    """All ledgers of an examination together, at one moment."""

    runs: tuple[RunRecord, ...] = ()
    calls: tuple[CallRow, ...] = ()
    steps: tuple[StepRecord, ...] = ()
    reviews: tuple[Review, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    events: tuple[EventRecord, ...] = ()
    checkpoints: tuple[CheckpointRecord, ...] = ()
    """What the newest version of each run is rebuilt from, in order."""

    def run(self, workflow_id: str) -> RunRecord | None:
        return next((run for run in self.runs if run.workflow_id == workflow_id), None)

    def row(self, call_id: str) -> CallRow | None:
        return next((row for row in self.calls if row.call_id == call_id), None)


NOTHING = View()
THIRD_PARTY = "third-party-"
"""Prefix of the folders in which stores that nottwice does not know keep their ledgers."""

_TABLES: dict[str, Table[Any]] = {
    "runs": tables.RUNS,
    "calls": tables.CALLS,
    "steps": tables.STEPS,
    "reviews": tables.REVIEWS,
    "evidence": tables.EVIDENCE,
    "events": tables.EVENTS,
    "checkpoints": tables.CHECKPOINTS,
}


def look(folder: Path, *, now: float, also: Iterable[Store] = ()) -> View:
    """Read everything that is durable in ``folder``. An unfinished ledger is empty.

    ``also`` are third-party ledgers, which only their own code can open.
    """
    found: dict[str, list[Any]] = {name: [] for name in _TABLES}
    for store in also:
        _gather(store, found)
    for path in ledgers_in(folder):
        with contextlib.suppress(NoLedger):
            _gather(open_store(path, now=now), found)
    return View(**{name: tuple(records) for name, records in found.items()})


def open_store(path: Path, *, now: float) -> Store:
    """Open the ledger at a path of an examination, or the one that a note there names."""
    keyring = find_keyring()
    seals = None if keyring is None else Seals(keyring)
    if path.name == NOTE:
        from nottwice.store.postgres.store import PostgresStore

        return PostgresStore(scratch_url() or "", now=now, create=False, seals=seals)
    kind = JsonFileStore if path.is_dir() else SqliteStore
    return kind(path, now=now, create=False, seals=seals)


def ledgers_in(folder: Path) -> list[Path]:
    """Return the ledgers of an examination: JSON folders, and SQLite files without side files."""
    beside = ("-wal", "-shm", "-journal", ".holders")
    return [
        path
        for path in sorted(folder.iterdir())
        if not path.name.startswith(THIRD_PARTY)
        if (path.is_dir() and (path / OWN_FOLDER).is_dir())
        or (path.is_file() and not path.name.endswith(beside))
    ]


def _gather(store: Store, found: dict[str, list[Any]]) -> None:
    runs = store.runs()
    found["runs"] += runs
    found["reviews"] += store.reviews()
    for run in runs:
        flaws = store.flaws(run.workflow_id, thorough=True)
        if flaws:
            raise LedgerTampered("; ".join(flaws))
        found["calls"] += store.calls(run.workflow_id)
        found["steps"] += store.steps(run.workflow_id)
        found["evidence"] += store.evidence(run.workflow_id)
        found["events"] += store.events(run.workflow_id)
        found["checkpoints"] += store.checkpoint_chain(run.workflow_id)


def to_plain(view: View) -> dict[str, Any]:
    """Return the view in the form that a child sends to its parent."""
    return {
        name: [
            [_run_of(record), document.to_plain(table, record)] for record in getattr(view, name)
        ]
        for name, table in _TABLES.items()
    }


def from_plain(plain: dict[str, Any]) -> View:
    read: Callable[[str], tuple[Any, ...]] = lambda name: tuple(  # noqa: E731
        document.from_plain(_TABLES[name], record, run_id) for run_id, record in plain[name]
    )
    return View(**{field.name: read(field.name) for field in dataclasses.fields(View)})


def _run_of(record: Any) -> str:
    identity = getattr(record, "identity", record)
    run_id: str = identity.workflow_id
    return run_id
