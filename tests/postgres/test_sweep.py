"""Ledgers on PostgreSQL, killed everywhere: the same agents, levels and invariants (P31–P36)."""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import UsageError
from nottwice.store.claiming import ClaimRequest
from nottwice.store.postgres.store import PostgresStore
from nottwice.testing import CrashTestRefused, LevelsUnavailable, crash_test
from nottwice.testing.crash.inside.instruments import CountedStore
from nottwice.testing.crash.inside.link import make_link
from nottwice.testing.crash.inside.points import PointKind, Points
from nottwice.testing.crash.inside.scratch import VARIABLE
from tests.crash.scenarios import GRAPHS, GUARD, Agent, mail
from tests.crash.sweeping import assert_nothing_wrong, examine
from tests.postgres import server
from tests.store.samples import NOW

fleet: nt.Graph[Any] = nt.Graph("crash-fleet", version="1.0.0")
NAMES = ("ann", "bob", "cy")


@fleet.node
def send(state: dict[str, Any]) -> dict[str, Any]:
    return {"sent": mail(to=state["to"])}


def claimed_together(store: str) -> list[Any]:
    """A worker claims three runs in one statement."""
    app = nt.App(graphs=[fleet], store=store)
    app.enqueue_all("crash-fleet", {name: {"to": name} for name in NAMES})
    nt.Worker(app, concurrency=len(NAMES)).run(until_idle=True)
    return [app.outcome(name).state for name in NAMES]


AGENTS = {**GUARD, **GRAPHS, "claimed together": Agent(claimed_together)}


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, server.url())


@pytest.mark.sampled(part="sweeps", keep=2)
@pytest.mark.usefixtures("scratch")
@pytest.mark.parametrize("name", ["all classes", "spawn", "claimed together"])
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


def test_a_claim_of_several_runs_has_a_point_before_and_after_it(ledger: PostgresStore) -> None:
    queue = {name: {"to": name} for name in NAMES}
    nt.App(graphs=[fleet], store=ledger).enqueue_all("crash-fleet", queue)
    ours, theirs = make_link()
    points = Points(theirs, PointKind.BOUNDARY)
    counted = CountedStore(ledger, theirs, points, elsewhere=False)
    wanted = ClaimRequest(at=NOW, most=9, graphs=["crash-fleet@1.0."])
    with points.counted():
        assert [len(counted.claim_ready(wanted)) for _ in range(2)] == [len(NAMES), 0]
    assert points.boundaries == [
        "before claiming runs",
        "after claiming runs",
        "before claiming runs",
    ]
    # Notes are sent with the next message.
    theirs.tell("over")
    told = [one for one in ours.read() or [] if one["tell"] == "writing"]
    assert [one["run"] for one in told] == list(NAMES)
    ours.close()
    theirs.close()


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
