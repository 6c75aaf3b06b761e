"""Is it said who continues a run, and when no process will?"""

from __future__ import annotations

from pathlib import Path

import nottwice as nt
from nottwice.guard.ledger import Ledger
from nottwice.model.runs.workers import SILENT_SECONDS
from nottwice.views.commands import CommandLine
from nottwice.views.run.resuming import who_resumes
from nottwice.views.runs import view_of
from nottwice.worker.presence import Presence
from tests.cli.workplace import Workplace
from tests.fakes import Host

LINE = CommandLine("agent.db", "flows:app", has_app=True)


def test_a_plain_run_needs_its_program(killed: Workplace) -> None:
    with Ledger(killed.store, create=False) as ledger:
        waiting = who_resumes(ledger, view_of(ledger, "ticket-8"), LINE)
        done = who_resumes(ledger, view_of(ledger, "done-1"), LINE)
    assert (waiting.is_finding, waiting.command) == (True, None)
    assert "Only your program can continue it" in waiting.text
    assert (done.is_finding, done.text) == (False, "It is completed. Nothing continues it.")


def test_without_a_living_process_a_run_of_a_graph_is_a_finding(graph_runs: Workplace) -> None:
    with Ledger(graph_runs.store, create=False) as ledger:
        found = who_resumes(ledger, view_of(ledger, "listen-1"), LINE)
    assert found.is_finding
    assert found.text == "No living worker has listening@1.0.0. Start a worker."
    assert found.command == "nottwice run --id listen-1 --app flows:app --store agent.db"


def test_a_fork_is_not_left_to_a_worker_because_none_picks_it_up(tmp_path: Path) -> None:
    graph = nt.Graph("resuming", version="1.0.0")

    @graph.node
    def look(state: dict[str, object]) -> None:
        return None

    with Ledger(tmp_path / "a.db") as ledger:
        graph.run("r", {}, store=ledger)
        graph.fork("r", to="r-2", at=0, store=ledger)
        found = who_resumes(ledger, view_of(ledger, "r-2"), LINE)
    assert found.is_finding
    assert found.text == "It is a fork, which no worker picks up. Run it yourself."
    assert found.command == "nottwice run --id r-2 --app flows:app --store agent.db"


def test_a_living_process_that_has_held_runs_of_the_graph_is_named(tmp_path: Path) -> None:
    graph = nt.Graph("resuming", version="1.0.0")

    @graph.node
    def wait(state: dict[str, object]) -> None:
        nt.receive("news")

    with Ledger(tmp_path / "a.db") as ledger:
        graph.run("r", {}, store=ledger)
        found = who_resumes(ledger, view_of(ledger, "r"), LINE)
        assert not found.is_finding
        assert len(found.alive) == 1
        assert "has held runs of resuming@1.0.0 and is alive" in found.text
        with ledger.run("held"):
            held = who_resumes(ledger, view_of(ledger, "held"), LINE)
    assert "holds it and uses a decision at its next effect" in held.text


def test_an_idle_worker_that_has_the_code_continues_the_run() -> None:
    graph = nt.Graph("resuming", version="1.0.1")

    @graph.node
    def wait(state: dict[str, object]) -> None:
        nt.receive("news")

    host = Host()
    with host.process() as program:
        graph.run("r", {}, store=program)
    with host.process() as ledger, host.process() as other, host.process() as third:
        Presence(ledger, ["resuming@2.0.1", "others@1.0.1"], concurrency=1).renew()
        found = who_resumes(ledger, view_of(ledger, "r"), LINE)
        assert found.is_finding
        assert found.text == "No living worker has resuming@1.0.1. Start a worker."
        # The first version that this worker has is another patch, which takes the run.
        worker = Presence(other, ["resuming@1.0.0"], concurrency=1)
        worker.renew()
        found = who_resumes(ledger, view_of(ledger, "r"), LINE)
        assert not found.is_finding
        assert "is a living worker with resuming@1.0.1. It continues the run by" in found.text
        host.clock.advance(SILENT_SECONDS + 1)
        found = who_resumes(ledger, view_of(ledger, "r"), LINE)
        assert found.is_finding
        assert "No living worker has resuming@1.0.1. pid " in found.text
        assert "has it, but is silent. Start a worker." in found.text
        worker.renew()
        Presence(third, ["resuming@1.0.1"], concurrency=1).renew()
        assert not who_resumes(ledger, view_of(ledger, "r"), LINE).is_finding
