"""What is a model told about a call that was not made, was made before, or failed? (P244)

A model has no terminal and must not decide for a person. So no text here contains a command, and
each says what was not done and what the model itself can do.
"""

from __future__ import annotations

from typing import Any

from nottwice.engine.doubts.blocking import written_call
from nottwice.errors import (
    Ambiguous,
    ApprovalNeeded,
    BudgetSpent,
    InvalidArguments,
    InvalidId,
    InvalidKey,
    KeyConflict,
    NotPlainData,
    QuestionOpen,
    ResultNotKept,
    RunBlocked,
    RunWaits,
    ToolFailure,
)
from nottwice.guard.attached.calling import CallResult
from nottwice.model.call import Call
from nottwice.model.data.calendar import utc

REPEAT = "nottwice_repeat"
"""The parameter with which a model asks for a deliberate repeat."""
_HEAD = "[nottwice]"
_LEAVE = (
    "Do not retry it, do not work around it with another tool, and do not decide this yourself."
)
_SHORT_ID_CHARACTERS = 8


def text_for_model(error: BaseException) -> str:
    """Return what a model may read about an exception. It contains no command."""
    match error:
        case Ambiguous():
            return f"{_HEAD} STOPPED: it is not known whether this happened. {_LEAVE}"
        case ToolFailure():
            detail = error.facts.get("detail")
            return str(error.message if detail is None else f"It failed: {detail}")
        case InvalidArguments() | InvalidKey() | KeyConflict() | NotPlainData() | InvalidId():
            return f"{_HEAD} Nothing was done. {error.message}"
        case ApprovalNeeded():
            return (
                f"{_HEAD} NOT DONE YET: a person must approve this first{_review(error)}. {_LEAVE} "
                "Tell the user that it waits for an approval. Other tools still work."
            )
        case ResultNotKept():
            return (
                f"{_HEAD} STOPPED: {_shown(error)} was done, but its result is not known. It was "
                f"not done again. {_LEAVE} Tell the user to look up the result, then to answer"
                f"{_review(error, named=False)} in nottwice. Other tools still work."
            )
        case QuestionOpen() | BudgetSpent() | RunWaits():
            return (
                f"{_HEAD} NOT DONE YET: this waits for something outside{_review(error)}. Nothing "
                f"was done. {_LEAVE}"
            )
        case RunBlocked():
            return (
                f"{_HEAD} STOPPED: it is not known whether this happened. {_shown(error)}"
                f"{_sent(error)}; no answer was recorded. It was not sent again. {_LEAVE} Tell the "
                f"user to check, then to answer{_review(error, named=False)} in nottwice. Other "
                "tools still work."
            )
    return f"{_HEAD} Nothing was done, because of an error in the program: {type(error).__name__}."


def text_for_repeat(made: CallResult[Any], *, now: float, parameter: str | None = REPEAT) -> str:
    """Return the note below a result that is a receipt.

    ``parameter``: with what a model asks for a deliberate repeat; None: it cannot.
    """
    again = ""
    if parameter is not None:
        again = (
            " If the user wants it done a second time, call again with "
            f'{parameter}="<short reason>".'
        )
    return (
        f"{_HEAD} Not done again. You asked for exactly this {_ago(now - made.at)} ago and it "
        f"succeeded; above is the result from then (receipt {_short(made.receipt_id)}).{again}"
    )


def text_for_lost_answer(made: CallResult[Any]) -> str:
    """Return the note below a result whose answer never reached the model."""
    return (
        f"{_HEAD} This call was made at {_time(made.at)} and succeeded, but its answer was lost. "
        "It was not made again; above is its result."
    )


def _shown(error: RunBlocked) -> str:
    call = error.facts.get("call")
    return written_call(call.tool, call.args) if isinstance(call, Call) else "The call"


def _sent(error: RunBlocked) -> str:
    call = error.facts.get("call")
    return f" was sent at {_time(call.started_at)}" if isinstance(call, Call) else " was sent"


def _review(error: Any, *, named: bool = True) -> str:
    review_id = getattr(error, "review_id", None)
    if review_id is None:
        return "" if named else " what it asks"
    return f" (review {review_id})" if named else f" review {review_id}"


def _time(at: float) -> str:
    return f"{utc(at):%H:%M:%S} UTC"


def _short(receipt_id: str | None) -> str:
    return "unknown" if receipt_id is None else receipt_id[:_SHORT_ID_CHARACTERS]


def _ago(seconds: float) -> str:
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count = int(max(seconds, 0.0) // size)
        if count:
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return "a moment"
