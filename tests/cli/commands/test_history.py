"""Does `nottwice history` show every version of a run, and what changed between two?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import nottwice as nt
from nottwice.cli.main import main
from tests.cli.workplace import Workplace


def test_the_versions_of_a_run_are_listed_with_what_had_ended(graph_runs: Workplace) -> None:
    lines = graph_runs.cli("history", "done-1").stdout.splitlines()
    assert lines[0].split() == ["VERSION", "SAVED", "(UTC)", "AFTER"]
    assert [(line.split()[0], line.split(maxsplit=3)[3]) for line in lines[1:]] == [
        ("0", "the input"),
        ("1", "read"),
        ("2", "charge"),
        ("3", "ship"),
    ]


def test_one_version_is_shown_whole(graph_runs: Workplace) -> None:
    shown = graph_runs.cli("history", "done", "--at", "2").stdout
    assert shown.splitlines()[0] == "Version 2 of run done-1; next node: ship"
    assert graph_runs.json("history", "done-1", "--at", "2")["state"] == {
        "order_id": 1,
        "answer": "",
        "log": ["worth 100", "paid"],
    }
    last = graph_runs.json("history", "done-1", "--at", "3")
    assert last["node"] is None


def test_two_versions_are_compared_in_either_direction(graph_runs: Workplace) -> None:
    assert graph_runs.cli("history", "done-1", "--diff", "1", "2").stdout == (
        '+ state.log[1]: "paid"\n'
    )
    (change,) = graph_runs.json("history", "done-1", "--diff", "2", "1")["changes"]
    assert (change["kind"], change["before"]) == ("removed", "paid")
    same = graph_runs.cli("history", "done-1", "--diff", "2", "2").stdout
    assert same == "Versions 2 and 2 have the same state.\n"


def test_earlier_versions_are_counted_and_can_be_had(
    graph_runs: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nottwice.cli.commands.history.MOST_ROWS", 2)
    lines = graph_runs.cli("history", "done-1").stdout.splitlines()
    assert lines[0].startswith("… and 2 earlier: nottwice history --all done-1")
    assert [line.split()[0] for line in lines[2:]] == ["2", "3"]
    assert len(graph_runs.cli("history", "done-1", "--all").stdout.splitlines()) == 5
    assert len(graph_runs.json("history", "done-1")["checkpoints"]) == 4


def test_what_is_not_there_is_said(graph_runs: Workplace, killed: Workplace) -> None:
    missing = graph_runs.cli("history", "done-1", "--at", "9")
    assert missing.exit_code == 1
    assert "has no version 9" in missing.stderr
    assert "There is no run 'nobody'" in graph_runs.cli("history", "nobody").stderr
    assert "only runs of a graph" in killed.cli("history", "done-1").stdout
    both = graph_runs.cli("history", "done-1", "--at", "1", "--diff", "1", "2")
    assert both.exit_code == 2


def test_where_branches_met_is_told_from_the_node_after_them(tmp_path: Path) -> None:
    flow: nt.Graph[Any] = nt.Graph("fan", version="1.0.0", checkpoints="every_step")
    flow.node(name="start", then=["left", "right"], join="meet")(lambda state: None)
    for name in ("left", "right", "meet"):
        flow.node(name=name)(lambda state: None)
    path = str(tmp_path / "agent.db")
    flow.run("r", {}, store=path)
    lines = CliRunner().invoke(main, ["history", "r", "--store", path]).stdout.splitlines()
    shown = [line.split(maxsplit=3)[3] for line in lines[1:]]
    assert shown[:2] == ["the input", "start"]
    assert sorted(shown[2:4]) == ["left, branch 0", "right, branch 1"]
    assert shown[4:] == ["the branches before meet", "meet"]
