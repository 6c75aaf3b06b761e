"""Is what is told about a run true, on ledgers that killed processes left?"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

import nottwice as nt
from nottwice.errors import UsageError
from nottwice.guard.ledger import Ledger
from nottwice.guard.upkeep import on_record
from nottwice.model.run import Life
from nottwice.store.interface import Store
from nottwice.views.runs import count_runs, find_run, list_runs
from tests.cli.workplace import Workplace
from tests.views.loads import Loads, many_runs


@pytest.fixture
def ledger(killed: Workplace) -> Iterator[Ledger]:
    with Ledger(killed.store, create=False) as opened:
        yield opened


def state_of(ledger: Ledger, run_id: str) -> str:
    (view,) = list_runs(ledger, prefix=run_id, states=())
    return view.state


def test_a_run_whose_process_was_killed_is_interrupted(ledger: Ledger) -> None:
    assert state_of(ledger, "ticket-7") == "interrupted"
    assert state_of(ledger, "ticket-8") == "waiting"
    assert state_of(ledger, "done-1") == "completed"


def test_a_run_of_a_live_process_is_running(tmp_path: Path) -> None:
    with nt.Ledger(tmp_path / "live.db") as ledger, ledger.run("here"):
        (view,) = list_runs(ledger, prefix="", states=())
        assert (view.state, view.holder_life) == ("running", Life.ALIVE)


def test_runs_are_chosen_by_state_and_by_a_literal_beginning(ledger: Ledger) -> None:
    def found(prefix: str, *states: str) -> set[str]:
        chosen = list_runs(ledger, prefix=prefix, states=states)
        return {view.run_id for view in chosen}

    assert found("ticket-", "interrupted") == {"ticket-7"}
    assert found("", "completed", "interrupted") == {"ticket-7", "done-1"}
    assert found("[red]") == {"[red]evil[/red]"}
    assert found("ticket_") == set()
    assert found("%") == set()


def test_a_run_is_found_by_a_beginning_that_fits_only_one(ledger: Ledger) -> None:
    assert find_run(ledger, "done", list_command="").run_id == "done-1"
    assert find_run(ledger, "[red]", list_command="").run_id == "[red]evil[/red]"
    with pytest.raises(UsageError, match="beginning of several runs: 'ticket-"):
        find_run(ledger, "ticket-", list_command="")


def test_an_exact_id_wins_over_longer_ones(tmp_path: Path) -> None:
    with nt.Ledger(tmp_path / "a.db") as ledger:
        for run_id in ("a", "ab"):
            with ledger.run(run_id):
                pass
        assert find_run(ledger, "a", list_command="").run_id == "a"


def test_a_run_is_found_by_its_review(ledger: Ledger, killed: Workplace) -> None:
    review_id = killed.review_of("ticket-8")
    assert find_run(ledger, review_id[:6], list_command="").run_id == "ticket-8"


@pytest.mark.parametrize("name", ["", "nothing", "DONE-1", "done-1 "])
def test_a_run_that_is_not_there_is_not_found(name: str, ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="List them with: nottwice runs"):
        find_run(ledger, name, list_command="nottwice runs")


def test_a_list_loads_the_runs_that_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P171."""
    monkeypatch.setattr(on_record, "PAGE", 5)
    with nt.Ledger(tmp_path / "agent.db") as ledger:
        many_runs(ledger, completed=30, in_doubt=2)
        loads = Loads(ledger.store)
        asked = Ledger(cast(Store, loads), clock=ledger.clock)
        shown = itertools.islice(list_runs(asked, prefix="done-", states=()), 5)
        assert [view.run_id for view in shown] == [f"done-{n}" for n in range(29, 24, -1)]
        assert loads.runs_loaded == 5
        assert count_runs(asked, prefix="done-", states=()) == 30
        assert count_runs(asked, prefix="", states=("waiting", "failed")) == 2
        assert loads.runs_loaded == 5
