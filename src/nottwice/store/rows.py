"""Records to SQL parameters and back: the same columns and the same bytes on every SQL store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from nottwice.errors import LedgerCorrupt
from nottwice.model import values
from nottwice.model.call import (
    CallIdentity,
    CallRow,
    CallStatus,
    PastAttempt,
    ResultKind,
    StoredResult,
)
from nottwice.model.failure import Failure
from nottwice.model.policy import ChargeRecord
from nottwice.model.replay_class import ReplayClass
from nottwice.model.review import (
    AuditEntry,
    Decision,
    Evidence,
    Review,
    ReviewKind,
    ReviewStatus,
    Verb,
)
from nottwice.model.run import (
    HolderRecord,
    RunCount,
    RunRecord,
    RunStatus,
    Standing,
    StepRecord,
    StepStatus,
    Wait,
)
from nottwice.model.shapes import UNREADABLE as NOT_WRITTEN
from nottwice.model.shapes import checked
from nottwice.store.columns import check_of

CALL_COLUMNS = (
    "workflow_id, node_id, checkpoint_id, tool_name, input_hash, created_at, call_id, status, "
    "replay_class, attempt, attempt_id, holder_id, started_at, finished_at, retry_at, ambiguous, "
    "label, idempotency_key, key_since, window_seconds, trace_id, settled_by, result_kind, "
    "args_json, result_json, failure_json, past_json, parent_call_id, nth, writes, seal"
)
INTENT_COLUMNS = (
    "workflow_id, node_id, checkpoint_id, tool_name, input_hash, created_at, call_id, status, "
    "replay_class, attempt, attempt_id, holder_id, started_at, args_json"
)
CALL_KEY = "workflow_id, node_id, checkpoint_id, tool_name, input_hash"
RECEIPT_COLUMNS = "status, finished_at, result_json, result_kind"
"""What a receipt changes, in the order in which ``receipt_to_sql`` says it."""
CHANGING_COLUMNS = (
    "status, attempt, attempt_id, holder_id, started_at, finished_at, result_json, result_kind, "
    "failure_json, retry_at, ambiguous, settled_by, past_json"
)
"""What may change about a stored call: not what identifies it, its key, class or arguments (P9)."""
RUN_COLUMNS = (
    "workflow_id, status, epoch, holder_id, created_at, updated_at, claimed_at, failure_json, "
    "graph_id, input_json, parent_id, root_id, origin, waits_json, wake_at, seal"
)
STEP_COLUMNS = (
    "workflow_id, node_id, checkpoint_id, status, ordinal, started_at, finished_at, failure_json, "
    "output_file, seal"
)
REVIEW_COLUMNS = (
    "workflow_id, review_id, kind, status, node_id, checkpoint_id, tool_name, input_hash, call_id, "
    "attempt_id, summary, opened_at, version, decision_json, closed_by, closed_at, about_json, seal"
)
EVIDENCE_COLUMNS = (
    "workflow_id, call_id, attempt_id, at, source, text, result_kind, result_json, seal"
)
AUDIT_COLUMNS = "workflow_id, at, who, action, subject, why, seal"
CHARGE_COLUMNS = (
    "workflow_id, node_id, checkpoint_id, tool_name, input_hash, meter, call_id, at, amount, "
    "if_failed, seal"
)
HOLDER_COLUMNS = "holder_id, host, machine_id, boot_id, pid_namespace, pid, pid_started, since"
LOCKING_HOLDER_COLUMNS = HOLDER_COLUMNS + ", lock_file"
"""Of the stores whose holders prove their life by a lock on a file."""

Row = Sequence[Any]
_REST_OF_A_ROW = CallRow._fields.index("started_at") + 1
_NOTHING_MORE = tuple(CallRow._field_defaults.values())
NOT_SEALED: Final = None
"""The last column of every row, until somebody who has a key seals it (sealing.py)."""
_NOT_NUMBERED: Final = (0, 1)
UNREADABLE = (*NOT_WRITTEN, LedgerCorrupt)
"""What reading a value raises that nottwice cannot have written."""

_check_call = check_of(
    CALL_COLUMNS,
    optional="finished_at retry_at label idempotency_key key_since window_seconds trace_id "
    "settled_by result_kind result_json failure_json past_json parent_call_id",
)
_check_run = check_of(
    RUN_COLUMNS,
    optional="holder_id claimed_at failure_json graph_id input_json parent_id root_id origin "
    "waits_json wake_at",
)
_check_step = check_of(STEP_COLUMNS, optional="finished_at failure_json output_file")
_check_review = check_of(REVIEW_COLUMNS, optional="decision_json closed_by closed_at about_json")
_check_evidence = check_of(EVIDENCE_COLUMNS, optional="result_kind result_json")
_check_audit = check_of(AUDIT_COLUMNS)
_check_charge = check_of(CHARGE_COLUMNS)
_check_holder = check_of(HOLDER_COLUMNS)
_check_locking_holder = check_of(LOCKING_HOLDER_COLUMNS, optional="lock_file")


def micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000)


def _seconds(stored: int | None) -> float | None:
    return None if stored is None else stored / 1_000_000


def call_to_sql(row: CallRow) -> tuple[Any, ...]:
    result = row.result
    return (
        *row.identity,
        micros(row.created_at),
        row.call_id,
        row.status._value_,
        row.replay_class._value_,
        row.attempt,
        row.attempt_id,
        row.holder_id,
        micros(row.started_at),
        _micros(row.finished_at),
        _micros(row.retry_at),
        int(row.ambiguous),
        row.label,
        row.key,
        _micros(row.key_since),
        row.window_seconds,
        row.trace_id,
        row.settled_by,
        None if result is None else result.kind._value_,
        row.args_json,
        None if result is None else result.json,
        failure_to_sql(row.failure),
        _past_to_sql(row),
        row.parent_call_id,
        *_NOT_NUMBERED,
        NOT_SEALED,
    )


# The two below are in every call, and so is the one above if there is a key. They take the value of
# an enumeration from where it is: its property ``value`` is two more calls of Python.


def intent_to_sql(row: CallRow) -> tuple[Any, ...] | None:
    """The same for a row that says no more than INTENT_COLUMNS can; None: it says more."""
    if row[_REST_OF_A_ROW:] != _NOTHING_MORE:
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


def receipt_to_sql(row: CallRow) -> tuple[Any, ...] | None:
    """What a receipt changes about the intent of its own attempt, and then what finds it.

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


