"""What still drains, per version: `nottwice runs --by-version`."""

from __future__ import annotations

import json

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
