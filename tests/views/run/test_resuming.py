"""Is it said who continues a run, and when no process will?"""

from __future__ import annotations

from pathlib import Path

import nottwice as nt
from nottwice.guard.ledger import Ledger
from nottwice.views.commands import CommandLine
from nottwice.views.run.resuming import who_resumes
from nottwice.views.runs import view_of
from tests.cli.workplace import Workplace

LINE = CommandLine("agent.db", "flows:app", has_app=True)


def test_a_plain_run_needs_its_program(killed: Workplace) -> None:
    with Ledger(killed.store, create=False) as ledger:
        waiting = who_resumes(ledger, view_of(ledger, "ticket-8"), LINE)
        done = who_resumes(ledger, view_of(ledger, "done-1"), LINE)
    assert (waiting.is_finding, waiting.command) == (True, None)
    assert "Run the program that owns it again" in waiting.text
    assert (done.is_finding, done.text) == (False, "It is completed. Nothing continues it.")


def test_without_a_living_process_a_run_of_a_graph_is_a_finding(graph_runs: Workplace) -> None:
    with Ledger(graph_runs.store, create=False) as ledger:
        found = who_resumes(ledger, view_of(ledger, "listen-1"), LINE)
    assert found.is_finding
    assert found.text == "No living process is known that has listening@1.0.0. Start a worker."
    assert found.command == "nottwice run --id listen-1 --app flows:app --store agent.db"


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
