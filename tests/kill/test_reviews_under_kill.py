"""Does a decision count exactly once, wherever a process dies between a doubt and its end?

H2: the verbs, licences that are used up, conflicts and undo. D11: nothing new while one is open.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kill.agents import RESULT
from tests.kill.matrix import State, check_state, kill_at
from tests.kill.processes import Agent, Case

GIVEN = {"receipt": "R-found-by-ann"}
both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def leave_in_doubt(case: Case, *, applied: bool, is_async: bool = False) -> Agent:
    """A call without verify whose process died, and a run that waits for a person."""
    kill_at(case, "body end" if applied else "body start", "unsafe", is_async=is_async)
    blocked = case.finish(is_async=is_async)
    assert blocked.said["error"] == "ReplayUnsafeError"
    check_state(case, State("PENDING", int(applied), 1))
    return blocked


def statuses(case: Case) -> list[str]:
    return [one["status"] for one in case.reviews()]


# The three verbs.


@both
def test_it_happened_makes_the_given_result_the_receipt(case: Case, is_async: bool) -> None:
    leave_in_doubt(case, applied=True, is_async=is_async)
    assert case.decide("happened", result=GIVEN).said["status"] == "decided"
    check_state(case, State("PENDING", 1, 1))
    for _ in range(2):
        resumed = case.finish(is_async=is_async)
        assert resumed.said["value"] == GIVEN
        assert resumed.said["replayed"] is True
        assert resumed.said["settled_by"] == "decision by ann"
    check_state(case, State("DONE", 1, 1))
    assert statuses(case) == ["used"]


@both
def test_it_did_not_happen_licenses_one_more_attempt(case: Case, is_async: bool) -> None:
    leave_in_doubt(case, applied=False, is_async=is_async)
    assert case.decide("did-not-happen").said["status"] == "decided"
    for _ in range(2):
        assert case.finish(is_async=is_async).said["value"] == RESULT
    check_state(case, State("DONE", 1, 2))
    assert statuses(case) == ["used"]
    (review,) = case.reviews()
    decision = json.loads(review["decision_json"])
    assert (decision["by"], decision["why"]) == ("ann", "a test")
    assert decision["at"]


@both
def test_an_aborted_run_stays_aborted(case: Case, is_async: bool) -> None:
    leave_in_doubt(case, applied=True, is_async=is_async)
    case.decide("abort")
    for _ in range(3):
        assert case.finish(is_async=is_async).said["error"] == "RunAborted"
    assert case.run_record()["status"] == "aborted"
    check_state(case, State("PENDING", 1, 1))


# Killed while deciding.


@pytest.mark.parametrize("verb", ["happened", "did-not-happen", "abort"])
@pytest.mark.parametrize("place", ["before decision", "after decision"])
def test_a_decision_that_is_killed_counts_whole_or_not_at_all(
    case: Case, verb: str, place: str
) -> None:
    blocked = leave_in_doubt(case, applied=verb == "happened")
    more: dict[str, Any] = {"verb": verb, "review": case.open_review()}
    if verb == "happened":
        more["result"] = GIVEN
    assert case.finish("decide", more=more, die_at=place).was_killed
    resumed = case.finish()
    if place == "before decision":
        assert statuses(case) == ["open"]
        assert resumed.said["review"] == blocked.said["review"]
        check_state(case, State("PENDING", int(verb == "happened"), 1))
        return
    assert statuses(case) == ["used"]
    expected = {"happened": GIVEN, "did-not-happen": RESULT, "abort": None}[verb]
    assert resumed.said.get("value") == expected
    assert case.effects() == (0 if verb == "abort" else 1)


# Killed between a decision and its use.

BEFORE_USE = ["before claim", "after claim", "before intent"]


@both
@pytest.mark.parametrize("place", BEFORE_USE)
def test_a_licence_survives_a_kill_before_it_is_used(
    case: Case, place: str, is_async: bool
) -> None:
    leave_in_doubt(case, applied=False, is_async=is_async)
    case.decide("did-not-happen")
    kill_at(case, place, "unsafe", is_async=is_async)
    check_state(case, State("PENDING", 0, 1))
    assert statuses(case) == ["decided"]
    assert case.finish(is_async=is_async).said["value"] == RESULT
    check_state(case, State("DONE", 1, 2))


@both
@pytest.mark.parametrize("place", ["after intent", "body start", "body end", "before result"])
def test_a_licence_is_used_up_by_the_intent_it_allows(
    case: Case, place: str, is_async: bool
) -> None:
    """Killed after the licensed intent, it is in doubt again; there is no third attempt."""
    leave_in_doubt(case, applied=False, is_async=is_async)
    first_review = case.open_review()
    case.decide("did-not-happen")
    kill_at(case, place, "unsafe", is_async=is_async)
    applied = int(place in ("body end", "before result"))
    check_state(case, State("PENDING", applied, 2))
    assert statuses(case) == ["used"]
    for _ in range(2):
        resumed = case.finish(is_async=is_async)
        assert resumed.said["error"] == "ReplayUnsafeError"
        assert resumed.said["review"] not in (None, first_review)
        check_state(case, State("PENDING", applied, 2))
    assert sorted(statuses(case)) == ["open", "used"]


@both
@pytest.mark.parametrize("place", ["after claim", "before result", "after result"])
def test_a_given_result_survives_a_kill_around_its_use(
    case: Case, place: str, is_async: bool
) -> None:
    leave_in_doubt(case, applied=True, is_async=is_async)
    case.decide("happened", result=GIVEN)
    kill_at(case, place, "unsafe", is_async=is_async)
    used = place == "after result"
    check_state(case, State("DONE" if used else "PENDING", 1, 1))
    assert statuses(case) == ["used" if used else "decided"]
    assert case.finish(is_async=is_async).said["value"] == GIVEN
    check_state(case, State("DONE", 1, 1))


@pytest.mark.parametrize("place", ["after claim", "before release"])
def test_an_abort_survives_a_kill_around_its_use(case: Case, place: str) -> None:
    leave_in_doubt(case, applied=False)
    case.decide("abort")
    kill_at(case, place, "unsafe", is_async=False)
    assert case.finish().said["error"] == "RunAborted"
    assert case.effects() == 0


def test_a_failed_licensed_attempt_is_in_doubt_again(case: Case) -> None:
    leave_in_doubt(case, applied=False)
    case.decide("did-not-happen")
    resumed = case.finish(faults={"lose_response": True})
    assert resumed.said["error"] == "ReplayUnsafeError"
    check_state(case, State("UNKNOWN", 1, 2))
    assert sorted(statuses(case)) == ["open", "used"]


# Two people.


def test_a_second_and_different_decision_conflicts_and_changes_nothing(case: Case) -> None:
    leave_in_doubt(case, applied=True)
    review = case.open_review()
    case.decide("happened", review=review, result=GIVEN)
    for other in ({"verb": "did-not-happen"}, {"verb": "abort"}):
        refused = case.finish("decide", more={**other, "review": review})
        assert refused.said["error"] == "DecisionConflict"
    same = case.decide("happened", review=review, result=GIVEN)
    assert same.said["status"] == "decided"
    assert case.finish().said["value"] == GIVEN
    late = case.decide("did-not-happen", review=review)
    assert late.said["error"] == "DecisionConflict"
    check_state(case, State("DONE", 1, 1))


def test_of_concurrent_decisions_exactly_one_counts(case: Case) -> None:
    leave_in_doubt(case, applied=True)
    review, gate = case.open_review(), case.gate("vote")
    wishes: list[dict[str, Any]] = [
        {"verb": "happened", "result": GIVEN},
        {"verb": "happened", "result": {"receipt": "R-other"}},
        {"verb": "did-not-happen"},
        {"verb": "abort"},
    ]
    voters = [
        case.start("decide", more={**wish, "review": review, "gate": gate}) for wish in wishes
    ]
    case.client.wait_until_held(gate, count=len(voters))
    case.client.release(gate)
    outcomes = [voter.end().said for voter in voters]
    assert [one.get("error") for one in outcomes].count("DecisionConflict") == len(wishes) - 1
    (heard,) = [wish for wish, one in zip(wishes, outcomes, strict=True) if "status" in one]
    (stored,) = case.reviews()
    assert json.loads(stored["decision_json"])["verb"] == heard["verb"]
    assert stored["version"] == 2


def test_a_decision_written_between_the_look_and_the_write_of_another_wins(case: Case) -> None:
    """Both have read version 1 and write version 2; the second must not replace the first."""
    leave_in_doubt(case, applied=True)
    review = case.open_review()
    slow = case.start(
        "decide", more={"verb": "did-not-happen", "review": review, "stop_at": "before decision"}
    )
    slow.wait_until_stopped()
    case.decide("happened", review=review, result=GIVEN)
    slow.go_on()
    assert slow.end().said["error"] == "DecisionConflict"
    assert case.finish().said["value"] == GIVEN
    check_state(case, State("DONE", 1, 1))


# Undo.


def test_a_decision_can_be_undone_until_it_is_used(case: Case) -> None:
    blocked = leave_in_doubt(case, applied=True)
    review = case.open_review()
    case.decide("did-not-happen")
    assert case.decide("undo", review=review).said["status"] == "open"
    assert case.finish().said["review"] == blocked.said["review"]
    check_state(case, State("PENDING", 1, 1))
    case.decide("happened", result=GIVEN)
    assert case.finish().said["value"] == GIVEN
    assert case.decide("undo", review=review).said["error"] == "DecisionConflict"
    check_state(case, State("DONE", 1, 1))


@pytest.mark.parametrize("verb", ["did-not-happen", "happened", "abort"])
def test_a_decision_taken_back_at_the_last_moment_is_not_used(case: Case, verb: str) -> None:
    """The resume has read the decision; before it can use it, a person undoes it."""
    leave_in_doubt(case, applied=True)
    review = case.open_review()
    case.decide(verb, **({"result": GIVEN} if verb == "happened" else {}))
    place = {"did-not-happen": "before intent", "happened": "before result"}.get(verb, "before use")
    slow = case.start(more={"stop_at": place})
    slow.wait_until_stopped()
    assert case.decide("undo", review=review).said["status"] == "open"
    slow.go_on()
    assert slow.end().said["review"] == review
    check_state(case, State("PENDING", 1, 1))
    assert statuses(case) == ["open"]


# While a review is open (D11).


@both
@pytest.mark.parametrize("lost", [True, False], ids=["it happened", "it did not"])
def test_while_a_review_is_open_nothing_new_is_sent_even_if_the_error_is_swallowed(
    case: Case, lost: bool, is_async: bool
) -> None:
    """User code catches the error; the model tries again next turn, and another tool, too."""
    faults: dict[str, Any] = {"lose_response": True} if lost else {"fail_with": 500}
    agent = case.finish("swallow", is_async=is_async, faults=faults)
    answers = {line["turn"]: line for line in agent.words}
    for turn in ("the call", "the call again"):
        assert answers[turn]["error"] == "ReplayUnsafeError", turn
        assert answers[turn]["review"] == case.open_review()
    for turn, tool in (("the same again on purpose", "act"), ("another effect", "other")):
        # A person who answers this error must not decide about the other call.
        assert answers[turn]["review"] is None
        assert answers[turn]["text"].startswith(f"{tool}(order=7, cents=4000) was not run"), turn
        assert case.open_review() in answers[turn]["text"]
    assert answers["an earlier receipt"]["replayed"] is True
    assert answers["a pure call"]["value"] == RESULT
    assert case.effects() == int(lost)
    assert [row["tool_name"] for row in case.rows()] == ["earlier", "act", "read"]
    assert case.effects("other of " + case.effect) == 0


def test_a_decision_made_while_the_block_is_open_lets_it_continue(case: Case) -> None:
    gate = case.gate("between the turns")
    more = {"pause_at": "between the turns", "pause_gate": gate}
    agent = case.start("swallow", faults={"lose_response": True}, more=more)
    case.client.wait_until_held(gate)
    case.decide("happened", result=GIVEN)
    case.client.release(gate)
    answers = {line["turn"]: line for line in agent.end().words if "turn" in line}
    assert answers["the call"]["error"] == "ReplayUnsafeError"
    assert answers["the call again"]["value"] == GIVEN
    assert answers["another effect"]["value"] == RESULT
    assert case.effects() == 2, "the call, and its deliberate repeat"


def test_a_decision_that_only_its_own_caller_can_use_holds_new_effects_back(case: Case) -> None:
    """A method is resolved when the code asks for it; until then nothing new, and no hanging."""
    crashed = case.finish("method", more={"other_first": False}, die_at="body start")
    assert crashed.was_killed
    blocked = case.finish("method", more={"other_first": False})
    assert blocked.said["review"] == case.open_review()
    case.decide("did-not-happen")
    early = case.finish("method", more={"other_first": True})
    assert early.said["review"] is None
    assert early.said["text"].startswith("other(order=7, cents=4000) was not run")
    assert "ask for it before any new effect" in early.said["text"]
    resumed = case.finish("method", more={"other_first": False})
    assert [line["value"] for line in resumed.words] == [RESULT, RESULT]
    assert case.effects() == 1
    assert case.effects("other of " + case.effect) == 1


def test_that_a_call_of_a_method_happened_is_used_without_its_caller(case: Case) -> None:
    crashed = case.finish("method", more={"other_first": False}, die_at="body end")
    assert crashed.was_killed
    assert case.finish("method", more={"other_first": False}).said["review"] == case.open_review()
    case.decide("happened", result=GIVEN)
    resumed = case.finish("method", more={"other_first": True})
    assert [line["value"] for line in resumed.words] == [RESULT, GIVEN, RESULT]
    assert case.effects() == 1


def test_an_accepted_drift_holds_back_no_other_effect(case: Case) -> None:
    more: dict[str, Any] = {"outside": [], "inside": [7]}
    assert case.finish("drift", more=more, die_at="after result").was_killed
    drifted = case.finish("drift", more={"outside": [], "inside": [8]})
    assert drifted.said["error"] == "ReplayDriftError"
    assert case.effects() == 1
    assert case.decide("accept").said["status"] == "decided"
    resumed = case.finish("drift", more={"outside": [9], "inside": [8]})
    assert [line["value"] for line in resumed.words] == [RESULT, RESULT]
    assert sorted(effect.args["order"] for effect in case.world.effects(case.effect)) == [7, 8, 9]
    assert statuses(case) == ["used"]
