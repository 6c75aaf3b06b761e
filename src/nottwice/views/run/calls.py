"""What happened to a step and to a call: its attempts, its result, the evidence about it?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from nottwice.engine.doubts.blocking import call_text
from nottwice.model import values
from nottwice.model.call import CallRow, CallStatus, ResultKind, StoredResult
from nottwice.model.data.records import frozen_record
from nottwice.model.replay_class import ReplayClass
from nottwice.model.review import Evidence
from nottwice.model.run import Life, StepRecord, StepStatus
from nottwice.views.runs import FailureView, Holders, failure_view
from nottwice.views.shape import Timestamp, moment, one_of


@frozen_record(frozen=True, slots=True, kw_only=True)
class ResultView:
    """A recorded result."""

    kind: Annotated[ResultKind, one_of(ResultKind)]
    value: Annotated[Any, "the result as plain data"]
    json: str
    """As it is recorded."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class StepView:
    """One visit of a step."""

    step: Annotated[str, "its name, with those of the steps around it"]
    visit: Annotated[str, "which visit of the step this is"]
    status: Annotated[StepStatus, "in_progress, done or failed"]
    started_at: Annotated[Timestamp, "when it began"]
    finished_at: Annotated[Timestamp | None, "when it ended, or null"]
    output_file: Annotated[str | None, "the file that it returned as its output, or null"]
    failure: Annotated[FailureView | None, "the error that ended it, or null; see failure"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """One attempt of a call."""

    attempt: Annotated[int, "its number, from 1 on"]
    holder: Annotated[str, "the process that made it"]
    started_at: Annotated[Timestamp, "when its intent was recorded"]
    ended_at: Annotated[Timestamp | None, "when it ended, or null"]
    outcome: Annotated[
        str | None, "done, retryable, permanent, ambiguous, unknown, or null while it is not known"
    ]
    holder_id: str
    is_alive: bool
    """Whether it has no outcome and its process is alive."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class EvidenceView:
    """Something that bears on whether a call happened."""

    at: Annotated[Timestamp, "when it was noted"]
    source: Annotated[str, "who noted it: engine, verify, ownership, recheck, or a holder"]
    text: Annotated[str, "what was found"]
    result: Annotated[ResultView | None, "the result that came with it, or null; as in a call"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class CallView:
    """One call with everything that bears on it."""

    call_id: Annotated[str, "stable over attempts; what nt.current_call().id says"]
    tool: Annotated[str, "the name of the tool"]
    step: Annotated[str, "the step it belongs to; / is outside of any"]
    visit: Annotated[str, "which visit of the step"]
    arguments: Annotated[
        dict[str, Any], "the recorded arguments as plain data; a secret is a fingerprint"
    ]
    replay_class: Annotated[ReplayClass, one_of(ReplayClass)]
    status: Annotated[CallStatus, "PENDING and UNKNOWN are in doubt; DONE and FAILED are not"]
    started_at: Annotated[Timestamp, "when its first attempt was recorded"]
    finished_at: Annotated[Timestamp | None, "when the last attempt ended, or null"]
    took_seconds: Annotated[float | None, "from the first start to the end, or null"]
    label: Annotated[str | None, "the label of a deliberate repeat, or null"]
    key: Annotated[str | None, "the idempotency key, or null"]
    result: Annotated[
        ResultView | None,
        "an object with `kind` (plain, typed, given, not_kept) and `value`, or null",
    ]
    failure: Annotated[FailureView | None, "the error of the last attempt, or null; see failure"]
    retry_at: Annotated[Timestamp | None, "when another attempt is due, or null"]
    settled_by: Annotated[str | None, "what ended a doubt: verify or a decision; or null"]
    attempts: Annotated[tuple[AttemptView, ...], "all attempts, oldest first; see attempt"]
    evidence: Annotated[tuple[EvidenceView, ...], "what bears on whether it happened; see evidence"]
    reviews: Annotated[tuple[str, ...], "the ids of the reviews about it"]
    title: Annotated[str | None, "what the tool's title= says about this call, or null"]
    look: Annotated[str | None, "where the tool's look= says to check upstream, or null"]
    result_schema: Annotated[Any, "the JSON schema of what the tool returns; null if not known"]
    text: str
    """The call as a person would write it, with secrets covered."""

    @property
    def last(self) -> AttemptView:
        return self.attempts[-1]


def step_view(step: StepRecord) -> StepView:
    """A visit of a step as it is shown."""
    return StepView(
        step=step.node_id,
        visit=step.checkpoint_id,
        status=step.status,
        started_at=Timestamp(step.started_at),
        finished_at=moment(step.finished_at),
        output_file=step.output_file,
        failure=failure_view(step.failure),
    )


def call_view(
    row: CallRow, holders: Holders, *, evidence: Sequence[Evidence], reviews: Sequence[str]
) -> CallView:
    """A call as it is shown."""
    tool, args = row.identity.tool_name, values.decode_object(row.args_json)
    return CallView(
        call_id=row.call_id,
        tool=tool,
        step=row.identity.node_id,
        visit=row.identity.checkpoint_id,
        arguments=args,
        replay_class=row.replay_class,
        status=row.status,
        started_at=Timestamp(row.created_at),
        finished_at=moment(row.finished_at),
        took_seconds=None
        if row.finished_at is None
        else round(row.finished_at - row.created_at, 6),
        label=row.label,
        key=row.key,
        result=result_view(row.result),
        failure=failure_view(row.failure),
        retry_at=moment(row.retry_at),
        settled_by=row.settled_by,
        attempts=_attempts(row, holders),
        evidence=tuple(map(evidence_view, evidence)),
        reviews=tuple(reviews),
        title=holders.tools.title(tool, args),
        look=holders.tools.look(tool, args, call_id=row.call_id, key=row.key),
        result_schema=holders.tools.result_schema(tool),
        text=call_text(row),
    )


def evidence_view(item: Evidence) -> EvidenceView:
    """A piece of evidence as it is shown."""
    return EvidenceView(
        at=Timestamp(item.at), source=item.source, text=item.text, result=result_view(item.result)
    )


def result_view(result: StoredResult | None) -> ResultView | None:
    """A recorded result as it is shown."""
    if result is None:
        return None
    return ResultView(kind=result.kind, value=values.decode(result.json), json=result.json)


def _attempts(row: CallRow, holders: Holders) -> tuple[AttemptView, ...]:
    past = [
        AttemptView(
            attempt=one.attempt,
            holder=holders.describe(one.holder_id),
            started_at=Timestamp(one.started_at),
            ended_at=moment(one.ended_at),
            outcome=one.outcome,
            holder_id=one.holder_id,
            is_alive=False,
        )
        for one in row.past
    ]
    is_pending = row.status is CallStatus.PENDING
    last = AttemptView(
        attempt=row.attempt,
        holder=holders.describe(row.holder_id),
        started_at=Timestamp(row.started_at),
        ended_at=moment(row.finished_at),
        outcome=_outcome_of(row),
        holder_id=row.holder_id,
        is_alive=is_pending and holders.life(row.holder_id) is Life.ALIVE,
    )
    return (*past, last)


def _outcome_of(row: CallRow) -> str | None:
    """How the last attempt of a call ended; None if that is not known."""
    if row.failure is not None:
        return row.failure.failure_class.value
    return "done" if row.result is not None else None
