"""Are runs listed as they are, and versions with what still needs them? `nottwice runs`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import nottwice as nt
from nottwice.cli.main import main
from nottwice.views.ledger import readiness
from tests.cli.workplace import Workplace


def test_each_version_says_what_is_open_and_whether_it_can_go(graph_runs: Workplace) -> None:
    (ended,) = graph_runs.lines("runs --by-version --app flows:app --store agent.db")
    lines = {line.split()[0]: line for line in ended.stdout.splitlines()}
    assert ended.exit_code == 0
    assert "no: new runs take it" in lines["order@1.0.0"]
    assert " 2 " in lines["order@1.0.0"]
    assert "1 failed" in lines["order@1.0.0"]
    assert "1 running" in lines["order@1.0.0"]
    assert "event" in lines["listening@1.0.0"]


def test_a_run_whose_review_is_decided_is_ready(graph_place: Workplace) -> None:
    look = "runs --by-version --graph asking --json --store agent.db"
    before, listed = graph_place.lines(look, "reviews --json --store agent.db")
    assert [one["stand"] for one in json.loads(before.stdout)["versions"]] == [{"review": 1}]
    (review,) = json.loads(listed.stdout)["reviews"]
    decide = f"decide {review['review_id']} yes --by ann --why due --store agent.db"
    decided, after = graph_place.lines(decide, look)
    assert decided.exit_code == 0, decided
    assert [one["stand"] for one in json.loads(after.stdout)["versions"]] == [{"ready": 1}]


def test_a_count_of_ready_runs_says_that_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "MOST_COUNTED", 3)
    store = str(tmp_path / "agent.db")
    for name, runs in (("many", "abcd"), ("few", "ef")):
        flow: nt.Graph[Any] = nt.Graph(name, version="1.0.0")
        flow.node(name="only")(lambda state: None)
        with nt.Ledger(store) as ledger:
            nt.App(graphs=[flow], store=ledger).enqueue_all(name, dict.fromkeys(runs))
    shown = CliRunner().invoke(main, ["runs", "--ready", "--store", store]).stdout
    assert re.findall(r"^(\w+)@1.0.0 +(\S+)", shown, re.MULTILINE) == [("few", "2"), ("many", "3+")]


def test_runs_that_nothing_deployed_can_take_stand_out(graph_place: Workplace) -> None:
    file = graph_place.folder / "flows.py"
    text = file.read_text().replace('"order", version="1.0.0"', '"order", version="2.0.0"')
    file.write_text(text)
    (ended,) = graph_place.lines("runs --by-version --graph order --app flows:app --store agent.db")
    old, new = ended.stdout.splitlines()[1:]
    assert "not deployed, and open runs need it" in old
    assert "new runs take it" in new


def test_without_the_code_it_says_what_it_cannot_know(graph_runs: Workplace) -> None:
    (ended,) = graph_runs.lines("runs --by-version --store agent.db")
    assert "unknown without --app" in ended.stdout
    assert "--app module:app" in ended.stdout


def test_it_counts_all_states(graph_runs: Workplace) -> None:
    result = graph_runs.cli("runs", "--by-version", "--state", "failed")
    assert result.exit_code == 2
    assert "leave --state out" in result.stderr


def test_runs_are_listed_last_changed_first(killed: Workplace) -> None:
    lines = killed.cli("runs").stdout.splitlines()
    assert re.split(r"\s{2,}", lines[0]) == [
        "RUN",
        "STATE",
        "GRAPH",
        "CHANGED",
        "HOLDER",
        "WAITS FOR, OR ERROR",
    ]
    table = [re.split(r"\s{2,}", line)[:2] for line in lines[1:]]
    assert table == [
        ["[red]evil[/red]", "waiting"],
        ["ticket-9", "waiting"],
        ["ticket-8", "waiting"],
        ["ticket-7", "interrupted"],
        ["done-1", "completed"],
    ]


def test_runs_are_chosen_by_beginning_and_state(killed: Workplace) -> None:
    def found(*words: str) -> list[str]:
        return [run["run_id"] for run in killed.json("runs", *words)["runs"]]

    assert found("ticket-") == ["ticket-9", "ticket-8", "ticket-7"]
    assert found("--state", "interrupted", "--state", "completed") == ["ticket-7", "done-1"]
    assert found("nothing") == []
    assert killed.cli("runs", "nothing").stdout == "No such runs.\n"


def test_runs_beyond_the_last_ones_are_counted_and_can_be_had(
    killed: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nottwice.cli.commands.runs.MOST_ROWS", 2)
    shown = killed.cli("runs", "ticket-").stdout.splitlines()
    assert len(shown) == 4
    assert shown[-1] == f"… and 1 more: nottwice runs --all ticket- --store {killed.store}"
    assert killed.json("runs")["omitted"] == 3
    assert len(killed.json("runs", "--all")["runs"]) == 5
    assert killed.json("runs", "--all")["omitted"] == 0


def test_an_empty_ledger_has_no_runs(tmp_path: Path) -> None:
    nt.Ledger(tmp_path / "agent.db").close()
    assert Workplace(tmp_path).cli("runs").stdout == "No runs.\n"


def test_runs_of_graphs_are_listed_with_their_graph_and_what_they_wait_for(
    graph_runs: Workplace,
) -> None:
    lines = graph_runs.cli("runs", "listen-1").stdout.splitlines()
    row = re.split(r"\s{2,}", lines[1])
    assert (row[2], row[-1]) == ("listening@1.0.0", "event news")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--graph", "order"], {"done-1", "killed-1", "failed-1"}),
        (["--graph", "order@1.0.0", "--status", "completed"], {"done-1"}),
        (["--graph", "order@2.0.0"], set()),
        (["--graph", "ord"], set()),
        (["--graph", "listening", "--state", "waiting"], {"listen-1", "told-1"}),
    ],
)
def test_runs_are_chosen_by_graph(
    words: list[str], expected: set[str], graph_runs: Workplace
) -> None:
    assert {run["run_id"] for run in graph_runs.json("runs", *words)["runs"]} == expected
