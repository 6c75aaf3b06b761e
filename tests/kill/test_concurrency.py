"""Is an effect made once when many request it together? Processes, threads, a hundred runs. (D9)"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from nottwice.store.sqlite.schema import bring_forward, version_of
from tests.kill.agents import RESULT
from tests.kill.matrix import EFFECTFUL, State, check_state
from tests.kill.processes import Case

RUNS = 100
both = pytest.mark.parametrize("is_async", [False, True], ids=["threads", "event loop"])


@pytest.mark.parametrize("kind", EFFECTFUL)
def test_processes_that_start_the_same_run_at_once_make_one_effect(case: Case, kind: str) -> None:
    crowd = [case.start(kind=kind, run_options={"acquire_timeout": "60s"}) for _ in range(4)]
    said = [agent.end().said for agent in crowd]
    assert [one.get("value") for one in said] == [RESULT] * len(crowd), said
    assert [one["replayed"] for one in said].count(False) == 1
    assert len({one["id"] for one in said}) == 1, "all hold the same receipt"
    check_state(case, State("DONE", 1, 1))


@pytest.mark.parametrize("kind", EFFECTFUL)
def test_threads_that_make_the_same_call_at_once_make_one_effect(case: Case, kind: str) -> None:
    gate = case.gate("both are in")
    agent = case.start("two_threads", kind=kind, faults={"hold": gate})
    case.client.wait_until_held(gate)
    # The thread that opens the run for itself is turned away while the others are in it.
    assert "another thread" in agent.hear("error")["text"]
    case.client.release(gate)
    agent.end()
    receipts = [line for line in agent.words if "value" in line]
    assert sorted(one["replayed"] for one in receipts) == [False, True]
    assert "opened_too_early" not in agent.said
    check_state(case, State("DONE", 1, 1))


def test_a_ledger_that_another_process_is_making_is_not_taken_for_a_strangers_file(
    tmp_path: Path,
) -> None:
    """Who looks first sees no tables yet, and the next moment all of them."""
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as looking:

        def meanwhile(statement: str) -> None:
            if "user_version" in statement:
                with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
                    # Locked out, if the one who looks sees to it.
                    with suppress(sqlite3.OperationalError):
                        bring_forward(other, str(path))

        looking.set_trace_callback(meanwhile)
        assert version_of(looking, str(path)) == 0


def states_of_all(case: Case) -> list[list[tuple[str, int]]]:
    return [
        [(row["status"], row["attempt"]) for row in case.rows(f"run-{number}")]
        for number in range(RUNS)
    ]


@pytest.mark.sampled(part="sweeps", keep=2)
@both
@pytest.mark.parametrize("kind", ["unsafe", "keyed"])
def test_a_hundred_runs_at_once_make_a_hundred_effects(
    case: Case, kind: str, is_async: bool
) -> None:
    plan = {"kind": kind, "is_async": is_async, "more": {"count": RUNS}}
    if kind == "keyed":
        plan["options"] = {"key": "refund-{order}"}
    for _ in range(2):
        assert case.finish("many_runs", **plan).said["ended"] is True
        assert states_of_all(case) == [[("DONE", 1)]] * RUNS
        orders = sorted(effect.args["order"] for effect in case.world.effects(case.effect))
        assert orders == list(range(RUNS))


@pytest.mark.sampled(part="sweeps", keep=2)
@both
@pytest.mark.parametrize("applied", [False, True], ids=["before the effects", "after the effects"])
def test_a_hundred_runs_killed_at_once_are_each_done_once(
    case: Case, applied: bool, is_async: bool
) -> None:
    """All hundred requests are under way when the process dies."""
    gate, kind = case.gate("all"), "verified" if applied else "settled"
    more = {"count": RUNS, "faults_for_all": {"hold" if applied else "hold_before": gate}}
    crowd = case.start("many_runs", kind=kind, is_async=is_async, more=more)
    case.client.wait_until_held(gate, count=RUNS, timeout_seconds=50)
    assert crowd.kill().was_killed
    assert states_of_all(case) == [[("PENDING", 1)]] * RUNS
    assert case.effects() == (RUNS if applied else 0)
    resumed = case.finish("many_runs", kind=kind, is_async=is_async, more={"count": RUNS})
    assert resumed.said["ended"] is True
    assert states_of_all(case) == [[("DONE", 1 if applied else 2)]] * RUNS
    orders = sorted(effect.args["order"] for effect in case.world.effects(case.effect))
    assert orders == list(range(RUNS))


def test_runs_cancelled_while_their_claims_are_written_do_not_affect_the_others(
    case: Case,
) -> None:
    agent = case.finish("cancel_crowd", is_async=True)
    assert agent.said["hanging"] == 0
    assert agent.said["cancelled"] == 6
    assert agent.said["reopened"] is True
    assert sorted(effect.args["order"] for effect in case.world.effects(case.effect)) == list(
        range(30)
    )
