"""What some commits need to know before they are decided, as arrays for the server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nottwice.model.call import CallRow
from nottwice.store import rows
from nottwice.store.interface import Commit

EVER = -(1 << 62)


def new_rows(commits: Iterable[Commit]) -> list[CallRow]:
    return [write.row for one in commits for write in one.calls if write.after is None]


def key_words(row: CallRow) -> tuple[str, str, str]:
    return "key", row.identity.tool_name, str(row.key)


def key_use(row: CallRow) -> tuple[str, str, str]:
    return row.identity.tool_name, str(row.key), row.identity.input_hash


def held_runs(commits: Iterable[Commit]) -> list[str]:
    return sorted({one.workflow_id for one in commits if one.fence or one.claim or one.removal})


def other_runs(commits: Iterable[Commit]) -> list[str]:
    """Those of commits by others than the holder."""
    return sorted(
        {one.workflow_id for one in commits if not (one.fence or one.claim or one.removal)}
    )


def removed(commits: Iterable[Commit]) -> list[Sequence[str]]:
    return [call for one in commits if one.removal is not None for call in one.removal.calls]


def dropped(commits: Sequence[Commit]) -> list[list[Any]]:
    pairs = [(one.workflow_id, version) for one in commits for version in one.dropped]
    return [sorted({run for run, _ in pairs}), [run for run, _ in pairs], [one for _, one in pairs]]


def careful_runs(commits: Iterable[Commit]) -> list[str]:
    return sorted({one.workflow_id for one in commits if one.unless_blocked})


def identities(commits: Iterable[Commit]) -> list[Sequence[str]]:
    return [write.row.identity for one in commits for write in one.calls]


def review_ids(commits: Iterable[Commit]) -> list[str]:
    return [write.review.review_id for one in commits for write in one.reviews]


def taken_events(commits: Iterable[Commit]) -> list[Sequence[str]]:
    events = [write.event for one in commits for write in one.events]
    return [(one.workflow_id, one.event_id) for one in events if one.received_by is not None]


def looking_back(commits: Iterable[Commit], meters: Sequence[str]) -> list[int]:
    """For each meter since when its charges matter to one of the commits."""
    writes = [write for one in commits for write in one.charges if write.at_most is not None]
    return [
        min(
            (
                EVER if write.since is None else rows.micros(write.since)
                for write in writes
                if write.charge.meter == meter
            ),
            default=-EVER,
        )
        for meter in meters
    ]


def columns(found: Iterable[Sequence[str]], width: int) -> list[list[str]]:
    """Rows as arrays, one a column."""
    kept = list(found)
    return [[row[number] for row in kept] for number in range(width)]
