"""Workers on one ledger that are killed and told to stop at random, for a chosen time (P66).

At the end nothing happened twice, nothing is lost, no run is stuck, and workers told to stop
have released every run. ``make soak`` takes minutes over it, ``make deep-soak`` one.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from nottwice.store.sqlite.schema import known_scripts
from nottwice.testing import World
from tests.kill.fleet import FLEET_EFFECTS
from tests.kill.processes import Agent, Case, Nursery
from tests.postgres import server

SECONDS = float(os.environ.get("NOTTWICE_FLEET_SECONDS", "2"))
RUNS = int(os.environ.get("NOTTWICE_FLEET_RUNS", "16"))
WORKERS = int(os.environ.get("NOTTWICE_FLEET_WORKERS", "4"))
STORES = os.environ.get("NOTTWICE_FLEET_STORES", "sqlite,postgres").split(",")
SEED = int(os.environ.get("NOTTWICE_SEED", random.randrange(10**9)))
AT_ONCE = 4
FEWEST_KILLS = 2
FINISH_SECONDS = 120.0
STATUSES = "SELECT status, COUNT(*) FROM nottwice_runs WHERE parent_id IS NULL GROUP BY status"
LEFT = (
    "SELECT workflow_id, status, holder_id, waits_json, failure_json FROM nottwice_runs"
    " WHERE status <> 'completed'"
)
DOUBTS = "SELECT COUNT(*) FROM tool_call_results WHERE status IN ('PENDING', 'UNKNOWN')"
REVIEWS = "SELECT COUNT(*) FROM nottwice_reviews WHERE status IN ('open', 'decided')"
READY = "SELECT COUNT(*) FROM nottwice_runs WHERE ready_at IS NOT NULL"


class Place:
    """Where ledgers are: files in a folder."""

    restarts = 0
    """How often it is restarted, for that many times that something else is done."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ledger(self, name: str) -> str:
        return str(self._folder / f"{name}.db")

    def select(self, ledger: str, sql: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(ledger, timeout=60)) as connection:
            if connection.execute("PRAGMA user_version").fetchone()[0] < known_scripts()[-1].number:
                return []
            return connection.execute(sql).fetchall()

    def restart(self, chosen: random.Random) -> None:
        raise AssertionError("files are not restarted")

    def end(self) -> None:
        pass


class Database(Place):
    """A PostgreSQL of our own, which is restarted under the workers, in order or by a crash."""

    restarts = 2

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = server.Server()

    def ledger(self, name: str) -> str:
        return server.with_words(self._server.url, schema=name)

    def select(self, ledger: str, sql: str) -> list[tuple[Any, ...]]:
        url, schema = re.split("[?&]schema=", ledger)
        try:
            with psycopg.connect(url, options=f"-c search_path={schema}") as connection:
                # Tables lie in a schema here, so they have no prefix.
                return connection.execute(sql.replace("nottwice_", "")).fetchall()
        except (psycopg.OperationalError, psycopg.errors.UndefinedTable):
            # It is away just now, or the first process is still creating the tables.
            return []

    def restart(self, chosen: random.Random) -> None:
        self._server.restart(chosen.choice(("immediate", "fast")))

    def end(self) -> None:
        self._server.end()


