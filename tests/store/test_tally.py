"""Counts in memory. The conformance suite compares them with the counts in SQL."""

from __future__ import annotations

import pytest

from nottwice.errors import LedgerCorrupt
from nottwice.model.run import RunStatus
from nottwice.model.runs.tally import RunGroup
from nottwice.store.tally import group_from_sql


def test_a_counted_row_says_how_runs_stand() -> None:
    row = ("a@1.0.0", None, "waiting", 0, "timer,decided", 1, 7, 2_500_000)
    assert group_from_sql(row) == RunGroup(
        graph_id="a@1.0.0",
        version=None,
        status=RunStatus.WAITING,
        waits=("decided", "timer"),
        ready=True,
        runs=7,
        oldest_at=2.5,
    )


def test_the_version_of_runs_without_a_graph_is_in_their_input() -> None:
    found = group_from_sql((None, '{"version":"1.2.0"}', "completed", 0, None, 0, 3, 0))
    assert (found.version, found.runs, found.oldest_at) == ("1.2.0", 3, None)


@pytest.mark.parametrize(
    "row",
    [
        (None, "[", "completed", 0, "", 0, 1, 0),
        (None, '{"version":7}', "completed", 0, "", 0, 1, 0),
        ("a@1.0.0", None, "no status", 0, "", 0, 1, 0),
    ],
)
def test_what_nottwice_has_not_written_is_not_counted(row: tuple[object, ...]) -> None:
    with pytest.raises(LedgerCorrupt):
        group_from_sql(row)
