"""What is the state of the ledger, and who continues what waits in it?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from nottwice.guard.ledger import Ledger
from nottwice.guard.upkeep.backup import BACKED_UP
from nottwice.model.data.records import frozen_record
from nottwice.store.interface import LEDGER as OF_THE_LEDGER
from nottwice.store.postgres.place import is_postgres
from nottwice.views.commands import CommandLine
from nottwice.views.ledger.activity import Activity, activity_since
from nottwice.views.ledger.behind import decisions_behind
from nottwice.views.ledger.holders import HolderView, read_holders
from nottwice.views.ledger.overview import Overview, look_over
from nottwice.views.ledger.workers import WorkerList, list_workers, states_of
from nottwice.views.people.inbox import GROUP_OF
from nottwice.views.run.resuming import who_resumes
from nottwice.views.runs import RunView, list_runs
from nottwice.views.shape import LEDGER, Timestamp, moment
from nottwice.views.text import shorten

DAY_SECONDS = 86400.0
MOST_RUNS = 500
MOST_CALLS = 20_000
MOST_FINDINGS = 10
_AGES = {"all": 0.0, "over 10 min": 600.0, "over 1 h": 3600.0, "over 1 d": DAY_SECONDS}


@frozen_record(frozen=True, slots=True, kw_only=True)
class LedgerView:
    """The ledger in figures, and what needs attention."""

    ledger: Annotated[str, LEDGER]
    kind: Annotated[str, "SQLite, PostgreSQL, JSON files, or another store"]
    bytes: Annotated[int | None, "how large it is on this disk, or null if that is not known"]
    sealed: Annotated[bool, "whether new rows are sealed by this process"]
    backed_up_at: Annotated[Timestamp | None, "when it was last copied with `backup`, or null"]
    overview: Annotated[Overview, "runs by state, reviews, and what to type next"]
    activity: Annotated[Activity, "what was done in the last 24 hours; see activity"]
    doubts: Annotated[int, "how many doubts wait for a person"]
    open_by_age: Annotated[dict[str, int], "how many reviews have been open for longer than that"]
    oldest_seconds: Annotated[float | None, "how long the oldest open review has waited, or null"]
    decided: Annotated[dict[str, int], "how many reviews each person decided in the last 24 hours"]
    holders: Annotated[tuple[HolderView, ...], "the processes that hold runs; see holder"]
    workers: Annotated[WorkerList, "the workers, including those that wait for work; see workers"]
    findings: Annotated[tuple[str, ...], "what waits, and no living process is known for it"]
    now: float


def look_at_ledger(ledger: Ledger, commands: CommandLine) -> LedgerView:
    """The ledger as a whole."""
    store, now = ledger.store, ledger.clock.now()
    overview = look_over(ledger, commands)
    asked = [review for review in store.open_reviews() if review.decision is None]
    waited = [now - review.opened_at for review in asked]
    entries = [one for one in store.audit(OF_THE_LEDGER) if one.action == BACKED_UP]
    return LedgerView(
        ledger=ledger.location,
        kind=_kind(ledger.location),
        bytes=_size(ledger.location),
        sealed=ledger.keyring is not None,
        backed_up_at=moment(entries[-1].at if entries else None),
        overview=overview,
        activity=activity_since(ledger, DAY_SECONDS, most_runs=MOST_RUNS, most_calls=MOST_CALLS),
        doubts=sum(GROUP_OF[review.kind] == "in doubt" for review in asked),
        open_by_age={name: sum(one >= least for one in waited) for name, least in _AGES.items()},
        oldest_seconds=max(waited, default=None),
        decided=decisions_behind(ledger, DAY_SECONDS, rows=0).by,
        holders=read_holders(store),
        workers=list_workers(ledger),
        findings=_findings(ledger, overview, commands),
        now=now,
    )


def _findings(ledger: Ledger, overview: Overview, commands: CommandLine) -> tuple[str, ...]:
    """Runs that could continue now, and no living process is known that would."""
    ready: list[RunView] = [*overview.ready, *overview.interrupted]
    if overview.runs["queued"]:
        ready += list(list_runs(ledger, states=("queued",)))[:1]
    found: dict[str, None] = {}
    workers = states_of(ledger)
    for run in ready:
        resumption = who_resumes(ledger, run, commands, workers)
        if resumption.is_finding:
            found.setdefault(
                f"{shorten(run.run_id, 80)} ({run.state}) could continue. {resumption.text}"
            )
    if overview.copied_at is not None:
        found.setdefault("This ledger is a copy that is not accounted for.")
    found.update(dict.fromkeys(overview.unreadable))
    return tuple(found)[:MOST_FINDINGS]


def _kind(location: str) -> str:
    if is_postgres(location):
        return "PostgreSQL"
    path = Path(location)
    return "JSON files" if path.is_dir() else "SQLite" if path.is_file() else "another store"


def _size(location: str) -> int | None:
    """How many bytes the files of a ledger have; None if it is not on this disk."""
    path = Path(location)
    try:
        if path.is_file():
            logs = [path, path.with_name(f"{path.name}-wal")]
            return sum(one.stat().st_size for one in logs if one.exists())
        if not path.is_dir():
            return None
        with os.scandir(path) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.is_file())
    except OSError:
        return None
