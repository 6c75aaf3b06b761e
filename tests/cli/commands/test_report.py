"""Does `nottwice report` say what doubts cost, for people and for scripts?"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import nottwice as nt
from tests.cli.workplace import Workplace


def test_the_tool_that_cost_most_is_first(killed: Workplace) -> None:
    result = killed.cli("report", "--since", "24h")
    assert result.exit_code == 0, result.output
    assert "Last 24h: 5 runs, " in result.stdout
    # One killed process may have ended several openings, as those of a run and of its child.
    assert "3 openings ended by a killed process." in result.stdout
    lines = result.stdout.splitlines()
    table = [line.split()[:3] for line in lines if line.startswith(("send_email", "refund"))]
    assert ["send_email", "3", "2"] in table
    assert "send_email could have answered 2 questions" in result.stdout
    document = killed.json("report", "--since", "24h")
    assert {one["tool"]: one["doubts"] for one in document["costs"]}["refund"] == 1


def test_an_empty_ledger_has_an_empty_report(empty: Workplace) -> None:
    assert empty.cli("report").exit_code == 1
    result = empty.cli("report", "--since", "soon")
    assert (result.exit_code, "--since" in result.stderr) == (1, True)


def test_runs_that_cannot_be_trusted_are_told_with_a_command_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTTWICE_KEY", bytes(range(32)).hex())
    place = Workplace(tmp_path)
    with nt.Ledger(place.store) as ledger, ledger.run("ticket-7"):
        nt.now(label="begin")
    with closing(sqlite3.connect(place.store)) as other:
        other.execute("UPDATE tool_call_results SET trace_id = 'changed'")
        other.commit()
    told = place.cli("report").stdout
    assert "1 run with rows that cannot be trusted, whose calls are not counted." in told
    (line,) = [line for line in told.splitlines() if "audit --verify" in line]
    assert line == f"See what does not fit: nottwice audit --verify --store {place.store}"
