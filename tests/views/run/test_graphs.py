"""Is the progress of a run of a graph shown from the ledger alone?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import nottwice as nt
from nottwice.errors import UnknownRun
from nottwice.views.run.graphs import difference, history_of, progress_of, state_at
from tests.cli.workplace import Workplace


@pytest.fixture
def ledger(graph_runs: Workplace) -> Iterator[nt.Ledger]:
    with nt.Ledger(graph_runs.store, create=False) as opened:
        yield opened


def test_progress_has_state_version_and_the_mark_of_each_node(ledger: nt.Ledger) -> None:
    progress = progress_of(ledger, "done-1")
    assert progress.run.state == "completed"
    assert progress.run.is_final
    assert {node.status for node in progress.nodes} == {"done"}
    assert progress.version == history_of(ledger, "done-1").checkpoints[-1].version


def test_the_history_begins_with_the_input_and_names_the_node_before_each_version(
    ledger: nt.Ledger,
) -> None:
    first, second, *_ = history_of(ledger, "done-1").checkpoints
    assert (first.version, first.node, first.after) == (0, "/", "the input")
    assert second.after == second.node


def test_two_versions_are_compared(ledger: nt.Ledger) -> None:
    found = difference(ledger, "done-1", 0, 1)
    assert (found.from_, found.to) == (0, 1)
    before, after = (state_at(ledger, "done-1", version).state for version in (0, 1))
    assert bool(found.changes) is (before != after)


def test_a_run_that_does_not_exist_is_an_error_that_names_it(ledger: nt.Ledger) -> None:
    with pytest.raises(UnknownRun, match="'nothing'"):
        progress_of(ledger, "nothing")
