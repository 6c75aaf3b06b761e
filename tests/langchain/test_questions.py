"""What a person is asked through LangGraph, and which answer decides which review."""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import ApprovalNeeded, QuestionOpen, ReplayUnsafeError, ResultNotKept
from nottwice.langchain.questions import Heard, digest, find_answer, question_about

RESPOND = {"decisions": [{"type": "respond", "message": "seen"}]}


def doubt(review: str = "r1", kind: Any = ReplayUnsafeError) -> Any:
    return kind("It may or may not have happened.", review_id=review)


def asked(error: Any, heard: Heard | None = None) -> dict[str, Any]:
    return question_about(error, "charge", {"cents": 7}, heard or Heard())


def decided(error: Any, heard: Heard) -> Any:
    """What an answer says, in the words of nottwice. None: there is none for this call."""
    found = find_answer(error, heard)
    return None if found is None else found[0]["nottwice"]


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [
        (ReplayUnsafeError, ["respond", "reject"]),
        (ResultNotKept, ["respond", "reject"]),
        (ApprovalNeeded, ["approve", "reject"]),
        (QuestionOpen, ["reject"]),
    ],
)
def test_a_question_has_the_shape_of_langchains_own(kind: Any, allowed: list[str]) -> None:
    question = asked(doubt(kind=kind))
    (request,) = question["action_requests"]
    assert (request["name"], request["args"]) == ("charge", {"cents": 7})
    assert question["review_configs"] == [{"action_name": "charge", "allowed_decisions": allowed}]
    assert question["nottwice"]["review"] == "r1"
    for word in ("Do not retry", "nottwice decide"):
        assert word not in request["description"]


def test_a_decision_of_langchains_own_answers_the_question_that_was_asked() -> None:
    question = asked(doubt())
    for answer in (RESPOND, RESPOND["decisions"][0]):
        for heard in (Heard(question, plain=answer), Heard(question, by_id=(answer,))):
            told = decided(doubt(), heard)
            assert (told["review"], told["answer"], told["result"]) == ("r1", "happened", "seen")


@pytest.mark.parametrize(
    ("message", "result"),
    [('{"charged": 7}', {"charged": 7}), ("[1]", [1]), ("7", "7"), ("seen {", "seen {"), (7, 7)],
)
def test_what_a_person_responds_is_the_result_of_the_tool(message: Any, result: Any) -> None:
    answer = {"type": "respond", "message": message}
    assert decided(doubt(), Heard(asked(doubt()), plain=answer))["result"] == result


@pytest.mark.parametrize(
    "yes",
    [
        True,
        "yes",
        {"type": "approve"},
        {"decisions": [{"type": "approve"}]},
        {"decisions": [{"type": "edit", "edited_action": {}}]},
        {"decisions": [{"type": "respond", "message": "a"}] * 2},
        {"decisions": []},
        {"type": ["respond"]},
        7,
    ],
)
def test_the_yes_of_a_framework_decides_no_doubt(yes: Any) -> None:
    assert decided(doubt(), Heard(asked(doubt()), plain=yes)) is None


def test_a_reject_ends_the_run_of_a_doubt_and_refuses_an_approval() -> None:
    reject = {"type": "reject", "message": "ask the bank"}
    told = decided(doubt(), Heard(asked(doubt()), plain=reject))
    assert (told["answer"], told["why"]) == ("abort", "ask the bank")
    approval = doubt(kind=ApprovalNeeded)
    assert decided(approval, Heard(asked(approval), plain=reject))["answer"] == "reject"
    yes = {"type": "approve"}
    assert decided(approval, Heard(asked(approval), plain=yes))["answer"] == "approve"


def test_an_answer_that_names_no_review_is_for_the_question_that_was_asked_last() -> None:
    heard = Heard(asked(doubt("r1")), plain=RESPOND)
    assert decided(doubt("r2"), heard) is None
    assert decided(doubt("r1"), Heard(None, plain=RESPOND)) is None


def test_an_answer_that_was_there_before_the_question_is_no_answer_to_it() -> None:
    """LangGraph hands a plain answer out again if it is resumed without one."""
    first = Heard(asked(doubt("r1")), plain=RESPOND)
    second = asked(doubt("r2"), first)
    assert second["nottwice"]["seen"] == digest(RESPOND)
    assert decided(doubt("r2"), Heard(second, plain=RESPOND)) is None
    other = {"type": "respond", "message": "seen, too"}
    assert decided(doubt("r2"), Heard(second, plain=other))["result"] == "seen, too"
    assert decided(doubt("r2"), Heard(second, by_id=(RESPOND,), plain=RESPOND)) is not None


def test_an_answer_that_names_its_review_decides_it_whatever_was_asked() -> None:
    named = nt.happened("seen").payload("r2", by="ann", why="saw it")
    for heard in (Heard(asked(doubt("r1")), plain=named), Heard(None, by_id=(RESPOND, named))):
        assert decided(doubt("r2"), heard)["by"] == "ann"
        assert decided(doubt("r1"), Heard(heard.asked_last, plain=named)) is None


def test_a_malformed_answer_is_none_and_can_be_corrected() -> None:
    wrong = {"nottwice": {"answer": "happened"}}
    assert decided(doubt(), Heard(asked(doubt()), plain=wrong)) is None


def test_an_error_without_a_review_has_no_answer() -> None:
    error = ReplayUnsafeError("Several calls may or may not have happened.")
    assert find_answer(error, Heard(None, plain=RESPOND)) is None
