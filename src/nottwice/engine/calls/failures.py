"""Turns a recorded failure into an exception, the same live and on replay."""

from __future__ import annotations

from nottwice.errors import (
    Ambiguous,
    ChildFailed,
    ContextTooLong,
    DeniedByPolicy,
    EventTimeout,
    FileChanged,
    ModelRefused,
    Permanent,
    RejectedByReviewer,
    Retryable,
    ToolFailure,
)
from nottwice.model.call import CallRow
from nottwice.model.failure import FailureClass
from nottwice.model.tool import Tool

_OWN_FAILURES: dict[str, type[ToolFailure]] = {
    f"{kind.__module__}.{kind.__qualname__}": kind
    for kind in (
        ChildFailed,
        ContextTooLong,
        DeniedByPolicy,
        EventTimeout,
        FileChanged,
        ModelRefused,
        RejectedByReviewer,
    )
}


def failure_error(tool: Tool, row: CallRow, *, stays: bool = True) -> ToolFailure:
    """Return the recorded failure as an exception, the same live and on replay.

    ``stays``: making the same call again does not try again, but gets this failure (P302).
    """
    failure = row.kept_failure()
    kinds: dict[FailureClass, type[ToolFailure]] = {
        FailureClass.RETRYABLE: Retryable,
        FailureClass.PERMANENT: Permanent,
        FailureClass.AMBIGUOUS: Ambiguous,
    }
    tried = f" after {row.attempt} attempts" if row.attempt > 1 else ""
    own_words = failure.error_type.startswith("nottwice.errors.")
    kind = _OWN_FAILURES.get(failure.error_type, kinds[failure.failure_class])
    what = failure.message if own_words else f"{failure.error_type}: {failure.message}"
    effect = " and took no effect" if tool.replay_class.effectful else ""
    asked = failure.retry_after_seconds
    return kind(
        f"{tool.name} failed{tried}{effect}: {what}",
        call_id=row.call_id,
        error_type=failure.error_type,
        detail=failure.message,
        attempts=row.attempt,
        # What the upstream asked for, if it did; a host waits that long (P302).
        **({} if asked is None else {"retry_in": asked}),
        **({"non_retryable": True} if stays and kind is Retryable else {}),
    )
