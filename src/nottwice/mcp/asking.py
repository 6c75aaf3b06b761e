"""How is the user of an MCP client asked about a doubt, and what does the answer mean? (P273)

Only with ``--let-client-decide``. Clients of protocol 2026-07-28 get a result that asks for input;
older ones get ``elicitation/create``. A client that can do neither gets the text.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from nottwice import adapters
from nottwice.engine.doubts.blocking import written_call
from nottwice.errors import ApprovalNeeded, RunBlocked
from nottwice.model.call import Call
from nottwice.model.data.calendar import utc
from nottwice.model.data.records import frozen_record
from nottwice.model.tool import did_not_happen, happened

NAME = "nottwice"
"""Our question among those that a result asks, and the beginning of our state."""
BY = "the user of the MCP client"
HAPPENED = "It happened"
DID_NOT_HAPPEN = "It did not happen: send it again"
LEAVE_OPEN = "Leave it open"
APPROVE = "Approve: do it"
REJECT = "Reject: do not do it"
_NOT_KNOWN = "It happened. What it returned is not known."
_STATE = "nottwice:"


@frozen_record(frozen=True, slots=True)
class DoubtQuestion:
    """A question about one review."""

    review_id: str
    params: dict[str, Any]
    """The parameters of ``elicitation/create``."""

    def as_result(self) -> dict[str, Any]:
        """Return the result that asks it, for clients of protocol 2026-07-28."""
        asked = {"method": "elicitation/create", "params": self.params}
        return {
            "resultType": "input_required",
            "inputRequests": {NAME: asked},
            "requestState": f"{_STATE}{self.review_id}",
        }


def question_of(error: RunBlocked, tool: str, arguments: Mapping[str, Any]) -> DoubtQuestion | None:
    """Return the question about a call that waits for a person. None: it has no review."""
    review_id = getattr(error, "review_id", None)
    if review_id is None:
        return None
    if isinstance(error, ApprovalNeeded):
        title, choices = "May this be done?", [APPROVE, REJECT, LEAVE_OPEN]
    else:
        title, choices = "Did this happen?", [HAPPENED, DID_NOT_HAPPEN, LEAVE_OPEN]
    properties: dict[str, Any] = {
        "answer": {"type": "string", "title": title, "enum": choices, "default": LEAVE_OPEN}
    }
    if HAPPENED in choices:
        properties["result"] = {
            "type": "string",
            "title": "If it happened: what did it return? You may leave this empty.",
        }
    message = f"{title} {_about(error, written_call(tool, arguments))}"
    schema = {"type": "object", "properties": properties, "required": ["answer"]}
    return DoubtQuestion(review_id, {"mode": "form", "message": message, "requestedSchema": schema})


def _about(error: RunBlocked, shown: str) -> str:
    if isinstance(error, ApprovalNeeded):
        return f"{shown} waits for your approval."
    call = error.facts.get("call")
    at = f" at {utc(call.started_at):%H:%M:%S} UTC" if isinstance(call, Call) else ""
    return f"{shown} was sent{at}, and no answer was recorded. Look there before you answer."


def asked_review(params: Mapping[str, Any]) -> str | None:
    """Return the review that a repeated request answers. None: it answers no question of ours."""
    state = params.get("requestState")
    if isinstance(state, str) and state.startswith(_STATE):
        return state.removeprefix(_STATE)
    return None


def payload_of(review_id: str, given: object) -> dict[str, Any] | None:
    """Return the decision that a user made. None: it was left open (P245)."""
    if not isinstance(given, Mapping) or given.get("action") != "accept":
        return None
    content = given.get("content")
    content = content if isinstance(content, Mapping) else {}
    why = "answered in the client"
    match content.get("answer"):
        case "It happened":
            result = content.get("result")
            result = _typed(result) if isinstance(result, str) and result else _NOT_KNOWN
            return happened(result).payload(review_id, by=BY, why=why)
        case "It did not happen: send it again":
            return did_not_happen().payload(review_id, by=BY, why=why)
        case "Approve: do it":
            return adapters.approve(review_id, by=BY, why=why)
        case "Reject: do not do it":
            return adapters.reject(review_id, by=BY, why=why)
    return None


def _typed(text: str) -> Any:
    """Return what a person typed into the form: an object or a list as JSON, else the text."""
    with contextlib.suppress(ValueError):
        value = json.loads(text)
        if isinstance(value, dict | list):
            return value
    return text


def without_our_answer(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request without the answer to our question: the server did not ask it."""
    if asked_review(params) is None:
        return dict(params)
    kept = {name: value for name, value in params.items() if name != "requestState"}
    given = kept.pop("inputResponses", None)
    others = {name: one for name, one in (given or {}).items() if name != NAME}
    return {**kept, "inputResponses": others} if others else kept