def call_changes_to_sql(row: CallRow) -> tuple[Any, ...]:
    """What may change about a stored call, and then what finds it."""
    result = row.result
    return (
        row.status.value,
        row.attempt,
        row.attempt_id,
        row.holder_id,
        micros(row.started_at),
        _micros(row.finished_at),
        None if result is None else result.json,
        None if result is None else result.kind.value,
        failure_to_sql(row.failure),
        _micros(row.retry_at),
        int(row.ambiguous),
        row.settled_by,
        _past_to_sql(row),
        *row.identity,
    )


def call_from_sql(row: Row) -> CallRow:
    try:
        _check_call(row)
        return CallRow(
            identity=CallIdentity(*row[:5]),
            created_at=row[5] / 1_000_000,
            call_id=row[6],
            status=CallStatus(row[7]),
            replay_class=ReplayClass(row[8]),
            attempt=row[9],
            attempt_id=row[10],
            holder_id=row[11],
            started_at=row[12] / 1_000_000,
            finished_at=_seconds(row[13]),
            retry_at=_seconds(row[14]),
            ambiguous=bool(row[15]),
            label=row[16],
            key=row[17],
            key_since=_seconds(row[18]),
            window_seconds=row[19],
            trace_id=row[20],
            settled_by=row[21],
            result=_result(row[22], row[24]),
            args_json=row[23],
            failure=_failure(row[25]),
            past=_past(row[26]),
            parent_call_id=row[27],
        )
    except UNREADABLE as error:
        raise corrupt("a call", row[:5], error) from error


def place_to_sql(workflow_id: str, node_id: str, visit: str | None) -> tuple[str, ...]:
    """What a query asks for that looks for the calls under a node, of all visits or of one."""
    place = (workflow_id, node_id, node_id + "\U0010ffff")
    # Behind "/" comes "0": all that begins with the visit and a "/".
    return place if visit is None else (*place, visit, visit + "/", visit + "0")


def calls_inside(found: Sequence[Row], node_id: str) -> list[CallRow]:
    """Of what such a query has found, all that lies in the node and not beside it."""
    inside = (node_id + "/", node_id + "[")
    return [call_from_sql(row) for row in found if row[1] == node_id or row[1].startswith(inside)]


def run_to_sql(run: RunRecord) -> tuple[Any, ...]:
    return (
        run.workflow_id,
        run.status.value,
        run.epoch,
        run.holder_id,
        micros(run.created_at),
        micros(run.updated_at),
        _micros(run.claimed_at),
        failure_to_sql(run.failure),
        run.graph_id,
        run.input_json,
        run.parent_id,
        run.root_id,
        run.origin,
        *waits_to_sql(run.waits),
        NOT_SEALED,
    )


