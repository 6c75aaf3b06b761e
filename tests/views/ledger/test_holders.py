"""Is every process that holds a run listed, whatever kind of run it is?"""

from __future__ import annotations

from pathlib import Path

from nottwice.guard.ledger import Ledger
from nottwice.model.run import Life
from nottwice.views.ledger.holders import count_alive, read_holders
from tests.cli.workplace import Workplace


def test_a_process_that_holds_a_plain_run_is_listed_while_it_holds_it(tmp_path: Path) -> None:
    with Ledger(tmp_path / "a.db") as ledger:
        with ledger.run("plain"):
            (holder,) = read_holders(ledger.store)
            assert (holder.life, holder.runs) == (Life.ALIVE, ("plain",))
            assert count_alive(ledger.store) == 1
        assert read_holders(ledger.store) == ()
        assert count_alive(ledger.store) == 0


def test_a_killed_process_is_listed_and_not_counted_as_alive(killed: Workplace) -> None:
    with Ledger(killed.store, create=False) as ledger:
        (holder,) = [one for one in read_holders(ledger.store) if "ticket-7" in one.runs]
        assert holder.life is Life.DEAD
        assert count_alive(ledger.store) == 0


def test_runs_of_graphs_are_listed_with_their_process(graph_runs: Workplace) -> None:
    with Ledger(graph_runs.store, create=False) as ledger:
        found = read_holders(ledger.store)
    assert sum("killed-1" in one.runs for one in found) == 1
