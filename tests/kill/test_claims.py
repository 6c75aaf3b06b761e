"""A worker that is killed with runs that it has claimed loses none, and a fleet keeps limits."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nottwice.store.postgres.store import PostgresStore
from nottwice.testing import World
from nottwice.worker.poison import MOST_KILLS
from tests.kill.processes import Case, Nursery, wait_until
from tests.postgres import server

RUNS = 12
AT_ONCE = 4
MORE = {"runs": RUNS, "at_once": AT_ONCE}


@pytest.fixture
def case(nursery: Nursery, tmp_path: Path) -> Iterator[Case]:
    with World.start() as world:
        made = Case(nursery, world, tmp_path, "claims")
        yield made
        made.close()


@pytest.mark.parametrize("visit", [1, 2])
@pytest.mark.parametrize(
    "place", ["before claims", "after claims", "before intent", "after release"]
)
def test_a_worker_killed_between_a_claim_and_an_effect_loses_and_repeats_nothing(
    case: Case, tmp_path: Path, place: str, visit: int
) -> None:
    ledger = server.ledger_url(tmp_path)
    first = case.finish("fleet_claimer", ledger=ledger, more=MORE, die_at=place, die_at_visit=visit)
    assert first.was_killed
    if place.endswith("claims") and visit == 1:
        # Nothing of them has happened, whether a dead process holds them or none does.
        assert case.world.effects() == []
        held = AT_ONCE if place == "after claims" else 0
        assert number_held(ledger) == held
    second = case.finish("fleet_claimer", ledger=ledger, more=MORE)
    assert second.exit_code == 0, second.lines
    happened = Counter(effect.args["run"] for effect in case.world.effects())
    # A call that was under way when the process was killed waits for a person.
    doubts = second.said["tally"]["waiting"]
    assert set(happened.values()) == {1}
    assert len(happened) >= RUNS - doubts
    if place.endswith("claims") and visit == 1:
        assert doubts == 0


def number_held(ledger: str) -> int:
    """How many runs some process holds, dead or alive."""
    with closing(PostgresStore(ledger, now=0.0)) as store:
        return sum(len(store.runs_held_by(holder)) for holder in store.holders_of_runs())


# The claim of the first run waits in the middle of its statement, as if the server were slow.
SLOW = """
CREATE FUNCTION {schema}.wait_here() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock(hashtext('{schema}')); RETURN NEW; END $$;
CREATE TRIGGER slow BEFORE INSERT ON {schema}.openings
  FOR EACH ROW WHEN (NEW.workflow_id = 'run-0') EXECUTE FUNCTION {schema}.wait_here();
"""
WAITING = """
SELECT l.pid FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND NOT l.granted AND a.query LIKE %s
"""


@pytest.mark.parametrize("end", ["committed", "rolled back"])
def test_a_worker_killed_in_the_middle_of_a_claim_loses_and_repeats_nothing(
    case: Case, tmp_path: Path, end: str
) -> None:
    """The server does not know that its client is dead, and may finish the claim for it."""
    ledger, schema = server.ledger_url(tmp_path), server.schema_for(tmp_path)
    case.finish("fleet_claimer", ledger=ledger, more=MORE, die_at="before claims")
    with server.connected() as connection:
        connection.execute(SLOW.format(schema=schema))
        connection.execute("SELECT pg_advisory_lock(hashtext(%s))", (schema,))
        first = case.start("fleet_claimer", ledger=ledger, more=MORE)

        def in_the_middle() -> list[tuple[int]]:
            return connection.execute(WAITING, (f"%{schema}.claim_ready%",)).fetchall()

        wait_until(in_the_middle)
        assert first.kill().was_killed
        ((backend,),) = in_the_middle()
        # Another worker does not wait for these runs: it does the others.
        second = case.finish("fleet_claimer", ledger=ledger, more=MORE)
        assert second.said["tally"]["completed"] == RUNS - AT_ONCE
        if end == "rolled back":
            connection.execute("SELECT pg_terminate_backend(%s)", (backend,))
        connection.execute("SELECT pg_advisory_unlock(hashtext(%s))", (schema,))
        gone = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
        wait_until(lambda: not connection.execute(gone, (backend,)).fetchall())
    assert number_held(ledger) == (AT_ONCE if end == "committed" else 0)
    third = case.finish("fleet_claimer", ledger=ledger, more=MORE)
    assert (third.exit_code, third.said["tally"]["completed"]) == (0, AT_ONCE), third.lines
    happened = Counter(effect.args["run"] for effect in case.world.effects())
    assert happened == {f"run-{number}": 1 for number in range(RUNS)}


def test_two_processes_keep_one_limit_together(case: Case, tmp_path: Path) -> None:
    """P311, on PostgreSQL: only the database knows what the other process does."""
    more = {"runs": 6, "at_once": 3, "inside": str(tmp_path / "inside")}
    ledger = server.ledger_url(tmp_path)
    fleet = [case.start("fleet_limited", ledger=ledger, more=more) for _ in range(2)]
    for one in fleet:
        assert one.end().exit_code == 0, one.lines
    assert [one.said["overlaps"] for one in fleet] == [0, 0]
    happened = Counter(effect.args["run"] for effect in case.world.effects())
    assert happened == {f"run-{number}": 1 for number in range(6)}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_run_that_kills_every_worker_is_failed_and_the_others_are_done(
    case: Case, tmp_path: Path, kind: str
) -> None:
    """P312, with processes that really die."""
    ledger = server.ledger_url(tmp_path) if kind == "postgres" else str(tmp_path / "ledger.db")
    more = {"runs": 3, "at_once": 1}
    lives = []
    for number in range(12):
        # Hours lie between two of them, so no delay is left.
        plan = {"ledger": ledger, "more": more, "hours_ahead": float(number)}
        lives.append(case.finish("fleet_poisoned", **plan))
        if not lives[-1].was_killed:
            break
    *killed, last = lives
    assert len(killed) == MOST_KILLS
    assert last.said["tally"]["failed"] == 1
    happened = Counter(effect.args["run"] for effect in case.world.effects())
    assert happened == {"run-1": 1, "run-2": 1}


def test_told_to_stop_a_worker_releases_what_it_has_claimed_and_ends_with_0(
    case: Case, tmp_path: Path
) -> None:
    """P65 and P308, on PostgreSQL with a real SIGTERM."""
    ledger, more = server.ledger_url(tmp_path), {"runs": 40, "at_once": 8}
    case.finish("fleet_producer", ledger=ledger, more=more)
    worker = case.start("fleet_worker", ledger=ledger, more=more)
    worker.hear("started")
    wait_until(lambda: case.world.effects())
    worker.signal(signal.SIGTERM)
    assert worker.end().exit_code == 0, worker.lines
    assert worker.said["tally"]["at_work"] == []
    with closing(PostgresStore(ledger, now=0.0)) as store:
        assert store.holders_of_runs() == []
