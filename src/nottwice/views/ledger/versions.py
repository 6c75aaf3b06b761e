"""Which versions of the code do open runs still need?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.versions.draining import VersionView, drains
from nottwice.views.shape import LEDGER, Timestamp, moment


@frozen_record(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """One version of a graph, or of other code, with the runs that are bound to it."""

    graph: Annotated[str | None, "name@version; null for runs that nt.run opened with a version"]
    version: Annotated[str, "the version alone"]
    runs: Annotated[int, "how many runs are bound to it"]
    open: Annotated[int, "how many of them are neither completed nor aborted"]
    oldest_at: Annotated[Timestamp | None, "when the oldest open run began, or null"]
    stand: Annotated[dict[str, int], "how many open runs wait for what, or are in which state"]
    taken_by: Annotated[
        str | None, "the deployed version that resumes its runs; null: none, or no --app"
    ]
    removal: Annotated[
        str,
        "safe, open_runs, new_runs, gone, missing, or unknown without --app; without "
        "a graph open_runs or no_open_runs",
    ]
    removal_text: str


@frozen_record(frozen=True, slots=True, kw_only=True)
class VersionList:
    """Every version that has runs or is deployed."""

    ledger: Annotated[str, LEDGER]
    versions: Annotated[
        tuple[VersionRow, ...], "every version that has runs or is deployed; see version"
    ]
    now: float


def list_versions(
    ledger: Ledger,
    *,
    prefix: str = "",
    graph: str | None = None,
    deployed: Sequence[str] | None = None,
) -> VersionList:
    """Every version with its open runs; ``deployed`` tells which code can take them."""
    now = ledger.clock.now()
    tally = ledger.store.tally(now=now, prefix=prefix, graph=graph)
    found = drains(tally.groups, deployed=deployed)
    return VersionList(ledger=ledger.location, versions=tuple(map(_row, found)), now=now)


def _row(version: VersionView) -> VersionRow:
    return VersionRow(
        graph=version.graph_id,
        version=version.version,
        runs=version.runs,
        open=version.open,
        oldest_at=moment(version.oldest_at),
        stand=dict(version.waits),
        taken_by=version.taken_by,
        removal=version.removal.name.lower(),
        removal_text=version.removal.value,
    )
