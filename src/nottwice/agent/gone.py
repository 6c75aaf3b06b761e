"""What became of a call whose tool was taken away before the model was told (L5)?

A reply asks for two things, the process is killed in the second, and the next deploy lacks the tool
of the first. Its row is still in the ledger. "Nothing was done" would be a lie that a model acts
on, so the row answers: by its tool's name and its arguments, for what identifies a call in full is
known only to the tool. Promise kept here: P71.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nottwice.agent import wording
from nottwice.agent.messages import ToolCall
from nottwice.agent.state import RunState
from nottwice.engine.asks import Doing, Read
from nottwice.engine.doubts import blocking
from nottwice.engine.session import Scope
from nottwice.errors import Denied, Rejected
from nottwice.model import values
from nottwice.model.call import (
    FIRST_CHECKPOINT,
    ROOT_NODE,
    CallRow,
    CallStatus,
    ResultKind,
)
from nottwice.model.failure import FailureClass

_IN_DOUBT = (
    "it may or may not have happened, and the agent has no such tool any more: decide whether it "
    "happened, or give the agent its tool again"
)
_NOT_ALLOWED = tuple(f"{kind.__module__}.{kind.__qualname__}" for kind in (Denied, Rejected))


def on_record(
    scope: Scope, offered: Collection[str], state: RunState, calls: Sequence[ToolCall]
) -> Doing[dict[int, CallRow]]:
    """The rows of a reply's calls whose tools are gone, by the index of the call.

    Raises RunBlocked if one of them is in doubt: that is never told to a model.
    Durable: the review about it, when it raises.
    """
    missing = {
        index: call
        for index, call in enumerate(calls)
        if call.name not in offered and call.unreadable is None
    }
    if not missing:
        return {}
    session = scope.session
    rows: list[CallRow] = yield Read(lambda store: store.calls(session.run_id))
    told = {one["receipt_id"]: one["outcome"] for one in state.plain["asked"]}
    names = {call.name for call in missing.values()}
    fresh = [row for row in rows if row.identity.tool_name in names and _is_fresh(row, told)]
    found = _matched(missing, fresh)
    for row in found.values():
        if row.status.in_doubt:
            raise (yield from blocking.open_review(session, row, _IN_DOUBT))
    return found


def outcome_of(row: CallRow) -> str:
    """What became of it, in the words of ``RunState.asked``."""
    if row.status is CallStatus.DONE:
        return "done"
    failure = row.kept_failure()
    if failure.error_type in _NOT_ALLOWED:
        return "refused"
    return "unavailable" if failure.failure_class is FailureClass.RETRYABLE else "failed"


def text_of(row: CallRow, known: Sequence[str], most_characters: int) -> str:
    """What the model is told about it."""
    name = row.identity.tool_name
    written = blocking.written_call(name, values.decode_object(row.args_json))
    if row.status is not CallStatus.DONE:
        return wording.failed_and_gone(name, written, row.kept_failure().message, known)
    return wording.done_and_gone(name, written, _result(row, most_characters), known)


def _is_fresh(row: CallRow, told: dict[str, str]) -> bool:
    """Whether a model asked for it, and was not told yet what became of it."""
    where = row.identity
    of_a_model = where.checkpoint_id == FIRST_CHECKPOINT and where.node_id.startswith(
        f"{ROOT_NODE}["
    )
    if not of_a_model or not row.replay_class.effectful:
        return False
    before = told.get(row.call_id)
    return before is None or (before != "done" and row.status is not CallStatus.FAILED)


def _matched(missing: dict[int, ToolCall], rows: Sequence[CallRow]) -> dict[int, CallRow]:
    """Each call with its row: by what it says, and else in the order in which both came."""
    found: dict[int, CallRow] = {}
    for index, call in missing.items():
        fitting = next((row for row in rows if _fits(row, call)), None)
        if fitting is not None:
            found[index] = fitting
    # A tool may have read "7" as 7. The model is told the arguments on record, whichever it is.
    left = [row for row in rows if row not in found.values()]
    for index, call in missing.items():
        same = [row for row in left if row.identity.tool_name == call.name]
        if index not in found and same:
            found[index] = same[0]
            left.remove(same[0])
    return found


def _fits(row: CallRow, call: ToolCall) -> bool:
    said, recorded = call.arguments, values.decode_object(row.args_json)
    if row.identity.tool_name != call.name:
        return False
    if row.label is not None and row.label not in said.values():
        return False
    return all(recorded[name] == value for name, value in said.items() if name in recorded)


def _result(row: CallRow, most_characters: int) -> str:
    result = row.kept_result()
    if result.kind is ResultKind.NOT_KEPT:
        return "(Its result was not kept.)"
    value = values.decode(result.json)
    text = value if isinstance(value, str) else result.json
    if len(text) <= most_characters:
        return text
    return f"{text[:most_characters]}… (cut: it has {len(text):,} characters)"
