"""Is every worker listed, whether it works, waits, is silent or is dead? (P380)"""

from __future__ import annotations

from pathlib import Path

import pytest

import nottwice as nt
from nottwice.model.runs.workers import SILENT_SECONDS, WorkerRecord, WorkerState
from nottwice.views.commands import CommandLine
from nottwice.views.ledger.ledgers import look_at_ledger
from nottwice.views.ledger.overview import look_over
from nottwice.views.ledger.pulse import feel
from nottwice.views.ledger.workers import MOST_WORKERS, WorkerView, list_workers
from nottwice.worker.presence import Presence
from tests.fakes import FakeClock, Host
from tests.postgres import server


@pytest.fixture
def host() -> Host:
    return Host()


def test_a_worker_that_waits_for_work_is_listed_as_idle(host: Host) -> None:
    with host.process() as ledger:
        Presence(ledger, ["known@1.0.0"], concurrency=8).renew()
        found = list_workers(ledger)
        (worker,) = found.workers
        assert found.counts == {"alive": 1, "silent": 0, "dead": 0}
        assert (worker.state, worker.held, worker.runs) == (WorkerState.ALIVE, 0, ())
        assert (worker.graphs, worker.concurrency) == (("known@1.0.0",), 8)
        assert look_over(ledger).workers == found.counts
        assert look_at_ledger(ledger, CommandLine("agent.db")).workers == found


def test_a_worker_is_listed_with_the_runs_that_it_holds(host: Host) -> None:
    graph: nt.Graph[dict[str, object]] = nt.Graph("holding", version="1.0.0")
    seen: list[WorkerView] = []

    @graph.node
    def look(state: dict[str, object]) -> None:
        with host.process() as reader:
            seen.extend(list_workers(reader).workers)

    names = ("r-1", "r-2", "r-3")
    with host.process() as ledger:
        app = nt.App(graphs=[graph], store=ledger)
        app.enqueue_all("holding", dict.fromkeys(names))
        assert nt.Worker(app, concurrency=1).run(until_idle=True).completed == 3
    # It may be in the first run before it has announced itself.
    assert len(seen) >= 2
    assert {one.held for one in seen} == {1}
    assert {run_id for one in seen for run_id in one.runs} <= set(names)
    assert host.data.workers == {}


def test_the_living_come_first_and_what_is_not_listed_is_counted(host: Host) -> None:
    with host.process() as dead:
        Presence(dead, [], concurrency=1).renew()
    with host.process() as ledger:
        now, holder_id = host.clock.now(), ledger.store.holder().holder_id
        for number in range(MOST_WORKERS):
            seen_at = now - (SILENT_SECONDS + 1 if number == 0 else 0.0)
            name = f"w-{number:03}"
            ledger.store.announce(WorkerRecord(name, holder_id, (), 1, now + number, seen_at))
        found = list_workers(ledger)
    assert found.counts == {"alive": MOST_WORKERS - 1, "silent": 1, "dead": 1}
    assert [one.state.value for one in found.workers[-2:]] == ["alive", "silent"]
    assert found.omitted == 1


def test_an_open_page_hears_that_a_worker_came_fell_silent_or_left(host: Host) -> None:
    with host.process() as ledger:
        marks = [feel(ledger).mark]
        worker = Presence(ledger, [], concurrency=1)
        worker.renew()
        marks.append(feel(ledger).mark)
        host.clock.advance(SILENT_SECONDS - 1)
        assert feel(ledger).mark == marks[-1]
        host.clock.advance(2)
        marks.append(feel(ledger).mark)
        worker.leave()
        assert feel(ledger).mark == marks[0]
    assert len(set(marks)) == 3


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
def test_on_a_server_the_clocks_of_machines_may_differ(tmp_path: Path, ahead: float) -> None:
    clock = FakeClock()
    with nt.Ledger(server.ledger_url(tmp_path), clock=clock) as ledger:
        Presence(ledger, ["known@1.0.0"], concurrency=1).renew()
        # The reader is on a machine whose clock is an hour off.
        clock.advance(ahead)
        (worker,) = list_workers(ledger).workers
        assert worker.state is WorkerState.ALIVE
        assert abs(clock.now() - worker.seen_at) < SILENT_SECONDS
