"""Does a loss of power show what a ledger that does not sync would lose?"""

from __future__ import annotations

from typing import Any

import pytest

from nottwice.store.files import disk as jsonfile_disk
from nottwice.store.sqlite import connections as sqlite_connections
from nottwice.store.sqlite import store as sqlite
from nottwice.testing import CrashTestRefused, crash_test
from tests.testing.crash.tools import ANSWERS, agent
from tests.testing.crash.watching import needs_strace

pytestmark = needs_strace
REPORTED = "what was reported is kept"


def broken(verdict: Any) -> set[str]:
    return {one.invariant for failure in verdict.failures for one in failure.violations}


@pytest.mark.parametrize("store", ["agent.db", "file:agent"])
def test_a_ledger_that_syncs_loses_nothing_that_matters(store: str) -> None:
    verdict = crash_test(lambda: agent(store), tools=ANSWERS, levels=["power"], budget="1s")
    assert not verdict.failures, "\n".join(verdict.lines())
    assert verdict.examined >= 10


def sync_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite with ``synchronous=NORMAL``, as most programs use it with a write-ahead log."""
    connect = sqlite_connections.SqliteConnections.connect

    def careless(self: Any, slot: Any) -> Any:
        fresh = slot.connection is None
        connection = connect(self, slot)
        if fresh:
            connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    monkeypatch.setattr(sqlite_connections.SqliteConnections, "connect", careless)
    for module in (sqlite, sqlite_connections):
        monkeypatch.setattr(module, "check_durable", lambda connection, location: None)


def test_a_ledger_that_syncs_less_is_caught_with_the_point_that_shows_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync_less(monkeypatch)
    verdict = crash_test(agent, tools=ANSWERS, levels=["power"], budget="30s")
    assert {"no effect twice", "intent before effect", REPORTED} <= broken(verdict)
    numbers = verdict.failures[0].numbers
    again = crash_test(agent, tools=ANSWERS, levels=["power"], points=[numbers])
    assert [one.numbers for one in again.failures] == [numbers]


def test_json_files_whose_names_are_not_synced_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonfile_disk, "sync_folder", lambda folder: None)
    verdict = crash_test(lambda: agent("file:agent"), tools=ANSWERS, levels=["power"], budget="30s")
    assert "intent before effect" in broken(verdict)


def test_json_files_that_are_not_synced_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonfile_disk, "sync", lambda descriptor: None)
    verdict = crash_test(lambda: agent("file:agent"), tools=ANSWERS, levels=["power"], budget="30s")
    assert verdict.failures


def test_a_step_that_does_not_come_is_not_counted() -> None:
    nowhere = [(99999, 1, 1), (1, 1, 99999)]
    with pytest.raises(CrashTestRefused, match="without reaching the chosen point"):
        crash_test(agent, tools=ANSWERS, levels=["power"], points=nowhere)
