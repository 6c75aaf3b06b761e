"""Ledgers on PostgreSQL, killed everywhere: the same agents, levels and invariants (P31–P36)."""

from __future__ import annotations

import pytest

import nottwice as nt
from nottwice.errors import UsageError
from nottwice.store.postgres.store import PostgresStore
from nottwice.testing import CrashTestRefused, LevelsUnavailable, crash_test
from nottwice.testing.crash.scratch import VARIABLE
from tests.crash.scenarios import GRAPHS, GUARD
from tests.crash.sweeping import assert_nothing_wrong, examine
from tests.postgres import server

AGENTS = {**GUARD, **GRAPHS}


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, server.url())


@pytest.mark.sampled(part="sweeps", keep=1)
@pytest.mark.usefixtures("scratch")
@pytest.mark.parametrize("name", ["all classes", "spawn"])
def test_killed_at_its_boundaries_nothing_happens_twice_and_nothing_is_lost(name: str) -> None:
    assert_nothing_wrong(
        name, AGENTS[name], store="postgres", level="boundaries", budget_seconds=1.5
    )


@pytest.mark.deep(part="sweeps")
@pytest.mark.usefixtures("scratch")
@pytest.mark.parametrize("level", ["double", "lines", "takeover"])
def test_a_sample_of_the_deeper_levels_finds_nothing_wrong(level: str) -> None:
    agent = AGENTS["all classes"]
    assert_nothing_wrong("all classes", agent, store="postgres", level=level, budget_seconds=0.7)


def test_the_crash_test_leaves_nothing_behind(scratch: None) -> None:
    examine(
        "retries",
        AGENTS["retries"],
        store="postgres",
        level="boundaries",
        budget_seconds=0.1,
        seed=1,
    )
    with server.connected() as connection:
        found = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'nottwice_crash%'"
        ).fetchall()
    assert found == []


def test_without_a_database_for_it_no_ledger_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    agent = AGENTS["retries"]
    with pytest.raises(UsageError, match=VARIABLE):
        examine("retries", agent, store="postgres", level="boundaries", budget_seconds=0.1, seed=1)


def test_a_ledger_that_was_opened_before_is_not_touched_either(
    ledger: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)

    def work() -> None:
        with nt.run("ticket", store=ledger):
            pass

    with pytest.raises(CrashTestRefused, match=VARIABLE):
        crash_test(work, effects=False)
    assert ledger.runs() == []


@pytest.mark.usefixtures("scratch")
@pytest.mark.parametrize("level", ["io", "power"])
def test_the_disk_of_a_server_cannot_be_broken_and_the_crash_test_says_so(level: str) -> None:
    agent = AGENTS["retries"]
    with pytest.raises(LevelsUnavailable, match=VARIABLE):
        examine("retries", agent, store="postgres", level=level, budget_seconds=0.1, seed=1)
