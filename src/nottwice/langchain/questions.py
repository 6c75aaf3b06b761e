"""What is a person asked through LangGraph, and which answer is for which call? (P263)

The question has the shape of LangChain's own human-in-the-loop middleware, so that pages which show
that can show this. A task may ask several questions, one after the other. LangGraph numbers them in
the order in which the code asks, and a call that was decided asks no more: by number, the answer to
it would go to the next call. LangGraph also hands a plain ``Command(resume=...)`` out again when
the graph is resumed without an answer. So an answer counts if it names the review, or if it is new
and the question that LangGraph saved last is about this review.
"""

from __future__ import annotations

import hashlib
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
from nottwice.model.asking.answers import MARK, read_answer
from nottwice.model.data.records import frozen_record
from nottwice.model.tool import happened

BY: Final = "a user of LangGraph"
_ABORTED = "rejected through LangGraph"

HOW_TO_ANSWER = (
    " Look whether it happened. If it did, respond with its result. Reject aborts this run."
    " If it did not happen, say so with nt.did_not_happen().payload(...) or in nottwice."
)


@frozen_record(frozen=True, slots=True)
class Heard:
    """What a task has asked people, and what it has heard from them."""

    asked_last: Any = None
    """The value of the interrupt that LangGraph saved last for this task."""
    by_id: tuple[Any, ...] = ()
    """What was given this time for an interrupt of the task, by its id."""
    plain: Any = None
    """What was given without an id. LangGraph hands it out again until there is another one."""

    @property
    def review(self) -> str | None:
        """The review that was asked about last."""
        found = self._mark.get("review")
        return found if isinstance(found, str) else None

    @property
    def answer(self) -> Any:
        """What has come since the last question was asked; None: nothing."""
        if self.by_id:
            return self.by_id[-1]
        is_old = self.plain is None or self._mark.get("seen") == digest(self.plain)
        return None if is_old else self.plain

    @property
    def _mark(self) -> Mapping[str, Any]:
        asked = self.asked_last
        mark = asked.get(MARK) if isinstance(asked, Mapping) else None
        return mark if isinstance(mark, Mapping) else {}


def question_about(
    error: NottwiceError, name: str, arguments: Mapping[str, Any], heard: Heard
) -> dict[str, Any]:
    """Return the value of the interrupt for a call that a person must decide.

    ``heard``: what is there already, and is no answer to this.
    """
    allowed = _allowed(error)
    # The advice for a model, which follows, is not for the person who reads this.
    text = text_for_model(error).removeprefix("[nottwice] ").partition(" Do not retry")[0]
    if "respond" in allowed:
        text += HOW_TO_ANSWER
    elif "approve" in allowed:
        text = f"{error.message} Approve or reject it."
    request = {"name": name, "args": dict(arguments), "description": text}
    return {
        "action_requests": [request],
        "review_configs": [{"action_name": name, "allowed_decisions": allowed}],
        MARK: {
            "review": review_of(error),
            "seen": None if heard.plain is None else digest(heard.plain),
        },
    }


def review_of(error: NottwiceError) -> str | None:
    """The review that an exception asks a person to decide."""
    found: str | None = getattr(error, "review_id", None)
    return found


def find_answer(error: NottwiceError, heard: Heard) -> tuple[dict[str, Any], Any] | None:
    """Return the payload that decides the review of a call, and the answer that it was made of.

    None: there is no answer for this call.
    """
    review = review_of(error)
    return None if review is None else _find(review, _allowed(error), heard)


def find_other_answer(error: NottwiceError, heard: Heard) -> tuple[str, dict[str, Any]] | None:
    """Return what an answer decides that is for another call of the task, and its review.

    The tools of a task run at the same time. If one of them pauses, the others are cut off, perhaps
    before they have used their answer.
    """
    review = heard.review
    if review is None or review == review_of(error) or not isinstance(heard.asked_last, Mapping):
        return None
    allowed: list[str] = []
    for config in heard.asked_last.get("review_configs") or ():
        allowed += config["allowed_decisions"]
    found = _find(review, allowed, heard)
    return None if found is None else (review, found[0])


def _find(review: str, allowed: list[str], heard: Heard) -> tuple[dict[str, Any], Any] | None:
    for given in (*heard.by_id, heard.plain):
        if _names(given, review):
            return dict(given), given
    if heard.review != review:
        return None
    told = _in_their_words(heard.answer, review, allowed)
    return None if told is None else (told, heard.answer)


def digest(answer: Any) -> str:
    """Something by which an answer is recognised, and which can be saved with any question."""
    text = json.dumps(answer, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
        # LangGraph keeps every answer, and would return this one forever. Ask again.
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
