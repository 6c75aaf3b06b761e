"""Is what is told about a run true, on ledgers that killed processes left?"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import nottwice as nt
from nottwice.cli import views
from nottwice.errors import UsageError
from nottwice.guard.ledger import Ledger, open_ledger
from nottwice.guard.upkeep import on_record
from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.run import Life, RunRecord
from nottwice.store.interface import Store
from tests.cli.workplace import Workplace


@pytest.fixture
def ledger(killed: Workplace) -> Iterator[Ledger]:
    with open_ledger(killed.store, create=False) as opened:
        yield opened


def state_of(ledger: Ledger, run_id: str) -> str:
    (view,) = views.list_runs(ledger, prefix=run_id, states=())
    return view.state


def test_a_run_whose_process_was_killed_is_interrupted(ledger: Ledger) -> None:
    assert state_of(ledger, "ticket-7") == "interrupted"
    assert state_of(ledger, "ticket-8") == "waiting"
    assert state_of(ledger, "done-1") == "completed"


def test_a_run_of_a_live_process_is_running(tmp_path: Path) -> None:
    with nt.open(tmp_path / "live.db") as ledger, ledger.run("here"):
        (view,) = views.list_runs(ledger, prefix="", states=())
        assert (view.state, view.holder_life) == ("running", Life.ALIVE)


def test_runs_are_chosen_by_state_and_by_a_literal_beginning(ledger: Ledger) -> None:
    def found(prefix: str, *states: str) -> set[str]:
        chosen = views.list_runs(ledger, prefix=prefix, states=states)
        return {view.run.workflow_id for view in chosen}

    assert found("ticket-", "interrupted") == {"ticket-7"}
    assert found("", "completed", "interrupted") == {"ticket-7", "done-1"}
    assert found("[red]") == {"[red]evil[/red]"}
    assert found("ticket_") == set()
    assert found("%") == set()


def test_the_overview_counts_runs_reviews_and_doubts(ledger: Ledger) -> None:
    overview = views.look_over(ledger)
    assert overview.states == {
        "queued": 0,
        "running": 0,
        "interrupted": 1,
        "waiting": 3,
        "completed": 1,
        "failed": 0,
        "aborted": 0,
        "removed": 0,
    }
    assert (overview.open_reviews, len(overview.cases)) == (3, 3)
    assert overview.decided_reviews == 0
    assert overview.more == 0
    assert overview.calls_in_doubt == 4
    assert [view.run.workflow_id for view in overview.interrupted] == ["ticket-7"]


def test_a_run_is_found_by_a_beginning_that_fits_only_one(ledger: Ledger) -> None:
    assert views.find_run(ledger, "done", list_command="").workflow_id == "done-1"
    assert views.find_run(ledger, "[red]", list_command="").workflow_id == "[red]evil[/red]"
    with pytest.raises(UsageError, match="beginning of several runs: 'ticket-"):
        views.find_run(ledger, "ticket-", list_command="")


def test_an_exact_id_wins_over_longer_ones(tmp_path: Path) -> None:
    with nt.open(tmp_path / "a.db") as ledger:
        for run_id in ("a", "ab"):
            with ledger.run(run_id):
                pass
        assert views.find_run(ledger, "a", list_command="").workflow_id == "a"


def test_a_run_is_found_by_its_review(ledger: Ledger, killed: Workplace) -> None:
    review_id = killed.review_of("ticket-8")
    assert views.find_run(ledger, review_id[:6], list_command="").workflow_id == "ticket-8"


@pytest.mark.parametrize("name", ["", "nothing", "DONE-1", "done-1 "])
def test_a_run_that_is_not_there_is_not_found(name: str, ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="List them with: nottwice runs"):
        views.find_run(ledger, name, list_command="nottwice runs")


def test_the_cut_is_the_call_whose_attempt_never_came_back(ledger: Ledger) -> None:
    run = views.find_run(ledger, "ticket-8", list_command="")
    details = views.look_into(ledger, run, limit=None)
    assert [row.identity.tool_name for row in details.cut_off] == ["send_email"]
    assert [call.row.identity.tool_name for call in details.calls] == [
        "get_order",
        "refund",
        "print_label",
        "send_email",
    ]
    (review,) = details.waits_for
    assert details.calls[-1].reviews == (review,)
    assert {item.source for item in details.calls[-1].evidence} == {
        "ownership",
        "verify",
        "engine",
    }


def test_beyond_the_limit_the_last_calls_and_those_in_doubt_are_kept(ledger: Ledger) -> None:
    run = views.find_run(ledger, "ticket-8", list_command="")
    details = views.look_into(ledger, run, limit=1)
    assert [call.row.identity.tool_name for call in details.calls] == ["send_email"]
    assert (details.omitted_calls, details.omitted_steps) == (3, 0)


def test_a_call_in_doubt_is_kept_however_early_it_was(tmp_path: Path) -> None:
    @nt.tool("unsafe_on_replay", name="views_doubtful")
    def doubtful() -> None:
        raise RuntimeError("the connection broke")

    @nt.tool("pure", name="views_pure")
    def look(number: int) -> int:
        return number

    with nt.open(tmp_path / "agent.db") as ledger:
        with ledger.run("early"):
            with pytest.raises(nt.ReplayUnsafeError):
                doubtful()
            for number in range(5):
                look(number)
        run = views.find_run(ledger, "early", list_command="")
        details = views.look_into(ledger, run, limit=2)
    kept = [call.row.identity.tool_name for call in details.calls]
    assert kept == ["views_doubtful", "views_pure", "views_pure"]
    assert details.omitted_calls == 3


def test_only_what_is_not_zero_is_counted_in_words() -> None:
    assert views.count_text([("open", 2), ("decided", 0)]) == "2 open"
    assert views.count_text([("open", 0)]) == "none"


class Loads:
    """A store that counts the runs and reviewed calls that it hands out."""

    reads_can_block = False

    def __init__(self, store: Store) -> None:
        self._store = store
        self.runs_loaded = 0
        self.calls_loaded = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def runs(self, **asked: Any) -> list[RunRecord]:
        found = self._store.runs(**asked)
        self.runs_loaded += len(found)
        return found

    def load_call(self, identity: CallIdentity) -> CallRow | None:
        self.calls_loaded += 1
        return self._store.load_call(identity)


@nt.tool("unsafe_on_replay", name="views_post")
def post(ticket: int) -> None:
    raise TimeoutError("no answer")


def many_runs(ledger: Ledger, *, completed: int, in_doubt: int) -> None:
    for number in range(completed):
        with ledger.run(f"done-{number}"):
            pass
    for number in range(in_doubt):
        with contextlib.suppress(nt.ReplayUnsafeError), ledger.run(f"open-{number}"):
            post(number)


def test_runs_that_are_over_or_wait_are_counted_and_not_loaded(tmp_path: Path) -> None:
    """P171."""
    with nt.open(tmp_path / "agent.db") as ledger:
        many_runs(ledger, completed=60, in_doubt=views.MOST_LOADED + 3)
        loads = Loads(ledger.store)
        overview = views.look_over(Ledger(cast(Store, loads), clock=ledger.clock))
    open_ones = views.MOST_LOADED + 3
    assert (overview.states["completed"], overview.states["waiting"]) == (60, open_ones)
    assert (overview.calls_in_doubt, overview.waiting["review"]) == (open_ones, open_ones)
    assert (overview.open_reviews, len(overview.cases)) == (open_ones, views.MOST_LOADED)
    assert overview.more == 3
    assert (loads.runs_loaded, loads.calls_loaded) == (0, views.MOST_LOADED)


def test_a_list_loads_the_runs_that_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P171."""
    monkeypatch.setattr(on_record, "PAGE", 5)
    with nt.open(tmp_path / "agent.db") as ledger:
        many_runs(ledger, completed=30, in_doubt=2)
        loads = Loads(ledger.store)
        asked = Ledger(cast(Store, loads), clock=ledger.clock)
        shown = itertools.islice(views.list_runs(asked, prefix="done-", states=()), 5)
        assert [view.run.workflow_id for view in shown] == [f"done-{n}" for n in range(29, 24, -1)]
        assert loads.runs_loaded == 5
        assert views.count_runs(asked, prefix="done-", states=()) == 30
        assert views.count_runs(asked, prefix="", states=("waiting", "failed")) == 2
        assert loads.runs_loaded == 5
