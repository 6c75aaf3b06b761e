"""What became of a call whose tool or worker was removed before the model got its result (L5)?

A reply asks for two things, the process is killed during the second, and the next deploy lacks the
tool of the first. Its row is still in the ledger. Telling the model "nothing was done" would be
wrong, and the model would act on it. So the row answers. It is found by the tool's name and its
arguments, because only the tool can compute the full identity of a call. A worker has left its own
run, which answers the same way; see ``gone_workers.py``. Promises kept here: P71, P231.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from nottwice.agent.calls import wording
from nottwice.agent.calls.receipts import cut, whole_text
from nottwice.agent.delegating import gone_workers
from nottwice.agent.messages import ToolCall
from nottwice.agent.state import RunState
from nottwice.engine.asks import Doing, Read
from nottwice.engine.doubts import blocking
from nottwice.engine.doubts.doubt import reviews_of
from nottwice.engine.session import Scope, Session
from nottwice.errors import DeniedByPolicy, RejectedByReviewer
from nottwice.model import values
from nottwice.model.call import (
    FIRST_CHECKPOINT,
    ROOT_NODE,
    CallRow,
    CallStatus,
)
from nottwice.model.data.records import frozen_record
from nottwice.model.failure import Failure, FailureClass
from nottwice.model.review import Decision, Verb
from nottwice.store.interface import Outdated, ReviewWrite

_IN_DOUBT = (
    "it may or may not have happened, and the agent no longer has this tool: decide whether it "
    "happened, or give the agent its tool again"
)
_NOT_ALLOWED = tuple(
    f"{kind.__module__}.{kind.__qualname__}" for kind in (DeniedByPolicy, RejectedByReviewer)
)
_DID_NOT_HAPPEN = "nottwice.agent.calls.gone.DidNotHappen"
"""The type of the recorded failure; no such exception is ever raised."""


class Gone(Protocol):
    """What is on record about a call whose tool or worker the agent no longer has."""

    @property
    def receipt_id(self) -> str: ...

    @property
    def outcome(self) -> str:
        """What became of it, as one of the values in ``RunState.asked``."""

    def text(self, known: Sequence[str], most_characters: int) -> str:
        """Return what the model is told about it; ``known``: the tools that it has."""


def on_record(
    scope: Scope, offered: Collection[str], state: RunState, calls: Sequence[ToolCall]
) -> Doing[dict[int, Gone]]:
    """Return what the ledger has about a reply's calls without a tool, by the index of the call.

    Raises RunBlocked if a tool's call is in doubt, and RunWaits if a worker has not ended: a model
    is told about neither. Durable: the review, when it raises; a person's decision, when it
    returns.
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
    found: dict[int, Gone] = {}
    for index, row in _matched(missing, fresh).items():
        found[index] = GoneCall((yield from _settled(session, row)))
    left = {index: call for index, call in missing.items() if index not in found}
    found.update((yield from gone_workers.on_record(scope, told, left)))
    return found


@frozen_record(frozen=True, slots=True)
class GoneCall:
    """The call of a removed tool, which is not in doubt."""

    row: CallRow

    @property
    def receipt_id(self) -> str:
        return self.row.call_id

    @property
    def outcome(self) -> str:
        if self.row.status is CallStatus.DONE:
            return "done"
        failure = self.row.kept_failure()
        if failure.error_type in _NOT_ALLOWED:
            return "refused"
        return "unavailable" if failure.failure_class is FailureClass.RETRYABLE else "failed"

    def text(self, known: Sequence[str], most_characters: int) -> str:
        row, name = self.row, self.row.identity.tool_name
        written = blocking.written_call(name, values.decode_object(row.args_json))
        if row.status is CallStatus.DONE:
            result = cut(whole_text(row.kept_result()), row.call_id, most_characters)
            return wording.done_and_gone(name, written, result, known)
        failure = row.kept_failure()
        if failure.error_type == _DID_NOT_HAPPEN:
            return wording.did_not_happen_and_gone(name, written, known)
        return wording.failed_and_gone(name, written, failure.message, known)


def _settled(session: Session, row: CallRow) -> Doing[CallRow]:
    """Return the row if it is not in doubt, or if a person has decided that it did not happen.

    Usually that decision allows another attempt, but here no tool is left to make it. So it ends
    the doubt: the call failed without effect (P231).
    """
    while row.status.in_doubt:
        reviews = yield from reviews_of(session, row)
        mine = [one for one in reviews if one.attempt_id == row.attempt_id]
        review = next((one for one in mine if _denies(one.decision)), None)
        if review is None or review.decision is None:
            raise (yield from blocking.open_review(session, row, _IN_DOUBT))
        by, now = review.decision.by, session.clock.now()
        failure = Failure(FailureClass.PERMANENT, _DID_NOT_HAPPEN, f"{by} decided: did not happen")
        ended = row.failed(failure, now=now)._replace(settled_by=f"decision by {by}")
        try:
            used = (ReviewWrite(review.used(now=now), review.version),)
            yield from session.commit_row(ended, after=row, reviews=used)
        except Outdated:
            # The person took the decision back at the same moment: read it again.
            continue
        row = ended
    return row


def _denies(decision: Decision | None) -> bool:
    return decision is not None and decision.verb is Verb.DID_NOT_HAPPEN


def _is_fresh(row: CallRow, told: dict[str, str]) -> bool:
    """Whether a model asked for it, and has not been told yet what became of it."""
    where = row.identity
    of_a_model = where.checkpoint_id == FIRST_CHECKPOINT and where.node_id.startswith(
        f"{ROOT_NODE}["
    )
    if not of_a_model or not row.replay_class.effectful:
        return False
    before = told.get(row.call_id)
    return before is None or (before != "done" and row.status is not CallStatus.FAILED)


def _matched(missing: dict[int, ToolCall], rows: Sequence[CallRow]) -> dict[int, CallRow]:
    """Match each call with its row: by its arguments, else in order."""
    found: dict[int, CallRow] = {}
    for index, call in missing.items():
        fitting = next((row for row in rows if _fits(row, call)), None)
        if fitting is not None:
            found[index] = fitting
    # A tool may have read "7" as 7. In any case, the model is told the recorded arguments.
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
