"""Is every effect done at most once, wherever its process is killed? (L2, D1, D2, D3, D10)

For every class of tool, sync and async: SIGKILL at every place of a call, then at every place of
the resume. The upstream and the ledger are looked at right after each crash and after the last
resume; what they must show is written down in ``matrix.py``.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.kill.agents import RESULT
from tests.kill.matrix import (
    CLEAN,
    EFFECTFUL,
    ENDINGS,
    PLACES,
    State,
    after_kill,
    cases_of_two_kills,
    check_ending,
    check_state,
    kill_at,
)
from tests.kill.processes import ROOT, Case

both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@pytest.mark.sampled(part="sweeps", keep=24)
@both
@pytest.mark.parametrize("kind", EFFECTFUL)
@pytest.mark.parametrize("place", PLACES["first attempt"])
def test_a_call_killed_at_any_place_takes_effect_at_most_once(
    case: Case, kind: str, place: str, is_async: bool
) -> None:
    kill_at(case, place, kind, is_async=is_async)
    state = after_kill(kind, CLEAN, place)
    check_state(case, state)
    resumed = case.finish(kind=kind, is_async=is_async)
    check_ending(case, kind, state, resumed)


@pytest.mark.sampled(part="sweeps", keep=24)
@both
@pytest.mark.parametrize(("kind", "first", "second"), cases_of_two_kills())
def test_a_resume_killed_at_any_place_takes_effect_at_most_once(
    case: Case, kind: str, first: str, second: str, is_async: bool
) -> None:
    state = CLEAN
    for place in (first, second):
        kill_at(case, place, kind, is_async=is_async)
        state = after_kill(kind, state, place)
        check_state(case, state)
    resumed = case.finish(kind=kind, is_async=is_async)
    check_ending(case, kind, state, resumed)


@pytest.mark.parametrize("kind", EFFECTFUL)
def test_a_finished_run_is_never_done_again_however_often_it_is_resumed(
    case: Case, kind: str
) -> None:
    case.finish(kind=kind)
    for _ in range(2):
        again = case.finish(kind=kind)
        assert again.said["replayed"] is True
        assert again.said["value"] == RESULT
    check_state(case, State("DONE", 1, 1))


@pytest.mark.parametrize("kind", ["keyed", "settled"])
def test_a_crash_loop_records_every_attempt_and_takes_effect_once(case: Case, kind: str) -> None:
    for attempt in (1, 2, 3):
        kill_at(case, "after intent", kind, is_async=False)
        check_state(case, State("PENDING", 0, attempt))
    resumed = case.finish(kind=kind)
    check_ending(case, kind, State("PENDING", 0, 3), resumed)
    past = json.loads(case.row()["past_json"])
    assert [one["attempt"] for one in past] == [1, 2, 3]
    holders = {one["holder_id"] for one in past} | {case.row()["holder_id"]}
    assert len(holders) == 4, "every attempt names the process that made it"


@pytest.mark.parametrize("kind", EFFECTFUL)
def test_an_intent_names_its_attempt_holder_class_and_key_before_the_effect(
    case: Case, kind: str
) -> None:
    gate = case.gate()
    agent = case.start(kind=kind, faults={"hold_before": gate})
    case.client.wait_until_held(gate)
    row = case.row()
    assert (row["status"], row["attempt"], row["finished_at"]) == ("PENDING", 1, None)
    assert row["attempt_id"]
    assert row["holder_id"] == case.run_record()["holder_id"]
    keyed = kind == "keyed"
    assert row["replay_class"] == ("idempotent_with_key" if keyed else "unsafe_on_replay")
    assert row["idempotency_key"] == ("refund-7" if keyed else None)
    assert json.loads(row["args_json"]) == {"order": 7, "cents": 4000}
    case.client.release(gate)
    assert agent.end().said["value"] == RESULT


# A kill of a pure call: place → reads right after it, rows, and reads after the resume.
PURE = {
    "before claim": (0, [], 1),
    "body start": (0, [], 1),
    "held after": (1, [], 2),
    "body end": (1, [], 2),
    "after the call": (1, [], 2),
    "before release": (1, [], 2),
    "after release": (1, ["DONE"], 1),
}


@both
@pytest.mark.parametrize("place", PURE)
def test_a_pure_call_is_simply_made_again_unless_its_result_is_durable(
    case: Case, place: str, is_async: bool
) -> None:
    reads, rows, reads_in_all = PURE[place]
    kill_at(case, place, "pure", is_async=is_async)
    assert case.effects() == reads
    assert [row["status"] for row in case.rows()] == rows
    resumed = case.finish(kind="pure", is_async=is_async)
    assert resumed.said["value"] == RESULT
    assert resumed.said["replayed"] is bool(rows)
    assert case.effects() == reads_in_all


@both
def test_a_pure_result_is_durable_before_the_effect_that_follows_it(
    case: Case, is_async: bool
) -> None:
    """L7: a reply that led to an effect is on record before that effect."""
    crashed = case.finish("read_then_act", kind="keyed", is_async=is_async, die_at="after intent")
    assert crashed.was_killed
    assert [(row["tool_name"], row["status"]) for row in case.rows()] == [
        ("read", "DONE"),
        ("act", "PENDING"),
    ]
    resumed = case.finish("read_then_act", kind="keyed", is_async=is_async)
    assert [line["replayed"] for line in resumed.words] == [True, True]
    assert case.effects("read of " + case.effect) == 1
    assert case.effects() == 1


@pytest.mark.sampled(part="sweeps", keep=2)
@pytest.mark.parametrize("kind", EFFECTFUL)
def test_processes_that_share_nothing_but_the_ledger_agree(case: Case, kind: str) -> None:
    """The same with interpreters of their own, to prove that forking them hides nothing."""
    for plan in (case.plan("call", kind=kind, die_at="body end"), case.plan("call", kind=kind)):
        command = [sys.executable, "-m", "tests.kill.programs", json.dumps(plan)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        if plan.get("die_at"):
            assert (done.returncode, done.stdout) == (-9, "")
            check_state(case, State("PENDING", 1, 1))
    assert done.returncode == 0, done.stderr
    (said,) = map(json.loads, done.stdout.splitlines())
    ending = ENDINGS[kind]["PENDING", 1]
    assert said.get("error") == ("ReplayUnsafeError" if ending.waits else None)
    assert case.effects() == 1
