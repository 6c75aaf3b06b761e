"""A graph that is killed anywhere, and again while it resumes, ends as if nothing had happened.

Real processes, real SIGKILL, and an upstream in a separate process (P28, P29). The graph uses all
features. It is killed at both ends of every node, and on both sides of every commit and request.
What a killed run must look like is measured by a run that is not interrupted. By default a sample
of the pairs of kills is tried, from a seed that is printed. ``make kills`` tries all of them, and
NOTTWICE_KILLS=200 that many.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nottwice.store.files.store import JsonFileStore
from nottwice.testing import World
from tests.kill.processes import Agent, Case, Nursery

PAIRS = os.environ.get("NOTTWICE_KILLS", "8")
SEED = int(os.environ.get("NOTTWICE_SEED", random.randrange(10**9)))
SHARES = 4
"""The places are divided among this many tests, which can run side by side."""

CALLS = """
SELECT workflow_id, node_id, checkpoint_id, tool_name, input_hash, call_id, status, replay_class,
       args_json, result_json, result_kind, label, idempotency_key, failure_json, retry_at
  FROM tool_call_results
"""
RUNS = """
SELECT workflow_id, status, graph_id, input_json, parent_id, root_id, origin, waits_json, holder_id,
       failure_json
  FROM nottwice_runs
