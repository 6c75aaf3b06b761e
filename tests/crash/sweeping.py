"""How our own sweeps are run: briefly by every test run, for longer by ``make crash``.

``python -m tests.crash.sweeping --budget 600s`` explores every agent on every store at every level
and prints how many points it has examined; it fails if anything is wrong anywhere.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator

from nottwice.model.tool import parse_duration
from nottwice.testing.crash.inside.scratch import VARIABLE, scratch_url
from nottwice.testing.crash.sweep import Orders, level_names, sweep
from nottwice.testing.crash.verdict import Verdict
from tests.crash.agents import AGENTS
from tests.crash.scenarios import GRAPHS, GUARD, Agent

STORES = {"sqlite": "agent.db", "jsonfile": "file:agent", "postgres": "postgresql:///agent"}
"""What an agent is told; on PostgreSQL it is led elsewhere (NOTTWICE_CRASH_POSTGRES)."""
SHARES = {"boundaries": 2.0, "double": 3.0, "lines": 3.0, "takeover": 2.0, "io": 2.0, "power": 2.0}
"""How much of the time each level gets; what is not named here gets one share."""

OF_FILES = ("io", "power")
"""Levels that break the disk under the ledger's files; a server has its own."""


def examine(
    name: str, agent: Agent, *, store: str, level: str, budget_seconds: float, seed: int | None
) -> Verdict:
    """Sweep one agent on one store at one level."""
    place = STORES[store]

    def again(level: str, numbers: tuple[int, ...]) -> str:
        point = ",".join(map(str, numbers))
        words = f"--agent {name!r} --store {store} --level {level} --points {point}"
        return f"python -m tests.crash.sweeping {words}"

    orders = Orders(levels=(level,), budget_seconds=budget_seconds, seed=seed, reproduce=again)
    with _database_for(store):
        return sweep(agent.scenario(name, place), orders)


@contextlib.contextmanager
def _database_for(store: str) -> Iterator[None]:
    """Without the database for ledgers on PostgreSQL, unless this is one."""
    url = os.environ.get(VARIABLE) if store == "postgres" else os.environ.pop(VARIABLE, None)
    try:
        yield
    finally:
        if url is not None:
            os.environ[VARIABLE] = url


def assert_nothing_wrong(
    name: str, agent: Agent, *, store: str, level: str, budget_seconds: float
) -> Verdict:
    """The same for a test: fails with the lines that show it again."""
    verdict = examine(
        name, agent, store=store, level=level, budget_seconds=budget_seconds, seed=None
    )
    assert not verdict.failures, "\n".join(verdict.lines())
    assert verdict.examined > 0
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="600s")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--agent", action="append")
    parser.add_argument("--store", action="append", choices=STORES)
    parser.add_argument("--level", action="append", choices=level_names())
    parser.add_argument("--points")
    given = parser.parse_args()
    agents = {
        name: agent
        for name, agent in {**GUARD, **GRAPHS, **AGENTS}.items()
        if not given.agent or name in given.agent
    }
    if given.points:
        return _one_point(agents, given)
    stores, levels = _served(given.store or list(STORES)), given.level or level_names()
    seed = given.seed if given.seed is not None else int.from_bytes(os.urandom(3))
    print(f"seed {seed}")
    return _explore(agents, stores, levels, parse_duration(given.budget, what="budget"), seed)


def _served(stores: list[str]) -> list[str]:
    """The same, with a server for the ledgers on PostgreSQL, if there is one to be had."""
    if "postgres" in stores and scratch_url() is None:
        try:
            from tests.postgres import server

            os.environ[VARIABLE] = server.url()
        except ImportError as error:
            print(f"postgres is left out: {error}")
            return [store for store in stores if store != "postgres"]
    return stores


def _explore(
    agents: dict[str, Agent], stores: list[str], levels: list[str], budget: float, seed: int
) -> int:
    began, points, failed = time.monotonic(), 0, 0
    jobs = [
        (level, store, name)
        for level in levels
        for store in stores
        for name in agents
        if not (store == "postgres" and level in OF_FILES)
    ]
    shares = [SHARES.get(level, 1.0) for level, _, _ in jobs]
    for index, (level, store, name) in enumerate(jobs):
        # What one job leaves of its time is shared by those that follow.
        left = max(1.0, began + budget - time.monotonic())
        seconds = left * shares[index] / sum(shares[index:])
        verdict = examine(
            name, agents[name], store=store, level=level, budget_seconds=seconds, seed=seed
        )
        points += verdict.examined
        failed += len(verdict.failures)
        _show(level, store, verdict.lines())
    seconds = time.monotonic() - began
    print(f"{points:,} points in {seconds:.0f} s, {failed} with something wrong")
    return 1 if failed else 0


def _show(level: str, store: str, lines: Iterable[str]) -> None:
    first, swept, *rest = lines
    points = swept.partition(": ")[2].partition(" points")[0]
    print(f"{level} {store} {first}: {points}", flush=True)
    for line in rest[2:]:
        print(line, flush=True)


def _one_point(agents: dict[str, Agent], given: argparse.Namespace) -> int:
    numbers = tuple(int(part) for part in given.points.split(","))
    failed = 0
    for name, agent in agents.items():
        for store in _served(given.store or ["sqlite"]):
            orders = Orders(levels=tuple(given.level or ["boundaries"]), points=(numbers,))
            with _database_for(store):
                verdict = sweep(agent.scenario(name, STORES[store]), orders)
            print("\n".join(verdict.lines()))
            failed += len(verdict.failures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
