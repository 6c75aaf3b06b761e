"""Is an attempt that cannot be stopped waited for, and never made beside itself? (D10, D13)

Time limits that pass while the upstream works, and cancelled waiters: the effect continues,
so the run is held until it has ended, and its outcome is recorded.
"""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.kill.agents import RESULT
from tests.kill.matrix import State, check_state, kill_at
from tests.kill.processes import Agent, Case, wait_until

UNSTOPPABLE = {"time_limit": "150ms"}
GIVEN = {"receipt": "R-found-by-ann"}


def start_and_pass_the_limit(
    case: Case, *, applied: bool, faults: dict[str, Any] | None = None, **plan: Any
) -> tuple[Agent, str]:
    """A sync tool that is still at work when its time limit has passed."""
    gate = case.gate("slow")
    held = {"hold" if applied else "hold_before": gate, **(faults or {})}
    agent = case.start(**plan, options=UNSTOPPABLE, faults=held)
    case.client.wait_until_held(gate)
    wait_until(case.reviews)
    check_state(case, State("PENDING", int(applied), 1))
    return agent, gate


@pytest.mark.parametrize("kind", ["unsafe", "settled", "keyed"])
@pytest.mark.parametrize("applied", [False, True], ids=["before the effect", "after the effect"])
def test_a_tool_past_its_limit_holds_the_run_and_its_late_result_ends_the_doubt(
    case: Case, kind: str, applied: bool
) -> None:
    agent, gate = start_and_pass_the_limit(case, applied=applied, kind=kind)
    other = case.finish(kind=kind, more={"answers": ["did not happen"]})
    assert other.said["error"] == "RunBusy"
    refused = case.decide("did-not-happen")
    assert refused.said["error"] == "UsageError", "its process lives, so it may still happen"
    case.client.release(gate)
    agent.end()
    assert agent.said["error"] == "ReplayUnsafeError"
    assert "still running" in agent.said["text"]
    check_state(case, State("DONE", 1, 1))
    assert [(one["status"], one["closed_by"]) for one in case.reviews()] == [
        ("closed", "the late outcome")
    ]
    assert case.run_record()["holder_id"] is None
    assert case.finish(kind=kind).said["replayed"] is True
    check_state(case, State("DONE", 1, 1))


def test_a_late_error_leaves_the_doubt_and_its_review(case: Case) -> None:
    agent, gate = start_and_pass_the_limit(case, applied=False, faults={"fail_with": 500})
    case.client.release(gate)
    agent.end()
    check_state(case, State("UNKNOWN", 0, 1))
    assert case.finish().said["review"] == case.open_review()
    check_state(case, State("UNKNOWN", 0, 1))


@pytest.mark.parametrize("applied", [False, True], ids=["before the effect", "after the effect"])
def test_a_kill_past_the_limit_leaves_the_call_in_doubt(case: Case, applied: bool) -> None:
    agent, gate = start_and_pass_the_limit(case, applied=applied)
    assert agent.kill().was_killed
    check_state(case, State("PENDING", int(applied), 1))
    assert case.finish().said["review"] == case.open_review()
    case.client.release(gate)
    case.world.wait_until_count(1, case.effect)
    assert case.finish().said["review"] == case.open_review()
    assert len(case.reviews()) == 1
    check_state(case, State("PENDING", 1, 1))


def test_asking_again_past_the_limit_waits_for_the_running_attempt(case: Case) -> None:
    gate = case.gate("slow")
    agent = case.start("swallow", options=UNSTOPPABLE, faults={"hold": gate})
    agent.hear("turn")
    answers = {}
    while "a pure call" not in answers:
        line = agent.hear("turn")
        answers[line["turn"]] = line
    case.client.wait_until_held(gate)
    assert "still running" in answers["the call again"]["text"]
    assert answers["another effect"]["error"] == "ReplayUnsafeError"
    assert case.effects() == 1
    case.client.release(gate)
    agent.end()
    assert [(row["status"], row["attempt"]) for row in case.rows()[:2]] == [("DONE", 1)] * 2
    assert case.effects() == 1


