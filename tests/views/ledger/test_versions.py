"""Does each version show the runs that still need it?"""

from __future__ import annotations

import nottwice as nt
from nottwice.views.ledger.versions import list_versions
from tests.cli.workplace import Workplace


def test_each_version_shows_its_open_runs_and_whether_its_code_is_needed(
    graph_runs: Workplace,
) -> None:
    with nt.Ledger(graph_runs.store, create=False) as ledger:
        unknown = list_versions(ledger, graph="order")
        known = list_versions(ledger, graph="order", deployed=[])
    (row,) = unknown.versions
    assert (row.graph, row.version, row.removal) == ("order@1.0.0", "1.0.0", "unknown")
    assert row.open == sum(row.stand.values()) == 2
    assert [one.removal for one in known.versions] == ["missing"]
