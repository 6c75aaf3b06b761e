"""Our own agents on a disk that fails, and on what a loss of power leaves of it (P10, P31-P36)."""

from __future__ import annotations

import sqlite3

import pytest

import nottwice as nt
from nottwice.store.sqlite.connections import Slot, SqliteConnections
from nottwice.testing import crash_test
from tests.crash.scenarios import GRAPHS, GUARD
from tests.crash.sweeping import assert_nothing_wrong
from tests.testing.crash.tools import ANSWERS, mail
from tests.testing.crash.watching import needs_strace

pytestmark = needs_strace
AGENTS = {**GUARD, **GRAPHS}
SWEPT = [
    ("all classes", "sqlite"),
    ("line", "sqlite"),
    ("all classes", "jsonfile"),
    ("fan-out", "jsonfile"),
]


@pytest.mark.sampled(part="sweeps", keep=1)
@pytest.mark.parametrize(("name", "store"), SWEPT)
def test_a_sample_of_failing_calls_makes_nothing_happen_twice(name: str, store: str) -> None:
    assert_nothing_wrong(name, AGENTS[name], store=store, level="io", budget_seconds=0.7)


@pytest.mark.sampled(part="sweeps", keep=1)
@pytest.mark.parametrize(("name", "store"), SWEPT)
def test_a_sample_of_power_cuts_loses_nothing_that_was_reported(name: str, store: str) -> None:
    assert_nothing_wrong(name, AGENTS[name], store=store, level="power", budget_seconds=0.7)


@pytest.mark.deep(part="sweeps")
def test_power_cuts_while_the_log_is_moved_into_the_ledger_lose_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect = SqliteConnections.connect

    def eager(self: SqliteConnections, slot: Slot) -> sqlite3.Connection:
        fresh = slot.connection is None
        connection = connect(self, slot)
        if fresh:
            # Otherwise that happens every thousand pages, and small agents never see it.
            connection.execute("PRAGMA wal_autocheckpoint = 1")
        return connection

    monkeypatch.setattr(SqliteConnections, "connect", eager)
    for level in ("power", "io"):
        name = "all classes"
        assert_nothing_wrong(name, AGENTS[name], store="sqlite", level=level, budget_seconds=0.7)


def test_a_power_cut_while_a_ledger_is_made_never_looks_like_a_deleted_ledger() -> None:
    """No file next to a ledger may be durable before the ledger's own name is (P116)."""

    def work() -> str:
        with nt.run("ticket", store="agent.db"):
            return mail(to="ann")

    points = [(step, kept, 1) for step in range(1, 11) for kept in range(1, 17, 2)]
    verdict = crash_test(work, tools=ANSWERS, levels=["power"], points=points)
    assert verdict.failures == (), "\n".join(verdict.lines())
    assert verdict.examined > 0