def test_what_a_tool_returns_late_counts_more_than_what_a_person_said_meanwhile(
    case: Case,
) -> None:
    agent, gate = start_and_pass_the_limit(case, applied=True)
    case.decide("happened", result=GIVEN)
    case.client.release(gate)
    agent.end()
    check_state(case, State("DONE", 1, 1))
    assert case.finish().said["value"] == RESULT
    assert [one["closed_by"] for one in case.reviews()] == ["the late outcome"]


def test_a_late_result_is_recorded_even_if_a_person_decides_at_that_very_moment(
    case: Case,
) -> None:
    pause = case.gate("before it is written")
    more = {"pause_at": "before result", "pause_gate": pause}
    agent, gate = start_and_pass_the_limit(case, applied=True, more=more)
    case.client.release(gate)
    case.client.wait_until_held(pause)
    assert case.decide("happened", result=GIVEN).said["status"] == "decided"
    case.client.release(pause)
    agent.end()
    check_state(case, State("DONE", 1, 1))
    assert case.row()["result_json"] == '{"receipt":"R-7"}'
    assert [one["status"] for one in case.reviews()] == ["closed"]


def test_a_result_that_overtakes_its_own_review_leaves_no_review_open(case: Case) -> None:
    """The limit has passed, and before the review is written the tool returns after all."""
    pause, gate = case.gate("before the review"), case.gate("slow")
    more = {"pause_at": "before review", "pause_gate": pause}
    agent = case.start(options=UNSTOPPABLE, faults={"hold": gate}, more=more)
    case.client.wait_until_held(pause)
    case.client.release(gate)
    wait_until(lambda: case.row()["status"] == "DONE")
    case.client.release(pause)
    agent.end()
    assert case.finish().said["value"] == RESULT
    check_state(case, State("DONE", 1, 1))
    assert [one["status"] for one in case.reviews()] == ["closed"]


# Async tools can be cancelled; what they started cannot.


def test_a_thread_that_outlives_the_time_limit_of_its_tool_is_not_doubled(case: Case) -> None:
    """verify finds nothing and the settle time has passed, but the process lives, and fires."""
    gate = case.gate("slow")
    plan: dict[str, Any] = {"kind": "settled", "is_async": True, "options": UNSTOPPABLE}
    agent = case.start(**plan, faults={"hold_before": gate})
    assert agent.hear("error")["error"] == "ReplayUnsafeError"
    check_state(case, State("UNKNOWN", 0, 1))
    assert case.row()["finished_at"] is None, "it is not known that it is over"
    other = case.finish(**plan)
    assert other.said["error"] == "ReplayUnsafeError"
    check_state(case, State("UNKNOWN", 0, 1))
    case.client.release(gate)
    assert agent.end().exit_code == 0
    resumed = case.finish(**plan)
    assert (resumed.said["value"], resumed.said["settled_by"]) == (RESULT, "verify")
    check_state(case, State("DONE", 1, 1))


@pytest.mark.parametrize("kind", ["unsafe", "verified", "keyed"])
def test_an_interrupt_in_a_tool_leaves_a_doubt_and_not_a_failure(case: Case, kind: str) -> None:
    """Ctrl-C strikes at any instruction, so it says nothing about the effect."""
    gate = case.gate("slow")
    agent = case.start(kind=kind, faults={"hold": gate})
    case.client.wait_until_held(gate)
    agent.signal(signal.SIGINT)
    assert agent.end().said["error"] == "KeyboardInterrupt"
    check_state(case, State("UNKNOWN", 1, 1))
    case.client.release(gate)
    resumed = case.finish(kind=kind)
    assert ("value" in resumed.said) is (kind != "unsafe")
    assert case.effects() == 1


def test_an_interrupted_event_loop_waits_for_the_call_that_is_under_way(case: Case) -> None:
    gate = case.gate("slow")
    agent = case.start(is_async=True, faults={"hold": gate})
    case.client.wait_until_held(gate)
    agent.signal(signal.SIGINT)
    assert case.finish(is_async=True).said["error"] == "RunBusy"
    case.client.release(gate)
    agent.end()
    assert agent.said["error"] == "CancelledError"
    check_state(case, State("DONE", 1, 1))


def test_a_keyed_async_tool_past_its_limit_is_reissued_with_its_key(case: Case) -> None:
    gate = case.gate("slow")
    plan: dict[str, Any] = {"kind": "keyed", "is_async": True, "options": {"time_limit": "1s"}}
    agent = case.start(**plan, faults={"hold": gate})
    assert agent.hear("value")["value"] == RESULT
    case.client.release(gate)
    agent.end()
    assert agent.said["attempts"] >= 2
    check_state(case, State("DONE", 1, agent.said["attempts"]))


