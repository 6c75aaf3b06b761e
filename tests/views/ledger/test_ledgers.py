"""Does the page about the ledger count what is in it, and find what no process will continue?"""

from __future__ import annotations

from pathlib import Path

from nottwice.guard.ledger import Ledger
from nottwice.views.commands import CommandLine
from nottwice.views.ledger.ledgers import look_at_ledger
from tests.cli.workplace import Workplace

LINE = CommandLine("agent.db")


def test_what_waits_is_counted_and_what_no_process_continues_is_a_finding(
    killed: Workplace,
) -> None:
    with Ledger(killed.store, create=False) as ledger:
        found = look_at_ledger(ledger, LINE)
    assert (found.kind, found.sealed, found.backed_up_at) == ("SQLite", False, None)
    assert found.bytes is not None
    assert found.bytes > 10_000
    assert found.doubts == 3
    assert found.open_by_age["all"] == 3
    assert found.open_by_age["over 1 d"] == 0
    assert [one for one in found.findings if one.startswith("ticket-7 (interrupted)")]


def test_a_killed_process_is_listed_with_the_runs_it_held(graph_runs: Workplace) -> None:
    with Ledger(graph_runs.store, create=False) as ledger:
        found = look_at_ledger(ledger, LINE)
    (holder,) = [one for one in found.holders if "killed-1" in one.runs]
    assert holder.life.value == "dead"
    assert any("killed-1" in one and "No living worker" in one for one in found.findings)


def test_a_backup_is_remembered_and_json_files_are_sized(tmp_path: Path) -> None:
    with Ledger(f"file:{tmp_path / 'runs'}") as ledger:
        with ledger.run("r"):
            pass
        found = look_at_ledger(ledger, LINE)
    assert found.kind == "JSON files"
    assert found.bytes
    assert found.findings == ()
