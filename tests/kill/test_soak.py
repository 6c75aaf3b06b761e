"""Many runs, four workers, and a killer that strikes at random, for a chosen time.

At the end nothing happened twice, nothing is lost, and at no moment did a run wait without a reason
on record (P28, P14). ``make soak`` takes minutes over it, ``make deep-soak`` one.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from nottwice.store.sqlite.schema import known_scripts
from nottwice.testing import World
from tests.kill.processes import Agent, Case, Nursery
from tests.kill.soak import EFFECTS, FINAL_STATE

SECONDS = float(os.environ.get("NOTTWICE_SOAK_SECONDS", "5"))
RUNS = int(os.environ.get("NOTTWICE_SOAK_RUNS", "40"))
SEED = int(os.environ.get("NOTTWICE_SEED", random.randrange(10**9)))
WORKERS = 4
FINISH_SECONDS = 240.0
SCHEMA_VERSION = known_scripts()[-1].number

WITHOUT_REASON = """
SELECT workflow_id, waits_json FROM nottwice_runs
 WHERE status = 'waiting' AND (waits_json IS NULL OR waits_json = '[]')
"""
STATUSES = "SELECT status, COUNT(*) FROM nottwice_runs GROUP BY status"
DOUBTS = "SELECT COUNT(*) FROM tool_call_results WHERE status IN ('PENDING', 'UNKNOWN')"
OPEN = "SELECT COUNT(*) FROM nottwice_reviews WHERE status IN ('open', 'decided')"
UNDONE_STEPS = "SELECT workflow_id, node_id, status FROM nottwice_steps WHERE status <> 'done'"


class Soak:
    """One ledger, its workers, and what was done to them."""

    def __init__(self, nursery: Nursery, world: World, ledger: Path, name: str) -> None:
        self.case = Case(nursery, world, ledger, name)
        self.chosen = random.Random(f"{SEED} {name}")
        self.counts: Counter[str] = Counter()
        self.decider = self._start("soak_decider")
        self.workers = [self._start("soak_worker") for _ in range(WORKERS)]

    def _start(self, program: str) -> Agent:
        more = {"runs": RUNS, "seed": self.chosen.random()}
        self.counts[program] += 1
        return self.case.start(program, more=more)

    def kill_for(self, seconds: float) -> None:
        """Kill one of them after the other, and put a new one in its place."""
        over = time.monotonic() + seconds
        while time.monotonic() < over and self._left():
            time.sleep(self.chosen.uniform(0.01, 0.12))
            self.check_reasons()
            if self.chosen.random() < 0.1:
                self.decider.kill()
                self.decider = self._start("soak_decider")
            else:
                place = self.chosen.randrange(WORKERS)
                self.workers[place].kill()
                self.workers[place] = self._start("soak_worker")
            self.counts["kills"] += 1

    def finish(self) -> None:
        """Let them finish what is left, undisturbed."""
        for agent in (*self.workers, self.decider):
            agent.end()
            assert agent.exit_code == 0, agent.lines

    def check_reasons(self) -> None:
        waiting = self.select(WITHOUT_REASON)
        assert not waiting, f"they wait without a reason on record: {waiting}"

    def select(self, sql: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self.case.ledger, timeout=60)) as connection:
            if connection.execute("PRAGMA user_version").fetchone()[0] < SCHEMA_VERSION:
                # The first process is still creating the tables.
                return []
            return connection.execute(sql).fetchall()

    def _left(self) -> bool:
        statuses: dict[str, int] = dict(self.select(STATUSES))
        return statuses.get("completed", 0) < RUNS


@pytest.mark.deep(part="soak")
@pytest.mark.timeout(SECONDS + FINISH_SECONDS)
def test_runs_whose_workers_are_killed_at_random_all_end_as_they_should(
    nursery: Nursery, tmp_path: Path
) -> None:
    print(f"NOTTWICE_SEED={SEED}")
    until = time.monotonic() + SECONDS
    counts: Counter[str] = Counter()
    for number in range(1, 10**6):
        with World.start() as world:
            soak = Soak(nursery, world, tmp_path / f"{number}.db", f"soak-{number}")
            try:
                soak.kill_for(until - time.monotonic())
                soak.finish()
                check(soak)
            finally:
                soak.case.close()
            counts += soak.counts
        if time.monotonic() > until:
            break
    print(f"{number * RUNS} runs, {dict(counts)}")
    assert counts["kills"] > SECONDS


def check(soak: Soak) -> None:
    """Nothing twice, nothing lost, nothing open."""
    assert soak.select(STATUSES) == [("completed", RUNS)]
    assert soak.select(UNDONE_STEPS) == []
    assert soak.select(DOUBTS) == [(0,)]
    assert soak.select(OPEN) == [(0,)]
    happened = Counter(
        (effect.args["run"], f"{effect.tool} {effect.args['what']}")
        for effect in soak.case.world.effects()
    )
    expected = {(f"run-{number}", what) for number in range(RUNS) for what in EFFECTS}
    assert set(happened) == expected, "something is lost, or was never asked for"
    assert set(happened.values()) == {1}, "something happened twice"
    soak.counts["effects"] = len(happened)
    soak.counts["attempts beyond the first"] = soak.select(
        "SELECT COALESCE(SUM(attempt - 1), 0) FROM tool_call_results"
    )[0][0]
    soak.counts["settled by a person or by verify"] = soak.select(
        "SELECT COUNT(*) FROM tool_call_results"
        " WHERE settled_by IS NOT NULL AND tool_name NOT LIKE 'nottwice.%'"
    )[0][0]
    answers = soak.select("SELECT result_json FROM tool_call_results WHERE tool_name LIKE '%ask%'")
    assert [json.loads(answer) for (answer,) in answers] == [FINAL_STATE["answer"]] * RUNS