def waits_to_sql(waits: Sequence[Wait]) -> tuple[str | None, int | None]:
    """What a run waits for, and when the first of it ends by itself."""
    if not waits:
        return None, None
    wake_at = min((wait.until for wait in waits if wait.until is not None), default=None)
    return values.encode([wait.to_plain() for wait in waits]), _micros(wake_at)


def run_from_sql(row: Row) -> RunRecord:
    try:
        _check_run(row)
        return RunRecord(
            workflow_id=row[0],
            status=RunStatus(row[1]),
            epoch=row[2],
            holder_id=row[3],
            created_at=row[4] / 1_000_000,
            updated_at=row[5] / 1_000_000,
            claimed_at=_seconds(row[6]),
            failure=_failure(row[7]),
            graph_id=row[8],
            input_json=row[9],
            parent_id=row[10],
            root_id=row[11],
            origin=row[12],
            waits=() if row[13] is None else tuple(map(Wait.from_plain, values.decode(row[13]))),
        )
    except UNREADABLE as error:
        raise corrupt("a run", row[:1], error) from error


def run_count_from_sql(row: Row) -> RunCount:
    try:
        return RunCount(RunStatus(row[0]), *row[1:])
    except UNREADABLE as error:
        raise corrupt("a run", row[:1], error) from error


def step_to_sql(step: StepRecord) -> tuple[Any, ...]:
    return (
        step.workflow_id,
        step.node_id,
        step.checkpoint_id,
        step.status.value,
        step.ordinal,
        micros(step.started_at),
        _micros(step.finished_at),
        failure_to_sql(step.failure),
        step.output_file,
        NOT_SEALED,
    )


def step_from_sql(row: Row) -> StepRecord:
    try:
        _check_step(row)
        return StepRecord(
            workflow_id=row[0],
            node_id=row[1],
            checkpoint_id=row[2],
            status=StepStatus(row[3]),
            ordinal=row[4],
            started_at=row[5] / 1_000_000,
            finished_at=_seconds(row[6]),
            failure=_failure(row[7]),
            output_file=row[8],
        )
    except UNREADABLE as error:
        raise corrupt("a step", row[:3], error) from error


def standing_from_sql(found: Sequence[Row]) -> Standing:
    """What there is to look at, from a query that finds it out."""
    if not found:
        return Standing()
    in_doubt, reviews, events, ledger_audit, ordinal = found[0]
    if type(ordinal) is not int:
        raise corrupt("a step", (), TypeError(f"ordinal is {type(ordinal).__name__}"))
    return Standing(bool(in_doubt), bool(reviews), bool(events), bool(ledger_audit), ordinal)


def review_to_sql(review: Review) -> tuple[Any, ...]:
    identity = review.identity
    return (
        identity.workflow_id,
        review.review_id,
        review.kind.value,
        review.status.value,
        identity.node_id,
        identity.checkpoint_id,
        identity.tool_name,
        identity.input_hash,
        review.call_id,
        review.attempt_id,
        review.summary,
        micros(review.opened_at),
        review.version,
        _decision_to_sql(review.decision),
        review.closed_by,
        _micros(review.closed_at),
        review.about,
        NOT_SEALED,
    )


def review_from_sql(row: Row) -> Review:
    try:
        _check_review(row)
        status = ReviewStatus(row[3])
        if row[13] is None and status in (ReviewStatus.DECIDED, ReviewStatus.USED):
            raise TypeError(f"it is {status.value}, and nobody has decided anything")
        return Review(
            review_id=row[1],
            kind=ReviewKind(row[2]),
            status=status,
            identity=CallIdentity(row[0], *row[4:8]),
            call_id=row[8],
            attempt_id=row[9],
            summary=row[10],
            opened_at=row[11] / 1_000_000,
            version=row[12],
            decision=_decision_from_sql(row[13]),
            closed_by=row[14],
            closed_at=_seconds(row[15]),
            about=row[16],
        )
    except UNREADABLE as error:
        raise corrupt("a review", row[:2], error) from error


def evidence_to_sql(item: Evidence) -> tuple[Any, ...]:
    result = item.result
    return (
        item.workflow_id,
        item.call_id,
        item.attempt_id,
        micros(item.at),
        item.source,
        item.text,
        None if result is None else result.kind.value,
        None if result is None else result.json,
        NOT_SEALED,
    )


