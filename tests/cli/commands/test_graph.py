"""Draws `nottwice graph` the graph that was asked for, from the ledger or from the code?"""

from __future__ import annotations

from xml.etree import ElementTree

from tests.cli.workplace import Workplace


def test_a_graph_is_listed_from_the_ledger_alone(graph_runs: Workplace) -> None:
    ended = graph_runs.cli("graph", "order")
    assert ended.exit_code == 0, ended.output
    lines = ended.stdout.splitlines()
    assert lines[0] == "Graph order@1.0.0"
    assert lines[1].split() == ["NODE", "LEADS", "TO"]
    assert lines[-1].endswith("the end")


def test_the_graph_of_a_run_has_the_status_of_its_nodes(graph_runs: Workplace) -> None:
    found = graph_runs.json("graph", "--run", "done-1")
    assert found["graph"] == "order@1.0.0"
    assert list(found["status"]) == found["nodes"]
    assert set(found["status"].values()) == {"done"}
    assert {"source": "$start", "target": found["nodes"][0], "label": None} in found["arrows"]


def test_mermaid_and_svg_are_printed_as_they_are(graph_runs: Workplace) -> None:
    text = graph_runs.cli("graph", "order@1.0.0", "--mermaid").stdout
    assert text.startswith("flowchart TD\n")
    picture = ElementTree.fromstring(graph_runs.cli("graph", "order", "--svg").stdout)
    assert picture.tag.endswith("svg")


def test_a_graph_of_the_code_needs_no_ledger(empty: Workplace) -> None:
    ended = empty.shell("nottwice graph asking --app flows:app --mermaid")
    assert ended.exit_code == 0, ended
    assert ended.stdout.startswith("flowchart TD\n")


def test_an_unknown_graph_is_refused_with_the_names_of_the_known_ones(
    graph_runs: Workplace,
) -> None:
    ended = graph_runs.cli("graph", "nothing")
    assert ended.exit_code == 1
    assert "There is no graph 'nothing'." in ended.stderr
    assert "order@1.0.0" in ended.stderr


def test_what_was_asked_for_must_be_clear(graph_runs: Workplace) -> None:
    for words in ((), ("order", "--run", "done-1"), ("order", "--svg", "--mermaid")):
        assert graph_runs.cli("graph", *words).exit_code == 2