"""
STEPS = "SELECT workflow_id, node_id, checkpoint_id, status, failure_json FROM nottwice_steps"
OPEN = "SELECT review_id FROM nottwice_reviews WHERE status IN ('open', 'decided')"
CALL_IDS = "SELECT call_id FROM tool_call_results"

Picture = dict[str, Any]


class Cases:
    """Cases with a ledger each, in one folder."""

    def __init__(self, nursery: Nursery, world: World, folder: Path) -> None:
        self._nursery, self._world, self._folder = nursery, world, folder
        self._made = 0

    @contextlib.contextmanager
    def one(self) -> Iterator[Case]:
        self._made += 1
        name = f"{self._folder.name}-{self._made}"
        made = Case(self._nursery, self._world, self._folder / f"{self._made}.db", name)
        yield made
        made.close()


@pytest.fixture(scope="module")
def cases(nursery: Nursery, world: World) -> Iterator[Cases]:
    # A SIGKILL loses nothing that was written, so memory is as good a disk as any, and faster.
    memory = Path("/dev/shm")
    base = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="nottwice-", dir=base) as folder:
        yield Cases(nursery, world, Path(folder))


def select(case: Case, sql: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(case.ledger, timeout=30)) as connection:
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            return []
        return sorted(connection.execute(sql).fetchall(), key=repr)


def picture(case: Case, agent: Agent) -> Picture:
    """All that is left of a run but times, attempts and who made them."""
    return {
        "status": agent.said["status"],
        "state": agent.said["state"],
        "calls": select(case, CALLS),
        "runs": select(case, RUNS),
        "steps": select(case, STEPS),
        "open reviews": select(case, OPEN),
        "upstream": upstream(case),
    }


def upstream(case: Case) -> list[Any]:
    """What really happened, how often, for which call."""
    prefix = f"{case.effect} "
    return sorted(
        (effect.tool.removeprefix(prefix), repr(effect.args), effect.call_id, effect.key)
        for effect in case.world.effects()
        if effect.tool.startswith(prefix)
    )


def check_after_kill(case: Case) -> None:
    """Before anything heals it: nothing happened of which the ledger knows nothing."""
    known = {call_id for (call_id,) in select(case, CALL_IDS)} if case.ledger.exists() else set()
    happened = [effect[2] for effect in upstream(case)]
    assert known.issuperset(happened)
    assert len(set(happened)) == len(happened), "something happened twice"


def uninterrupted(cases: Cases, **plan: Any) -> tuple[Picture, list[tuple[str, int]]]:
    with cases.one() as case:
        agent = case.finish("everything", **plan)
        assert agent.said["status"] == "completed"
        places = [(name, number) for name, number in agent.said["places"]]
        return picture(case, agent), places


def resumed(case: Case, **plan: Any) -> Picture:
    agent = case.finish("everything", **plan)
    assert agent.exit_code == 0
    return picture(case, agent)


@pytest.mark.sampled(part="sweeps", keep=1)
@pytest.mark.parametrize("share", range(SHARES))
def test_a_run_killed_at_any_place_ends_like_an_uninterrupted_one(cases: Cases, share: int) -> None:
    expected, places = uninterrupted(cases)
    assert len(places) > 90
    assert len(set(expected["upstream"])) == len(expected["upstream"]) == 10
    for place, number in places[share::SHARES]:
        with cases.one() as case:
            killed = case.finish("everything", die_at=place, die_at_visit=number)
            assert killed.was_killed, place
            check_after_kill(case)
            assert resumed(case) == expected, place


@pytest.mark.sampled(part="sweeps", keep=2)
@pytest.mark.parametrize("cadence", ["effects", "every_step", "on_exit"])
@pytest.mark.parametrize("is_async", [False, True])
def test_the_same_holds_in_an_event_loop_and_for_every_cadence(
    cases: Cases, cadence: str, is_async: bool
) -> None:
    chosen = random.Random(f"{SEED} {cadence} {is_async}")
    print(f"NOTTWICE_SEED={SEED}")
    plan: dict[str, Any] = {"is_async": is_async, "more": {"cadence": cadence}}
    expected, places = uninterrupted(cases, **plan)
    for place, number in places if PAIRS == "all" else chosen.sample(places, 4):
        with cases.one() as case:
            # In another process the branches may be in another order: the place is reached anyway.
            assert case.finish("everything", die_at=place, die_at_visit=number, **plan).was_killed
            check_after_kill(case)
            assert resumed(case, **plan) == expected, place


@pytest.mark.sampled(part="sweeps", keep=1)
@pytest.mark.parametrize("share", range(SHARES))
def test_a_run_killed_again_while_it_resumes_ends_like_an_uninterrupted_one(
    cases: Cases, share: int
) -> None:
    expected, places = uninterrupted(cases)
    tried = 0
    for first, second in pairs(len(places), share):
        with cases.one() as case:
            place, number = places[first]
            assert case.finish("everything", die_at=place, die_at_visit=number).was_killed
            again = case.finish("everything", more={"die_at_place": second})
            check_after_kill(case)
            assert resumed(case) == expected, (place, number, second, again.lines)
            tried += again.was_killed
        if PAIRS != "all" and tried >= int(PAIRS) // SHARES:
            break
    print(f"NOTTWICE_SEED={SEED}: {tried} pairs of kills")
    assert tried


def pairs(count: int, share: int) -> Iterator[tuple[int, int]]:
    """The place of the first kill, and how many places on the resumed process dies.

    What is done already is not done again, so the later the first kill, the shorter the resume.
    """
    left = [(first, k) for first in range(count) for k in range(1, count - first + 12)]
    if PAIRS == "all":
        yield from left[share::SHARES]
        return
    print(f"NOTTWICE_SEED={SEED}")
    # Some second kills come too late to be met, so there is always one more.
    yield from random.Random(f"{SEED} {share}").sample(left, len(left))


def test_the_same_holds_in_a_ledger_of_json_files(cases: Cases) -> None:
    chosen = random.Random(f"{SEED} files")
    print(f"NOTTWICE_SEED={SEED}")
    plan: dict[str, Any] = {"more": {"files": True}}
    with cases.one() as case:
        agent = case.finish("everything", **plan)
        places = [(name, number) for name, number in agent.said["places"]]
        expected = picture_of_files(case, agent)
    for place, number in places if PAIRS == "all" else chosen.sample(places, 8):
        with cases.one() as case:
            assert case.finish("everything", die_at=place, die_at_visit=number, **plan).was_killed
            more = {**plan["more"], "die_at_place": chosen.randrange(1, 60)}
            case.finish("everything", more=more)
            agent = case.finish("everything", **plan)
            assert picture_of_files(case, agent) == expected, place


def picture_of_files(case: Case, agent: Agent) -> Picture:
    """The same picture, read through the store: files are not to be read with SQL."""
    store = JsonFileStore(case.ledger, now=0.0, create=False)
    runs = sorted(store.runs(), key=lambda run: run.workflow_id)
    ids = [run.workflow_id for run in runs]
    calls = [(row.identity, row.status, row.result) for name in ids for row in store.calls(name)]
    steps = [
        (step.node_id, step.checkpoint_id, step.status)
        for name in ids
        for step in store.steps(name)
    ]
    open_reviews = store.open_reviews()
    store.close()
    return {
        "status": agent.said["status"],
        "state": agent.said["state"],
        "calls": sorted(calls, key=repr),
        "runs": [(run.workflow_id, run.status, run.waits, run.holder_id) for run in runs],
        "steps": sorted(steps, key=repr),
        "open reviews": open_reviews,
        "upstream": upstream(case),
    }


def test_a_run_that_is_killed_over_and_over_still_ends_as_it_should(cases: Cases) -> None:
    """Each process gets a little further than the one before it; none gets far.

    With fewer places than these, one would spend its whole life on what is not durable yet.
    """
    expected, _ = uninterrupted(cases)
    with cases.one() as case:
        killed = 0
        while (agent := case.finish("everything", more={"die_at_place": 16})).was_killed:
            check_after_kill(case)
            killed += 1
            assert killed < 200
        assert picture(case, agent) == expected
        assert killed > 5
