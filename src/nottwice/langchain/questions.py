"""What is a person asked through LangGraph, and which answer is for which call? (P263)

The question has the shape of LangChain's own human-in-the-loop middleware, so that pages which show
that can show this. A task may ask several questions, one after the other, and LangGraph numbers the
answers. A call that was decided asks no more, so numbers alone would hand its answer to the next
one. So an answer counts if it names the review, or if it answers the very question that LangGraph
saved last and that question names the review.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nottwice.adapters import abort, approve, reject, text_for_model
from nottwice.errors import (
    ApprovalNeeded,
    NottwiceError,
    ReplayUnsafeError,
    ResultNotKept,
    UsageError,
)
from nottwice.model.answers import MARK, read_answer
from nottwice.model.tool import happened

BY: Final = "a user of LangGraph"
_ABORTED = "rejected through LangGraph"

HOW_TO_ANSWER = (
    " Look whether it happened. If it did, respond with its result. Reject stops this run for good."
    " If it did not happen, say so with nt.did_not_happen().payload(...) or in nottwice."
)


def question_about(
    error: NottwiceError, name: str, arguments: Mapping[str, Any], *, answered: int
) -> dict[str, Any]:
    """Return the value of the interrupt for a call that a person must decide.

    ``answered``: how many answers the task has had before.
    """
    allowed = _allowed(error)
    text = text_for_model(error).removeprefix("[nottwice] ")
    if "respond" in allowed:
        # The advice for a model, which follows, is not for the person who reads this.
        text = text.partition(" Do not retry")[0] + HOW_TO_ANSWER
    elif "approve" in allowed:
        text = f"{error.message} Approve or reject it."
    request = {"name": name, "args": dict(arguments), "description": text}
    return {
        "action_requests": [request],
        "review_configs": [{"action_name": name, "allowed_decisions": allowed}],
        MARK: {"review": review_of(error), "answered": answered},
    }


def review_of(error: NottwiceError) -> str | None:
    """The review that an exception asks a person to decide."""
    found: str | None = getattr(error, "review_id", None)
    return found


def find_answer(
    answers: Sequence[Any], asked_last: Any, error: NottwiceError
) -> dict[str, Any] | None:
    """Return the answer to the review of a call, as a payload that decides it. None: there is none.

    ``answers``: all that the task has got, in order. ``asked_last``: the value of the last
    interrupt of the task that LangGraph saved.
    """
    review = review_of(error)
    if review is None:
        return None
    for given in reversed(answers):
        told = given if _names(given, review) else None
        if told is not None:
            return dict(told)
    mark = asked_last.get(MARK) if isinstance(asked_last, Mapping) else None
    if not isinstance(mark, Mapping) or mark.get("review") != review:
        return None
    number = mark.get("answered")
    if not isinstance(number, int) or number >= len(answers):
        return None
    return _in_their_words(answers[number], review, _allowed(error))


def has_plain_answers(answers: Sequence[Any]) -> bool:
    """Whether one of the answers names no review, so that its question must be looked up."""
    return any(not (isinstance(given, Mapping) and MARK in given) for given in answers)


def _allowed(error: NottwiceError) -> list[str]:
    """What LangChain calls the decisions. For a doubt, approve would have no meaning."""
    if isinstance(error, ReplayUnsafeError | ResultNotKept):
        return ["respond", "reject"]
    if isinstance(error, ApprovalNeeded):
        return ["approve", "reject"]
    return ["reject"]


def _names(given: Any, review: str) -> bool:
    try:
        told = read_answer(given)
    except UsageError:
        # LangGraph keeps every answer, and would hand this one out again for ever. Ask again.
        return False
    return told is not None and told.review_id == review


def _in_their_words(given: Any, review: str, allowed: list[str]) -> dict[str, Any] | None:
    """Return what a decision of LangChain's middleware means. None: nothing, look again."""
    decision = _decision(given)
    kind = decision.get("type")
    if kind not in allowed:
        return None
    message = decision.get("message")
    why = message if isinstance(message, str) and message else _ABORTED
    if kind == "respond":
        result = _result(decision.get("message"))
        return happened(result).payload(review, by=BY, why="answered through LangGraph")
    if kind == "approve":
        return approve(review, by=BY)
    if "approve" in allowed:
        return reject(review, by=BY, why=why)
    return abort(review, by=BY, why=why)


def _decision(given: Any) -> Mapping[str, Any]:
    """One decision, alone or as the only one of a response."""
    if isinstance(given, Mapping) and isinstance(given.get("decisions"), Sequence):
        decisions = given["decisions"]
        given = decisions[0] if len(decisions) == 1 else None
    return given if isinstance(given, Mapping) else {}


def _result(message: Any) -> Any:
    """The result that a person typed: JSON if it is an object or a list, else the text itself."""
    if not isinstance(message, str):
        return message
    try:
        read = json.loads(message)
    except ValueError:
        return message
    return read if isinstance(read, dict | list) else message
