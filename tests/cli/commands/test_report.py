"""Does `nottwice report` say what doubts cost, for people and for scripts?"""

from __future__ import annotations

from tests.cli.workplace import Workplace


def test_the_tool_that_cost_most_is_first(killed: Workplace) -> None:
    result = killed.cli("report", "--since", "24h")
    assert result.exit_code == 0, result.output
    assert "Last 24h: 5 runs, " in result.stdout
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