class Fleet:
    """One ledger, its workers, and what was done to them."""

    def __init__(self, nursery: Nursery, world: World, place: Place, name: str) -> None:
        self.place = place
        self.ledger = place.ledger(name)
        self.case = Case(nursery, world, Path(name), name)
        self.chosen = random.Random(f"{SEED} {name}")
        self.counts: Counter[str] = Counter()
        self.producer = self._start("fleet_producer")
        self.decider = self._start("fleet_decider")
        self.workers = [self._start("fleet_worker") for _ in range(WORKERS)]

    def _start(self, program: str) -> Agent:
        self.counts[program] += 1
        more = {"runs": RUNS, "at_once": AT_ONCE}
        return self.case.start(program, ledger=self.ledger, more=more)

    def disturb_for(self, seconds: float) -> None:
        """Kill one after the other, or tell it to stop, and put a new one in its place."""
        over = time.monotonic() + seconds
        for what in self._disturbances():
            if self.is_done() or (time.monotonic() > over and self.counts["kill"] >= FEWEST_KILLS):
                return
            time.sleep(self.chosen.uniform(0.02, 0.25))
            match what:
                case "restart":
                    self.counts["restart"] += 1
                    self.place.restart(self.chosen)
                case "decider":
                    _kill(self.decider)
                    self.decider = self._start("fleet_decider")
                case "producer":
                    _kill(self.producer)
                    self.producer = self._start("fleet_producer")
                case how:
                    place = self.chosen.randrange(WORKERS)
                    self._end(self.workers[place], how)
                    self.workers[place] = self._start("fleet_worker")

    def _disturbances(self) -> Iterator[str]:
        yield from ["kill"] * FEWEST_KILLS
        what = ("kill", "stop", "decider", "producer", "restart")
        while True:
            yield self.chosen.choices(what, (6, 2, 1, 1, self.place.restarts))[0]

    def _end(self, worker: Agent, how: str) -> None:
        self.counts[how] += 1
        if how == "kill":
            worker.kill()
            return
        worker.hear("started")
        worker.signal(signal.SIGTERM)
        worker.end()
        assert worker.exit_code == 0, worker.lines
        tally = worker.said["tally"]
        assert tally["at_work"] == [], tally
        self.counts["handed back"] += tally["handed_back"]

    def finish(self) -> None:
        """Let them finish what is left, undisturbed, and tell them to stop."""
        self.producer.end()
        over = time.monotonic() + FINISH_SECONDS
        while not self.is_done():
            assert time.monotonic() < over, f"these are stuck: {self.select(LEFT)}"
            time.sleep(0.02)
        for worker in self.workers:
            self._end(worker, "stop")
        assert self.decider.end().exit_code == 0

    def is_done(self) -> bool:
        return ("completed", RUNS) in self.select(STATUSES)

    def select(self, sql: str) -> list[tuple[Any, ...]]:
        return self.place.select(self.ledger, sql)

    def check(self) -> None:
        """Nothing twice, nothing lost, nothing open, nothing left to take up."""
        assert self.select(LEFT) == []
        assert [self.select(sql) for sql in (DOUBTS, REVIEWS, READY)] == [[(0,)]] * 3
        happened = Counter(
            (effect.args["run"].partition(".")[0], f"{effect.tool} {effect.args['what']}")
            for effect in self.case.world.effects()
        )
        expected = {(f"run-{number}", what) for number in range(RUNS) for what in FLEET_EFFECTS}
        assert set(happened) == expected, "something is lost, or was never asked for"
        assert set(happened.values()) == {1}, "something happened twice"
        self.counts["effects"] = len(happened)


def _kill(agent: Agent) -> None:
    """Kill a process that may already have ended."""
    with contextlib.suppress(ProcessLookupError):
        agent.signal(signal.SIGKILL)
    agent.end()


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    place = {"sqlite": Place, "postgres": Database}[request.param](tmp_path)
    yield place
    place.end()


@pytest.mark.deep(part="soak")
@pytest.mark.timeout(SECONDS + 2 * FINISH_SECONDS)
def test_a_fleet_whose_workers_are_killed_and_stopped_at_random_loses_and_repeats_nothing(
    nursery: Nursery, place: Place
) -> None:
    print(f"NOTTWICE_SEED={SEED}")
    began = time.monotonic()
    counts: Counter[str] = Counter()
    number = 0
    while not number or time.monotonic() < began + SECONDS:
        number += 1
        with World.start() as world:
            fleet = Fleet(nursery, world, place, f"fleet_{number}")
            try:
                fleet.disturb_for(began + SECONDS - time.monotonic())
                fleet.finish()
                fleet.check()
            finally:
                fleet.case.close()
            counts += fleet.counts
    figures = ", ".join(f"{name}: {counts[name]}" for name in sorted(counts))
    took = time.monotonic() - began
    print(f"{number * RUNS} runs in {took:.1f} s, 0 twice, 0 lost, 0 stuck ({figures})")
    assert counts["kill"] >= FEWEST_KILLS
