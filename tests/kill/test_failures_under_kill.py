"""Is every attempt on record before it is made, and every failure classed before the next?

L2: intent before effect, for retries too. D4: retryable, permanent, ambiguous.
"""

from __future__ import annotations

import json

import pytest

from tests.kill.agents import RESULT
from tests.kill.matrix import State, check_state
from tests.kill.processes import Case

both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@both
@pytest.mark.parametrize("kind", ["unsafe", "keyed", "settled"])
def test_every_attempt_is_durable_before_the_upstream_sees_it(
    case: Case, kind: str, is_async: bool
) -> None:
    gate = case.gate("attempt")
    more = {"outcomes": ["retryable", "retryable", "done"], "gate": gate}
    agent = case.start(kind=kind, is_async=is_async, more=more)
    seen = []
    for attempt in (1, 2, 3):
        case.client.wait_until_held(f"{gate} {attempt}")
        check_state(case, State("PENDING", 0, attempt))
        seen.append(case.row()["attempt_id"])
        past = json.loads(case.row()["past_json"] or "[]")
        assert [one["attempt_id"] for one in past] == seen[:-1]
        case.client.release(f"{gate} {attempt}")
    assert agent.end().said["value"] == RESULT
    assert agent.said["attempts"] == 3
    check_state(case, State("DONE", 1, 3))
    assert len(set(seen)) == 3


@pytest.mark.sampled(part="sweeps", keep=2)
@both
@pytest.mark.parametrize("kind", ["unsafe", "keyed"])
def test_a_permanent_failure_is_not_retried_and_fails_alike_in_every_process(
    case: Case, kind: str, is_async: bool
) -> None:
    more = {"outcomes": ["permanent", "done"]}
    first = case.finish(kind=kind, is_async=is_async, more=more)
    again = case.finish(kind=kind, is_async=is_async, more=more)
    for agent in (first, again):
        assert agent.said["error"] == "Permanent"
        assert "there is no such account" in agent.said["text"]
    assert first.said["text"] == again.said["text"]
    check_state(case, State("FAILED", 0, 1))


@both
def test_attempts_are_bounded_and_their_failure_is_replayed_until_a_retry_is_asked_for(
    case: Case, is_async: bool
) -> None:
    more = {"outcomes": ["retryable", "retryable", "retryable", "done"]}
    for _ in range(2):
        agent = case.finish(is_async=is_async, more=more)
        assert agent.said["error"] == "Retryable"
        check_state(case, State("FAILED", 0, 3))
    if not is_async:
        assert case.finish("retry", more=more).said["value"] == RESULT
        check_state(case, State("DONE", 1, 4))


@pytest.mark.sampled(part="sweeps", keep=4)
@both
@pytest.mark.parametrize("kind", ["unsafe", "keyed"])
@pytest.mark.parametrize("place", ["after result", "before intent"])
def test_a_kill_between_two_attempts_costs_neither_of_them(
    case: Case, kind: str, place: str, is_async: bool
) -> None:
    """The first failure says that nothing took effect, and the next attempt is not yet recorded."""
    more = {"outcomes": ["retryable", "done"]}
    visit = 1 if place == "after result" else 2
    crashed = case.finish(kind=kind, is_async=is_async, more=more, die_at=place, die_at_visit=visit)
    assert crashed.was_killed
    check_state(case, State("FAILED", 0, 1))
    resumed = case.finish(kind=kind, is_async=is_async, more=more)
    assert resumed.said["value"] == RESULT
    check_state(case, State("DONE", 1, 2))


@both
@pytest.mark.parametrize("place", ["after intent", "body start"])
def test_a_kill_inside_the_second_attempt_leaves_it_in_doubt(
    case: Case, place: str, is_async: bool
) -> None:
    """That the first attempt took no effect says nothing about the second."""
    more = {"outcomes": ["retryable", "done"]}
    crashed = case.finish(is_async=is_async, more=more, die_at=place, die_at_visit=2)
    assert crashed.was_killed
    check_state(case, State("PENDING", 0, 2))
    for _ in range(2):
        assert case.finish(is_async=is_async, more=more).said["review"] == case.open_review()
    check_state(case, State("PENDING", 0, 2))


@both
def test_an_ambiguous_attempt_after_a_retry_stays_in_doubt(case: Case, is_async: bool) -> None:
    more = {"outcomes": ["retryable", "lost", "done"]}
    for _ in range(2):
        agent = case.finish(is_async=is_async, more=more)
        assert agent.said["review"] == case.open_review()
        check_state(case, State("UNKNOWN", 1, 2))


@both
@pytest.mark.parametrize("second", ["permanent", "retryable"])
def test_after_an_ambiguous_attempt_no_failure_proves_that_nothing_happened(
    case: Case, second: str, is_async: bool
) -> None:
    """D4: only success, verify or a person ends the call."""
    more = {"outcomes": ["lost", second]}
    agent = case.finish(kind="keyed", is_async=is_async, more=more)
    assert agent.said["error"] == "ReplayUnsafeError"
    assert case.row()["status"] == "UNKNOWN"
    assert case.row()["ambiguous"] == 1
    assert case.effects() == 1


def test_a_keyed_call_whose_answer_was_lost_is_asked_for_again_with_its_key(case: Case) -> None:
    agent = case.finish(kind="keyed", more={"outcomes": ["lost", "retryable", "done"]})
    assert agent.said["value"] == RESULT
    check_state(case, State("DONE", 1, 3))