def evidence_from_sql(row: Row) -> Evidence:
    try:
        _check_evidence(row)
        return Evidence(
            workflow_id=row[0],
            call_id=row[1],
            attempt_id=row[2],
            at=row[3] / 1_000_000,
            source=row[4],
            text=row[5],
            result=_result(row[6], row[7]),
        )
    except UNREADABLE as error:
        raise corrupt("evidence", row[:3], error) from error


def audit_to_sql(entry: AuditEntry) -> tuple[Any, ...]:
    return (
        entry.workflow_id,
        micros(entry.at),
        entry.who,
        entry.action,
        entry.subject,
        entry.why,
        NOT_SEALED,
    )


def audit_from_sql(row: Row) -> AuditEntry:
    try:
        _check_audit(row)
        return AuditEntry(row[0], row[1] / 1_000_000, *row[2:6])
    except UNREADABLE as error:
        raise corrupt("an audit entry", row[:1], error) from error


def charge_to_sql(charge: ChargeRecord) -> tuple[Any, ...]:
    return (
        *charge.identity,
        charge.meter,
        charge.call_id,
        micros(charge.at),
        charge.amount,
        int(charge.if_failed),
        NOT_SEALED,
    )


def charge_from_sql(row: Row) -> ChargeRecord:
    try:
        _check_charge(row)
        identity = CallIdentity(*row[:5])
        return ChargeRecord(
            meter=row[5],
            identity=identity,
            call_id=row[6],
            at=row[7] / 1_000_000,
            amount=row[8],
            if_failed=bool(row[9]),
        )
    except UNREADABLE as error:
        raise corrupt("a charge", row[:1], error) from error


def holder_to_sql(holder: HolderRecord) -> tuple[Any, ...]:
    return (
        holder.holder_id,
        holder.host,
        holder.machine_id,
        holder.boot_id,
        holder.pid_namespace,
        holder.pid,
        holder.pid_started,
        micros(holder.since),
    )


def holder_from_sql(row: Row) -> HolderRecord:
    try:
        _check_holder(row)
        return HolderRecord(
            holder_id=row[0],
            host=row[1],
            machine_id=row[2],
            boot_id=row[3],
            pid_namespace=row[4],
            pid=row[5],
            pid_started=row[6],
            since=row[7] / 1_000_000,
        )
    except UNREADABLE as error:
        raise corrupt("a holder", row[:1], error) from error


def locking_holder_to_sql(holder: HolderRecord) -> tuple[Any, ...]:
    return (*holder_to_sql(holder), holder.lock_file)


def locking_holder_from_sql(row: Row) -> HolderRecord:
    try:
        _check_locking_holder(row)
    except UNREADABLE as error:
        raise corrupt("a holder", row[:1], error) from error
    return replace(holder_from_sql(row), lock_file=row[8])


def _past(stored: str | None) -> tuple[PastAttempt, ...]:
    if stored is None:
        return ()
    return tuple(checked(PastAttempt(**past)) for past in values.decode(stored))


def _past_to_sql(row: CallRow) -> str | None:
    return values.encode([past.to_plain() for past in row.past]) if row.past else None


def failure_to_sql(failure: Failure | None) -> str | None:
    return None if failure is None else values.encode(failure.to_plain())


def _failure(stored: str | None) -> Failure | None:
    return None if stored is None else Failure.from_plain(values.decode(stored))


def _result(kind: str | None, stored: str | None) -> StoredResult | None:
    if kind is None and stored is None:
        return None
    if kind is None or not isinstance(stored, str):
        raise ValueError("a result without its kind, or a kind without its result")
    return StoredResult(ResultKind(kind), stored)


def _decision_to_sql(decision: Decision | None) -> str | None:
    if decision is None:
        return None
    result = decision.result
    return values.encode(
        {
            "verb": decision.verb.value,
            "by": decision.by,
            "why": decision.why,
            "at": decision.at,
            "result_kind": None if result is None else result.kind.value,
            "result_json": None if result is None else result.json,
            "holder_stopped": decision.holder_stopped,
        }
    )


def _decision_from_sql(stored: str | None) -> Decision | None:
    if stored is None:
        return None
    plain = values.decode(stored)
    decision = Decision(
        verb=Verb(plain["verb"]),
        by=plain["by"],
        why=plain["why"],
        at=plain["at"],
        result=_result(plain["result_kind"], plain["result_json"]),
        holder_stopped=plain["holder_stopped"],
    )
    return checked(decision)


def corrupt(what: str, where: Row, error: Exception) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"The ledger holds {what} that cannot be read ({error}) at {list(where)!r}. It was not "
        "believed and nothing was changed. Restore the ledger from a backup, or ask for help "
        "with this text."
    )
