"""Which columns do the two commits of every effect write: its intent, and its receipt?

Every call makes both, so they write only the columns that matter, and the rows are built by hand.
They read ``_value_`` of an enumeration, because its property ``value`` costs two more calls. The
statements that take the rows are in sql/ (``quick_intent``, ``write_intent`` and so on).
"""

from __future__ import annotations

from typing import Any

from nottwice.model.call import CallIdentity, CallRow, CallStatus

INTENT = (
    *CallIdentity._fields,
    *("created_at", "call_id", "status", "replay_class", "attempt", "attempt_id", "holder_id"),
    *("started_at", "args_json"),
)
"""The columns of an intent, in the order of ``intent_row``."""
RECEIPT = ("status", "finished_at", "result_json", "result_kind")
"""The columns that a receipt changes; ``receipt_row`` adds the call's identity after them."""
_REST_OF_A_CALL = CallRow._fields.index("started_at") + 1
_NOTHING_MORE = tuple(CallRow._field_defaults.values())


def intent_row(row: CallRow) -> tuple[Any, ...] | None:
    """The row of a call that has only the columns of an intent; None if it has more."""
    if row[_REST_OF_A_CALL:] != _NOTHING_MORE:
        return None
    return (
        *row.identity,
        round(row.created_at * 1_000_000),
        row.call_id,
        row.status._value_,
        row.replay_class._value_,
        row.attempt,
        row.attempt_id,
        row.holder_id,
        round(row.started_at * 1_000_000),
        row.args_json,
    )


def receipt_row(row: CallRow) -> tuple[Any, ...] | None:
    """The columns that a receipt changes, followed by the identity of the call.

    None if there is no receipt, or if it did not come from this attempt.
    """
    result, finished_at = row.result, row.finished_at
    if row.status is not CallStatus.DONE or result is None or finished_at is None:
        return None
    if row.failure is not None or row.retry_at is not None or row.settled_by is not None:
        return None
    return (
        row.status._value_,
        round(finished_at * 1_000_000),
        result.json,
        result.kind._value_,
        *row.identity,
    )
