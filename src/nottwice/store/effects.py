"""What is written of the two commits that every effect makes: its intent, and its receipt.

They are in every call, so they name only the columns that matter, and are made by hand: the value
of an enumeration is taken from where it is, since its property ``value`` is two more calls.
The statements that take them are in sql/ (``quick_intent``, ``write_intent`` and so on).
"""

from __future__ import annotations

from typing import Any

from nottwice.model.call import CallIdentity, CallRow, CallStatus

INTENT = (
    *CallIdentity._fields,
    *("created_at", "call_id", "status", "replay_class", "attempt", "attempt_id", "holder_id"),
    *("started_at", "args_json"),
)
"""The columns of an intent, as ``intent_row`` gives them."""
RECEIPT = ("status", "finished_at", "result_json", "result_kind")
"""The columns that a receipt changes, as ``receipt_row`` gives them before what finds the call."""
_REST_OF_A_CALL = CallRow._fields.index("started_at") + 1
_NOTHING_MORE = tuple(CallRow._field_defaults.values())


def intent_row(row: CallRow) -> tuple[Any, ...] | None:
    """A call that says no more than an intent; None: it says more."""
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
    """What a receipt changes about the intent of its own attempt, and then what finds the call.

    None: there is no receipt, or it came about in another way than by this attempt.
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
