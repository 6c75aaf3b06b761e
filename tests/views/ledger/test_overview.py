"""Does the overview count everything, and load only what it shows?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import nottwice as nt
from nottwice.guard.ledger import Ledger
from nottwice.guard.upkeep.on_record import PAGE
from nottwice.store.interface import Store
from nottwice.store.sql_store import SqlStore
from nottwice.store.statements import Parameters
from nottwice.views.ledger import overview as module
from nottwice.views.ledger.overview import MOST_LOADED, look_over
from nottwice.views.ledger.readiness import count_ready
from nottwice.views.people.reviews import list_reviews
from nottwice.views.runs import MOST_ROWS, show_runs
from tests.cli.workplace import Workplace
from tests.engine.doubts.test_reconcile import AFTER_THE_INTENT
from tests.fakes import Host
from tests.views.loads import Loads, many_runs


@pytest.fixture
def ledger(killed: Workplace) -> Iterator[Ledger]:
    with Ledger(killed.store, create=False) as opened:
        yield opened


def test_the_overview_counts_runs_reviews_and_doubts(ledger: Ledger) -> None:
    overview = look_over(ledger)
    assert overview.runs == {
        "queued": 0,
        "running": 0,
        "interrupted": 1,
        "waiting": 3,
        "idle": 0,
        "completed": 1,
        "failed": 0,
        "aborted": 0,
        "removed": 0,
    }
    assert (overview.reviews["open"], len(overview.pressing)) == (3, 3)
    assert overview.reviews["decided"] == 0
    assert overview.more == 0
    assert overview.calls_in_doubt == 4
    assert [run.run_id for run in overview.interrupted] == ["ticket-7"]


def test_what_to_type_next_begins_with_the_most_dangerous_review(tmp_path: Path) -> None:
    """P412."""
    with nt.Ledger(tmp_path / "agent.db") as ledger:
        for number in range(MOST_LOADED + 1):
            with pytest.raises(nt.errors.QuestionOpen), ledger.run(f"desk-{number}"):
                nt.ask("May it?")
        many_runs(ledger, completed=0, in_doubt=1)
        overview = look_over(ledger)
        (doubt,) = ledger.store.open_reviews("open-0")
    assert overview.next[0].endswith(f"decide {doubt.review_id}")
    assert [one.kind.value for one in overview.pressing[:2]] == ["in doubt", "question"]


def test_runs_that_are_over_or_wait_are_counted_and_not_loaded(tmp_path: Path) -> None:
    """P171."""
    with nt.Ledger(tmp_path / "agent.db") as ledger:
        many_runs(ledger, completed=60, in_doubt=MOST_LOADED + 3)
        loads = Loads(ledger.store)
        overview = look_over(Ledger(cast(Store, loads), clock=ledger.clock))
    open_ones = MOST_LOADED + 3
    assert (overview.runs["completed"], overview.runs["waiting"]) == (60, open_ones)
    assert (overview.calls_in_doubt, overview.waiting["review"]) == (open_ones, open_ones)
    assert (overview.reviews["open"], len(overview.pressing)) == (open_ones, MOST_LOADED)
    assert overview.more == 3
    assert (loads.runs_loaded, loads.calls_loaded) == (0, MOST_LOADED)


@pytest.mark.parametrize("most", [1_000, 2])
def test_a_run_that_was_retried_needs_a_worker_and_no_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(module, "MOST_LOOKED_AT", most, raising=False)
    flow: nt.Graph[Any] = nt.Graph("flow", version="1.0.0")

    @flow.node
    def fail(state: Any) -> None:
        raise ValueError("down")

    with nt.Ledger(tmp_path / "agent.db") as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        inputs = dict.fromkeys(("a", "b", "c"))
        app.enqueue_all("flow", inputs)
        nt.Worker(app).run(until_idle=True)
        assert app.enqueue_all("flow", inputs, retry=True) == 3
        overview = look_over(ledger)
        assert (overview.interrupted, overview.more) == ((), 0)
        (hint,) = overview.hints
        assert hint.command.startswith("nottwice worker")
        assert hint.reason == "3 runs were retried or handed back: a worker continues them"
        # No worker takes a fork.
        flow.fork("a", to="fork", store=ledger)
        overview = look_over(ledger)
        assert ([run.run_id for run in overview.interrupted], overview.more) == (["fork"], 0)
        assert "'fork' was interrupted" in overview.hints[0].reason
        assert overview.hints[1] == hint


def queued(ledger: Ledger, runs: int) -> Counter[str]:
    """Enqueue runs, and count the statements and rows that it takes to look at the ledger."""
    flow: nt.Graph[Any] = nt.Graph("flow", version="1.0.0")
    flow.node(name="only")(lambda state: {})
    nt.App(graphs=[flow], store=ledger).enqueue_all("flow", {f"{n:04}": {} for n in range(runs)})
    store, counted = cast(SqlStore, ledger.store), Counter[str]()
    read = store._read

    def counting(sql: str, parameters: Parameters) -> list[Any]:
        found = read(sql, parameters)
        counted.update(statements=1, rows=len(found))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_read", counting)
        overview = look_over(ledger)
        shown = show_runs(ledger)
        ready = count_ready(ledger)
        assert list_reviews(ledger).reviews == ()
    assert overview.runs["queued"] == shown.omitted + MOST_ROWS == ready.ready == runs
    return counted


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_many_queued_runs_take_no_more_statements_and_no_more_rows(
    tmp_path: Path, kind: str
) -> None:
    """P171. The database counts them, and a list loads one page."""
    found = []
    for runs in (PAGE + 1, 5 * PAGE):
        place = str(tmp_path / f"{runs}.db")
        if kind == "postgres":
            pytest.importorskip("psycopg")
            from tests.postgres import server

            place = server.ledger_url(tmp_path / str(runs))
        with nt.Ledger(place) as ledger:
            found.append(queued(ledger, runs))
    assert found[0] == found[1]


@nt.tool("unsafe_on_replay", volatile=("handler",))
def overview_act(number: int, handler: Callable[[int], str] | None = None) -> str:
    assert handler is not None
    return handler(number)


def test_a_call_in_doubt_without_a_review_is_not_called_nothing() -> None:
    """Its body comes with the call, so only its caller can settle it."""
    host = Host()
    with host.process(dies_at=AFTER_THE_INTENT) as ledger, ledger.run("r"):
        overview_act(1, handler=str)
    with host.process() as ledger:
        with ledger.run("r"):
            pass
        overview = look_over(ledger)
    assert (overview.calls_in_doubt, overview.reviews["open"]) == (1, 0)
    (hint,) = overview.hints
    assert hint.reason == "1 call is in doubt until your program makes the same call again"


def test_a_file_that_cannot_be_read_is_not_called_nothing(tmp_path: Path) -> None:
    with nt.Ledger(f"file:{tmp_path / 'runs'}") as ledger:
        with ledger.run("r"):
            overview_act(1, handler=str)
        (file,) = (tmp_path / "runs").glob("r*.json")
        file.write_text("{")
        overview = look_over(ledger)
    assert len(overview.unreadable) == 1
    (hint,) = overview.hints
    assert hint.reason == "all runs but those of 1 file to repair or restore"
