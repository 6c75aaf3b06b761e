"""Does each question, approval, timer and event count once, wherever a process dies?

Real processes and SIGKILL; what they left is read with plain SQL.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kill.agents import RESULT
from tests.kill.processes import Agent, Case

both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
APPROVED: dict[str, Any] = {"options": {"approve": True}}


def desk(case: Case, *waits: str, **plan: Any) -> Agent:
    return case.finish("desk", more={"waits": list(waits)}, **plan)


def send(case: Case, number: int, **plan: Any) -> Agent:
    more = {"payload": {"number": number}, "event_id": f"e{number}"}
    return case.finish("send", more=more, **plan)


def statuses(case: Case) -> list[str]:
    return sorted(one["status"] for one in case.reviews())


def events(case: Case) -> list[tuple[str, bool]]:
    """Every event, and whether a run took it."""
    return [(one["event_id"], one["received_by"] is not None) for one in case.events()]


def waits(case: Case) -> list[str]:
    return [wait["kind"] for wait in json.loads(case.run_record()["waits_json"] or "[]")]


# Questions


@both
@pytest.mark.parametrize("place", ["before review", "after review", "before release"])
def test_a_question_is_asked_once_wherever_the_asking_is_killed(
    case: Case, place: str, is_async: bool
) -> None:
    assert desk(case, "ask", "act", die_at=place, is_async=is_async).was_killed
    assert statuses(case) == ([] if place == "before review" else ["open"])
    for _ in range(2):
        asked = desk(case, "ask", "act", is_async=is_async)
        assert asked.said["error"] == "QuestionOpen"
        assert asked.said["review"] == case.open_review()
        assert case.run_record()["status"] == "waiting"
        assert waits(case) == ["review"]
    assert case.effects() == 0


@pytest.mark.parametrize("place", ["before decision", "after decision"])
def test_an_answer_that_is_killed_counts_whole_or_not_at_all(case: Case, place: str) -> None:
    desk(case, "ask", "act")
    more = {"verb": "answer", "review": case.open_review(), "result": "yes"}
    assert case.finish("decide", more=more, die_at=place).was_killed
    resumed = desk(case, "ask", "act")
    if place == "before decision":
        assert resumed.said["error"] == "QuestionOpen"
        assert case.effects() == 0
    else:
        assert (resumed.said["answer"], resumed.said["value"]) == ("yes", RESULT)
        assert case.effects() == 1


@both
@pytest.mark.parametrize("place", ["after claim", "before use", "after use", "before intent"])
def test_an_answer_is_used_once_wherever_its_use_is_killed(
    case: Case, place: str, is_async: bool
) -> None:
    desk(case, "ask", "act", is_async=is_async)
    case.decide("answer", result="yes")
    assert desk(case, "ask", "act", die_at=place, is_async=is_async).was_killed
    used = place in ("after use", "before intent")
    assert statuses(case) == ["used" if used else "decided"]
    assert [row["tool_name"] for row in case.rows()] == (["nottwice.ask"] if used else [])
    for _ in range(2):
        resumed = desk(case, "ask", "act", is_async=is_async)
        assert (resumed.said["answer"], resumed.said["value"]) == ("yes", RESULT)
    assert case.effects() == 1
    assert statuses(case) == ["used"]


def test_of_concurrent_answers_exactly_one_counts(case: Case) -> None:
    desk(case, "ask")
    review, gate = case.open_review(), case.gate("vote")
    voters = [
        case.start(
            "decide",
            more={"verb": "answer", "result": answer, "by": who, "review": review, "gate": gate},
        )
        for who, answer in (("ann", "yes"), ("bob", "no"), ("eve", "no"))
    ]
    case.client.wait_until_held(gate, count=len(voters))
    case.client.release(gate)
    outcomes = [voter.end().said for voter in voters]
    heard = json.loads(case.reviews()[0]["decision_json"])
    assert "DecisionConflict" in [one.get("error") for one in outcomes]
    answer = desk(case, "ask").said["answer"]
    assert json.loads(heard["result_json"]) == answer


# Approvals


@both
@pytest.mark.parametrize("place", ["before review", "after review", "before release"])
def test_an_approval_is_asked_for_once_and_nothing_is_sent(
    case: Case, place: str, is_async: bool
) -> None:
    assert desk(case, "act", die_at=place, is_async=is_async, **APPROVED).was_killed
    for _ in range(2):
        needed = desk(case, "act", is_async=is_async, **APPROVED)
        assert needed.said["error"] == "ApprovalNeeded"
        assert needed.said["review"] == case.open_review()
    assert (case.effects(), case.rows()) == (0, [])
    assert case.run_record()["status"] == "waiting"


@both
@pytest.mark.parametrize(
    "place",
    ["after claim", "before intent", "after intent", "body start", "body end", "after result"],
)
def test_an_approval_is_used_by_the_intent_it_allows_and_by_nothing_else(
    case: Case, place: str, is_async: bool
) -> None:
    plan: dict[str, Any] = {"is_async": is_async, "kind": "settled", **APPROVED}
    desk(case, "act", **plan)
    case.decide("approve")
    assert desk(case, "act", die_at=place, **plan).was_killed
    begun = place not in ("after claim", "before intent")
    assert statuses(case) == ["used" if begun else "decided"]
    assert len(case.rows()) == int(begun)
    for _ in range(2):
        assert desk(case, "act", **plan).said["value"] == RESULT
    assert case.effects() == 1
    assert statuses(case) == ["used"]


@pytest.mark.parametrize("place", ["after intent", "body end"])
def test_an_approved_call_in_doubt_waits_for_a_person_like_any_other(
    case: Case, place: str
) -> None:
    desk(case, "act", **APPROVED)
    case.decide("approve")
    assert desk(case, "act", die_at=place, **APPROVED).was_killed
    assert desk(case, "act", **APPROVED).said["error"] == "ReplayUnsafeError"
    assert case.effects() == int(place == "body end")
    assert statuses(case) == ["open", "used"]


@pytest.mark.parametrize("place", ["before use", "after use"])
def test_a_rejection_counts_once_and_nothing_is_ever_sent(case: Case, place: str) -> None:
    desk(case, "act", **APPROVED)
    case.decide("reject")
    assert desk(case, "act", die_at=place, **APPROVED).was_killed
    assert statuses(case) == ["used" if place == "after use" else "decided"]
    for _ in range(2):
        rejected = desk(case, "act", **APPROVED)
        assert rejected.said["error"] == "RejectedByReviewer"
        assert "ann did not allow it: a test" in rejected.said["text"]
    assert case.effects() == 0
    assert [row["status"] for row in case.rows()] == ["FAILED"]


def test_an_approval_taken_back_at_the_last_moment_sends_nothing(case: Case) -> None:
    """The resume has read the approval; before it can use it, a person undoes it."""
    desk(case, "act", **APPROVED)
    review = case.open_review()
    case.decide("approve")
    slow = case.start("desk", more={"waits": ["act"], "stop_at": "before intent"}, **APPROVED)
    slow.wait_until_stopped()
    assert case.decide("undo", review=review).said["status"] == "open"
    slow.go_on()
    ended = slow.end()
    assert (ended.said["error"], ended.said["review"]) == ("ApprovalNeeded", review)
    assert (case.effects(), case.rows()) == (0, [])


# Events


@pytest.mark.parametrize("place", ["before sending", "after sending"])
def test_an_event_that_is_killed_on_its_way_was_sent_or_not(case: Case, place: str) -> None:
    desk(case, "receive")
    assert send(case, 1, die_at=place).was_killed
    assert events(case) == ([] if place == "before sending" else [("e1", False)])
    # A sender that does not know sends it again, under its id.
    send(case, 1)
    assert desk(case, "receive").said["event"] == {"number": 1}
    assert events(case) == [("e1", True)]


@both
@pytest.mark.parametrize("place", ["before taking", "after taking", "before release"])
def test_an_event_is_delivered_once_wherever_the_taking_is_killed(
    case: Case, place: str, is_async: bool
) -> None:
    send(case, 1)
    send(case, 2)
    killed = desk(case, "receive", "receive", die_at=place, is_async=is_async)
    assert killed.was_killed
    taken = {"before taking": 0, "after taking": 1, "before release": 2}[place]
    assert [is_taken for _, is_taken in events(case)].count(True) == taken
    assert len(case.rows()) == taken
    for _ in range(2):
        resumed = desk(case, "receive", "receive", is_async=is_async)
        assert [line["event"]["number"] for line in resumed.words] == [1, 2]
    assert events(case) == [("e1", True), ("e2", True)]


# Timers and values


@pytest.mark.parametrize("place", ["before timer", "after timer", "before release"])
def test_a_timer_that_was_seen_is_due_when_it_was(case: Case, place: str) -> None:
    assert desk(case, "sleep", die_at=place).was_killed
    recorded = [row["result_json"] for row in case.rows()]
    assert len(recorded) == int(place != "before timer")
    assert desk(case, "sleep").said["error"] == "RunWaits"
    (row,) = case.rows()
    assert recorded in ([], [row["result_json"]])
    assert waits(case) == ["timer"]
    assert case.run_record()["wake_at"] == round(json.loads(row["result_json"]) * 1_000_000)
    # A process whose clock is half an hour ahead still waits; one that is two hours ahead does not.
    assert desk(case, "sleep", hours_ahead=0.5).said["error"] == "RunWaits"
    assert desk(case, "sleep", hours_ahead=2).said["slept"] is True
    assert case.run_record()["status"] == "completed"


@pytest.mark.parametrize("place", ["after intent", "body end", "after result", "before release"])
def test_values_are_the_same_once_an_effect_was_begun_with_them(case: Case, place: str) -> None:
    killed = desk(case, "values", "act", kind="settled", die_at=place)
    assert killed.was_killed
    resumed = desk(case, "values", "act", kind="settled")
    for name in ("now", "uuid", "random"):
        assert resumed.said[name] == killed.said[name]
    assert case.effects() == 1
