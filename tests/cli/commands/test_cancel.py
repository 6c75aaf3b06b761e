"""Does `nottwice cancel` stop a run and its children permanently, and record who and why?"""

from __future__ import annotations

import nottwice as nt
from tests.cli.workplace import Workplace


def test_a_waiting_run_and_its_child_are_aborted(graph_place: Workplace) -> None:
    ended = graph_place.cli("cancel", "parent-1", "--why", "called off", "--by", "ann")
    assert ended.exit_code == 0, ended.stderr
    assert ended.stdout == "Run parent-1 is aborted, and so are its unfinished children.\n"
    states = {run["run_id"]: run["state"] for run in graph_place.json("runs", "parent-1")["runs"]}
    assert set(states.values()) == {"aborted"}
    assert len(states) == 2
    with nt.Ledger(graph_place.store) as ledger:
        (entry,) = [one for one in ledger.store.audit("parent-1") if one.action == "cancel"]
    assert (entry.who, entry.why) == ("ann", "called off")
    assert "aborted      by ann: called off" in graph_place.cli("show", "parent-1").stdout


def test_an_aborted_run_runs_nothing_more(graph_place: Workplace) -> None:
    graph_place.cli("cancel", "listen-1", "--why", "x")
    before = graph_place.world()
    ended = graph_place.run("--id listen-1")
    assert ended.exit_code == 1
    assert "Run listen-1: aborted" in ended.stdout
    assert ": x\n" in ended.stdout[ended.stdout.index("  aborted ") :]
    assert graph_place.world() == before


def test_a_reason_is_needed(graph_runs: Workplace) -> None:
    assert graph_runs.cli("cancel", "listen-1").exit_code == 2
    empty_reason = graph_runs.cli("cancel", "listen-1", "--why", " ")
    assert empty_reason.exit_code == 1
    assert "needs why" in empty_reason.stderr


def test_what_is_over_or_not_there_cannot_be_cancelled(graph_runs: Workplace) -> None:
    over = graph_runs.cli("cancel", "done-1", "--why", "x")
    assert over.exit_code == 1
    assert "is already completed" in over.stderr
    assert "There is no run" in graph_runs.cli("cancel", "nobody", "--why", "x").stderr


def test_a_run_that_a_process_drives_is_told(graph_place: Workplace) -> None:
    with nt.Ledger(graph_place.store) as ledger, ledger.run("busy-1"):
        ended = graph_place.json("cancel", "busy-1", "--why", "x")
        assert ended["stopped"] is False
        said = graph_place.cli("cancel", "busy-1", "--why", "x").stdout
        assert "stops before its next effect or node" in said


def test_a_run_without_children_is_aborted_alone(graph_place: Workplace) -> None:
    ended = graph_place.cli("cancel", "listen-1", "--why", "x")
    assert ended.stdout == "Run listen-1 is aborted.\n"