@pytest.mark.parametrize("kind", ["unsafe", "settled", "keyed"])
@pytest.mark.parametrize("applied", [False, True], ids=["before the effect", "after the effect"])
def test_a_cancelled_waiter_cancels_nothing_and_the_run_is_held_until_it_ends(
    case: Case, kind: str, applied: bool
) -> None:
    gate = case.gate("slow")
    agent = case.start(
        "cancel_waiter",
        kind=kind,
        is_async=True,
        faults={"hold" if applied else "hold_before": gate},
        more={"gate": gate},
    )
    assert agent.hear("cancelled")["cancelled"] is True
    check_state(case, State("PENDING", int(applied), 1))
    other = case.finish(kind=kind, is_async=True, more={"answers": ["did not happen"]})
    assert other.said["error"] == "RunBusy"
    case.client.release(gate)
    assert agent.end().exit_code == 0
    check_state(case, State("DONE", 1, 1))
    assert case.run_record()["holder_id"] is None
    assert case.finish(kind=kind, is_async=True).said["replayed"] is True
    check_state(case, State("DONE", 1, 1))


def test_a_kill_after_the_waiter_was_cancelled_leaves_the_call_in_doubt(case: Case) -> None:
    gate = case.gate("slow")
    plan: dict[str, Any] = {"is_async": True, "faults": {"hold": gate}, "more": {"gate": gate}}
    agent = case.start("cancel_waiter", **plan)
    agent.hear("cancelled")
    assert agent.kill().was_killed
    check_state(case, State("PENDING", 1, 1))
    assert case.finish(is_async=True).said["error"] == "ReplayUnsafeError"
    assert case.effects() == 1


def test_a_waiter_cancelled_while_the_intent_is_written_gets_its_effect(case: Case) -> None:
    gate = case.gate("written")
    more = {"gate": gate, "pause_at": "after intent", "pause_gate": gate}
    agent = case.start("cancel_waiter", is_async=True, more=more)
    agent.hear("cancelled")
    check_state(case, State("PENDING", 0, 1))
    case.client.release(gate)
    agent.end()
    check_state(case, State("DONE", 1, 1))


def test_a_block_left_with_a_call_under_way_holds_the_run_until_it_ends(case: Case) -> None:
    gate = case.gate("slow")
    plan: dict[str, Any] = {"is_async": True, "faults": {"hold": gate}, "more": {"gate": gate}}
    agent = case.start("leave_early", **plan)
    agent.hear("left")
    assert case.finish(is_async=True).said["error"] == "RunBusy"
    check_state(case, State("PENDING", 1, 1))
    case.client.release(gate)
    assert agent.end().said["value"] == RESULT
    check_state(case, State("DONE", 1, 1))
    assert case.run_record()["holder_id"] is None


def test_a_block_cancelled_again_while_it_drains_still_releases_the_run_in_the_end(
    case: Case,
) -> None:
    gate = case.gate("slow")
    plan: dict[str, Any] = {"is_async": True, "faults": {"hold": gate}, "more": {"gate": gate}}
    agent = case.start("cancel_block", **plan)
    assert agent.hear("cancelled")["cancelled"] is True
    assert agent.hear("error")["error"] == "RunBusy"
    case.client.release(gate)
    assert agent.end().said["replayed"] is True
    check_state(case, State("DONE", 1, 1))


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("kind", ["settled", "keyed"])
def test_an_opening_that_is_cancelled_while_it_reconciles_makes_no_second_attempt(
    case: Case, kind: str, is_async: bool
) -> None:
    kill_at(case, "after intent", kind, is_async=is_async)
    gate = case.gate("slow")
    agent = case.start(
        "cancel_block",
        kind=kind,
        is_async=is_async,
        faults={"hold_before": gate},
        more={"gate": gate},
    )
    assert agent.hear("cancelled")["cancelled"] is True
    assert agent.hear("error")["error"] == "RunBusy"
    check_state(case, State("PENDING", 0, 2))
    case.client.release(gate)
    assert agent.end().said["value"] == RESULT
    check_state(case, State("DONE", 1, 2))
