"""Is a doubt ended only by proof? Dead processes with living requests, and upstreams that answer
late, not at all, or that they do not know (D2, D3, D4, D10)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kill.agents import RESULT
from tests.kill.matrix import EFFECTFUL, State, check_state, kill_at
from tests.kill.processes import Case, wait_until

both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def kill_while_the_request_is_queued(case: Case, **plan: Any) -> str:
    """The request has reached the upstream, which has not looked at it yet; the process is dead."""
    gate = case.gate("queue")
    agent = case.start(**plan, faults={"hold_before": gate})
    case.client.wait_until_held(gate)
    assert agent.kill().was_killed
    check_state(case, State("PENDING", 0, 1))
    return gate


# A dead process is not a dead request.


@both
@pytest.mark.parametrize("kind", ["unsafe", "verified"])
def test_a_request_still_queued_upstream_is_not_sent_again(
    case: Case, kind: str, is_async: bool
) -> None:
    gate = kill_while_the_request_is_queued(case, kind=kind, is_async=is_async)
    resumed = case.finish(kind=kind, is_async=is_async)
    assert resumed.said["error"] == "ReplayUnsafeError"
    check_state(case, State("PENDING", 0, 1))
    case.client.release(gate)
    case.world.wait_until_count(1, case.effect)
    again = case.finish(kind=kind, is_async=is_async)
    # Now verify can see it; a tool without verify still needs a person.
    if kind == "verified":
        assert (again.said["value"], again.said["settled_by"]) == (RESULT, "verify")
        assert [one["closed_by"] for one in case.reviews()] == ["verify"]
    else:
        assert again.said["review"] == resumed.said["review"]
    assert case.effects() == 1
    assert case.row()["attempt"] == 1


@both
def test_a_declared_settle_time_is_waited_out_before_verify_is_believed(
    case: Case, is_async: bool
) -> None:
    plan: dict[str, Any] = {"kind": "settled", "is_async": is_async, "options": {"settles": "2s"}}
    gate = kill_while_the_request_is_queued(case, **plan)
    resumed = case.start(**plan)
    wait_until(lambda: case.world.verifications(case.effect))
    assert [one.answer for one in case.world.verifications(case.effect)] == ["not found"]
    case.client.release(gate)
    resumed.end()
    assert (resumed.said["value"], resumed.said["settled_by"]) == (RESULT, "verify")
    assert [one.answer for one in case.world.verifications(case.effect)] == ["not found", "found"]
    check_state(case, State("DONE", 1, 1))


def test_an_answer_that_is_older_than_the_settle_time_licenses_nothing(case: Case) -> None:
    """verify looks, sees nothing, and takes an hour to say so; meanwhile the effect arrives."""
    plan: dict[str, Any] = {"kind": "settled", "options": {"settles": "30m"}, "hours_ahead": 0}
    gate = kill_while_the_request_is_queued(case, **plan)
    patient = {"settle_timeout": "1d"}
    resumed = case.finish(**plan, run_options=patient, more={"lingering_gate": gate})
    assert (resumed.said["value"], resumed.said["settled_by"]) == (RESULT, "verify")
    check_state(case, State("DONE", 1, 1))


def test_a_keyed_call_is_reissued_beside_its_own_queued_request(case: Case) -> None:
    gate = kill_while_the_request_is_queued(case, kind="keyed")
    resumed = case.finish(kind="keyed")
    assert resumed.said["value"] == RESULT
    check_state(case, State("DONE", 1, 2))
    known = case.client.stats()["answered_from_key"]
    case.client.release(gate)
    wait_until(lambda: case.client.stats()["answered_from_key"] == known + 1)
    assert case.effects() == 1


def test_the_settle_time_counts_from_the_proof_of_death_and_not_from_the_attempt(
    case: Case,
) -> None:
    plan: dict[str, Any] = {"kind": "settled", "options": {"settles": "1h"}}
    kill_at(case, "after intent", "settled", is_async=False)
    # Two hours later by the clock, but the death was not known before.
    late = case.finish(**plan, hours_ahead=2, run_options={"settle_timeout": "2h"})
    assert late.said["value"] == RESULT
    looks = [one.answer for one in case.world.verifications(case.effect)]
    assert looks == ["not found", "not found"], "when the death was proven, and an hour later"
    check_state(case, State("DONE", 1, 2))


def test_nothing_is_sent_past_an_open_review_however_late_it_is_by_the_clock(case: Case) -> None:
    plan: dict[str, Any] = {"kind": "settled", "options": {"settles": "1h"}}
    kill_at(case, "after intent", "settled", is_async=False)
    asked = case.finish(**plan)
    assert asked.said["error"] == "ReplayUnsafeError"
    for hours in (2, 100):
        assert case.finish(**plan, hours_ahead=hours).said["review"] == asked.said["review"]
    check_state(case, State("PENDING", 0, 1))
    case.decide("did-not-happen")
    assert case.finish(**plan).said["value"] == RESULT
    check_state(case, State("DONE", 1, 2))


def test_a_keyed_call_that_a_person_was_asked_about_is_not_reissued_when_the_clock_is_put_right(
    case: Case,
) -> None:
    """A clock ahead by two days closes the window; then the right time opens it again."""
    kill_at(case, "body end", "keyed", is_async=False)
    sent = case.client.stats()["requests"]
    asked = case.finish(kind="keyed", hours_ahead=48)
    assert "its upstream may have forgotten its key" in asked.said["text"]
    for _ in range(2):
        assert case.finish(kind="keyed").said["review"] == asked.said["review"]
    assert case.client.stats()["requests"] == sent
    check_state(case, State("PENDING", 1, 1))


# How often a call is sent.


@both
def test_a_keyed_call_that_fails_ambiguously_is_sent_as_often_as_its_policy_says(
    case: Case, is_async: bool
) -> None:
    """Three, in whatever number of processes, and however often the run is opened."""
    before = case.client.stats()["requests"]
    plan: dict[str, Any] = {"kind": "keyed", "is_async": is_async, "more": {"outcomes": ["lost"]}}
    for _ in range(2):
        # It dies right after it has recorded that the response was lost.
        assert case.finish(**plan, die_at="after result").was_killed
    for _ in range(3):
        agent = case.finish(**plan)
        assert agent.said["review"] == case.open_review()
        assert "its retry policy allows 3 attempts" in agent.said["text"]
    assert case.client.stats()["requests"] - before == 3
    check_state(case, State("UNKNOWN", 1, 3))


def test_a_keyed_call_in_which_every_process_dies_is_sent_as_often_as_its_policy_says(
    case: Case,
) -> None:
    before = case.client.stats()["requests"]
    plan: dict[str, Any] = {"kind": "keyed", "die_at": "body end", "more": {"reissues": 4}}
    for _ in range(5):
        assert case.finish(**plan).was_killed
    for _ in range(3):
        agent = case.finish(**plan)
        assert agent.said["review"] == case.open_review()
    assert case.client.stats()["requests"] - before == 5
    check_state(case, State("PENDING", 1, 5))


# Lost responses, and upstreams that accept now and apply later.


@both
@pytest.mark.parametrize("kind", EFFECTFUL)
def test_a_lost_response_is_not_taken_for_a_lost_effect(
    case: Case, kind: str, is_async: bool
) -> None:
    agent = case.finish(kind=kind, is_async=is_async, faults={"lose_response": True})
    expected = {
        "keyed": State("DONE", 1, 2),
        "unsafe": State("UNKNOWN", 1, 1),
        "verified": State("DONE", 1, 1),
        "settled": State("DONE", 1, 1),
    }[kind]
    check_state(case, expected)
    if kind == "unsafe":
        assert agent.said["error"] == "ReplayUnsafeError"
        assert "RemoteDisconnected" in agent.said["text"]
    else:
        assert agent.said["value"] == RESULT
        assert agent.said["settled_by"] == (None if kind == "keyed" else "verify")
    again = case.finish(kind=kind, is_async=is_async)
    assert again.said.get("review") == agent.said.get("review")
    check_state(case, expected)


@pytest.mark.sampled(part="sweeps", keep=3)
@pytest.mark.parametrize("dies", [True, False], ids=["and its client dies", "and is not heard of"])
@pytest.mark.parametrize(
    ("kind", "is_async"), [*((kind, False) for kind in EFFECTFUL), ("settled", True)]
)
def test_an_upstream_that_accepts_now_and_applies_later_applies_once(
    case: Case, kind: str, dies: bool, is_async: bool
) -> None:
    plan: dict[str, Any] = {"kind": kind, "is_async": is_async}
    if kind == "settled":
        plan["options"] = {"settles": "3s"}
    gate = case.gate("accepted")
    # Long enough for a slow machine to look before it is applied.
    seconds = 2.0 if kind in ("keyed", "settled") else 3.0
    faults = {"apply_after": seconds, **({"hold": gate} if dies else {"lose_response": True})}
    agent = case.start(**plan, faults=faults)
    if dies:
        case.client.wait_until_held(gate)
        agent.kill()
        check_state(case, State("PENDING", 0, 1))
        agent = case.start(**plan)
    agent.end()
    if kind in ("keyed", "settled"):
        assert agent.said["value"] == RESULT
        assert agent.said["settled_by"] == ("verify" if kind == "settled" else None)
    else:
        assert agent.said["error"] == "ReplayUnsafeError"
        assert case.effects() == 0
    case.world.wait_until_count(1, case.effect)
    again = case.finish(**plan)
    assert ("value" in again.said) is (kind != "unsafe")
    assert case.effects() == 1
    assert case.row()["attempt"] == (2 if kind == "keyed" else 1)


@both
@pytest.mark.parametrize("kind", EFFECTFUL)
def test_an_error_of_the_upstream_proves_nothing(case: Case, kind: str, is_async: bool) -> None:
    """D4: a status 500 is ambiguous for an effectful tool, even if in truth nothing happened."""
    agent = case.finish(kind=kind, is_async=is_async, faults={"fail_with": 500})
    expected = {
        "keyed": State("DONE", 1, 2),
        "unsafe": State("UNKNOWN", 0, 1),
        "verified": State("UNKNOWN", 0, 1),
        "settled": State("DONE", 1, 2),
    }[kind]
    check_state(case, expected)
    assert ("value" in agent.said) is (expected.row == "DONE")


# What verify may answer.


@both
@pytest.mark.parametrize(
    ("answers", "value"),
    [
        (["still running", "still running", "happened"], RESULT),
        (["still running"], None),
        (["unknown"], None),
        (["nonsense"], None),
        (["an error"], None),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_only_a_clear_answer_ends_a_doubt(
    case: Case, answers: list[str], value: Any, is_async: bool
) -> None:
    kill_at(case, "body end", "settled", is_async=is_async)
    more = {"answers": answers}
    resumed = case.finish(kind="settled", is_async=is_async, hours_ahead=0, more=more)
    assert resumed.said.get("value") == value
    assert resumed.said.get("error") == (None if value else "ReplayUnsafeError")
    check_state(case, State("DONE" if value else "PENDING", 1, 1))
    told = " ".join(one["text"] for one in case.evidence())
    assert "verify" in told, "what verify said is kept as evidence"
