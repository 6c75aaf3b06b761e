"""What does a ledger store? Every table, declared once: columns, types, key, what is sealed.

A new column needs a line here, a field of its record, and a migration for each SQL store (sql/).
Every statement that writes or reads whole rows, the documents of the JSON files, the checks and the
seals follow from it. The order of columns here is the order in a row; a database may have another.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from nottwice.model import values
from nottwice.model.call import (
    CallIdentity,
    CallRow,
    CallStatus,
    PastAttempt,
    ResultKind,
    StoredResult,
)
from nottwice.model.data.shapes import checked
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
    CheckpointRecord,
    EventRecord,
    GraphRecord,
    HolderRecord,
    RunRecord,
    RunStatus,
    StepRecord,
    StepStatus,
    Wait,
)
from nottwice.model.runs.labels import Tags
from nottwice.model.runs.notices import NoticeRecord
from nottwice.model.runs.openings import OpeningEnd, OpeningRecord
from nottwice.model.runs.workers import WorkerRecord
from nottwice.model.tools.tool_record import ToolRecord
from nottwice.store.table import Column, Field, Table, Type, field

EVER = -(1 << 62)
"""Earlier than any stored time."""


def micros(seconds: float) -> int:
    """A time as it is stored."""
    return round(seconds * 1_000_000)


def seconds(stored: int) -> float:
    """A stored time as records have it, in seconds."""
    return stored / 1_000_000


def _summable(stored: float) -> float:
    """A number whose sums are finite too."""
    if not abs(stored) < 1e100:
        raise ValueError(f"{stored} is not a number that is written here")
    return stored


# Kinds of columns


def _text(name: str, *, optional: bool = False) -> Field:
    return field(Column(name, Type.TEXT, optional))


def _json(name: str, attribute: str = "", *, optional: bool = False) -> Field:
    return field(Column(name, Type.JSON, optional), attribute)


def _number(name: str) -> Field:
    return field(Column(name, Type.NUMBER))


def _time(name: str, *, optional: bool = False) -> Field:
    return field(Column(name, Type.TIME, optional), write=micros, read=seconds)


def _flag(name: str) -> Field:
    return field(Column(name, Type.FLAG), write=int, read=bool)


def _choice(name: str, kind: type[enum.Enum]) -> Field:
    return field(Column(name), path=f"{name}._value_", read=kind)


def _choice_or_none(name: str, kind: type[enum.Enum]) -> Field:
    return field(Column(name, Type.TEXT, True), write=lambda chosen: chosen.value, read=kind)


def failure_json(failure: Failure | None) -> str | None:
    """A failure as it is stored."""
    return None if failure is None else values.encode(failure.to_plain())


def _failure() -> Field:
    def read(stored: str) -> Failure:
        return Failure.from_plain(values.decode(stored))

    column = Column("failure_json", Type.JSON, True)
    return field(column, "failure", write=failure_json, read=read)


def _identity() -> Field:
    names = CallIdentity._fields
    paths = tuple(f"identity.{name}" for name in names)
    columns = tuple(map(Column, names))
    return Field("identity", columns, paths, (None,) * len(names), CallIdentity)


def _result() -> Field:
    columns = Column("result_kind", Type.TEXT, True), Column("result_json", Type.JSON, True)
    writes = _result_kind, _result_json
    return Field("result", columns, ("result", "result"), writes, _read_result)


def _result_kind(result: StoredResult) -> str:
    return result.kind.value


def _result_json(result: StoredResult) -> str:
    return result.json


def _read_result(kind: str | None, stored: str | None) -> StoredResult | None:
    if kind is None and stored is None:
        return None
    if kind is None or not isinstance(stored, str):
        raise ValueError("a result without its kind, or a kind without its result")
    return StoredResult(ResultKind(kind), stored)


def _write_past(past: Sequence[PastAttempt]) -> str | None:
    return values.encode(list(map(_plain_past, past))) if past else None


def _plain_past(past: PastAttempt) -> dict[str, Any]:
    """Its times are as exact as those in columns, so that they can be compared with them."""
    times = {name: seconds(micros(getattr(past, name))) for name in ("started_at", "ended_at")}
    return {**past.to_plain(), **times}


def _read_past(stored: str) -> tuple[PastAttempt, ...]:
    return tuple(checked(PastAttempt(**past)) for past in values.decode(stored))


def _waits() -> Field:
    columns = Column("waits_json", Type.JSON, True), Column("wake_at", Type.TIME, True)
    return Field("waits", columns, ("waits", "wake_at"), (waits_json, micros), _read_waits)


def waits_json(waits: Sequence[Wait]) -> str | None:
    """What a run waits for, as it is stored."""
    return values.encode([wait.to_plain() for wait in waits]) if waits else None


def _read_waits(stored: str | None, wake_at: int | None) -> tuple[Wait, ...]:
    return () if stored is None else tuple(map(Wait.from_plain, values.decode(stored)))


def _tags() -> Field:
    column = Column("tags_json", Type.JSON, True)
    return field(column, "tags", write=_write_tags, read=_read_tags, empty=())


def _write_tags(tags: Tags) -> str | None:
    return values.encode(dict(tags)) if tags else None


def _read_tags(stored: str) -> Tags:
    plain = values.decode_object(stored)
    if not all(isinstance(value, str) for value in plain.values()):
        raise TypeError("the value of a tag is not text")
    return tuple(sorted(plain.items()))


def _write_names(names: Sequence[str]) -> str:
    return values.encode(list(names))


def _read_names(stored: str) -> tuple[str, ...]:
    names = values.decode(stored)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError("it is no list of names")
    return tuple(names)


def _write_decision(decision: Decision) -> str:
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


def _read_decision(stored: str) -> Decision:
    plain: dict[str, Any] = values.decode(stored)
    decision = Decision(
        verb=Verb(plain["verb"]),
        by=plain["by"],
        why=plain["why"],
        at=plain["at"],
        result=_read_result(plain["result_kind"], plain["result_json"]),
        holder_stopped=plain["holder_stopped"],
    )
    return checked(decision)


def _check_decided(review: Review) -> None:
    decided = review.status in (ReviewStatus.DECIDED, ReviewStatus.USED)
    if decided and review.decision is None:
        raise TypeError(f"it is {review.status.value}, but it has no decision")


# The tables


CALLS: Table[CallRow] = Table(
    "tool_call_results",
    "a call",
    CallRow,
    (
        _identity(),
        _time("created_at"),
        _text("call_id"),
        _choice("status", CallStatus),
        _choice("replay_class", ReplayClass),
        _number("attempt"),
        _text("attempt_id"),
        _text("holder_id"),
        _time("started_at"),
        _time("finished_at", optional=True),
        _time("retry_at", optional=True),
        _flag("ambiguous"),
        _text("label", optional=True),
        field(Column("idempotency_key", Type.TEXT, True), "key"),
        _time("key_since", optional=True),
        field(Column("window_seconds", Type.REAL, True), read=_summable),
        _text("trace_id", optional=True),
        _text("settled_by", optional=True),
        _json("args_json"),
        _result(),
        _failure(),
        field(
            Column("past_json", Type.JSON, True),
            "past",
            write=_write_past,
            read=_read_past,
            empty=(),
        ),
        _text("parent_call_id", optional=True),
    ),
    key=" ".join(CallIdentity._fields),
    # The position of a call within its run, and how often its row was written.
    numbers={"nth": 0, "writes": 1},
)
CHANGING = (
    "status attempt attempt_id holder_id started_at finished_at result_json result_kind "
    "failure_json retry_at ambiguous settled_by past_json"
).split()
"""What may change about a stored call: not its identity, key, class or arguments (P9)."""
RUNS: Table[RunRecord] = Table(
    "runs",
    "a run",
    RunRecord,
    (
        _text("workflow_id"),
        _choice("status", RunStatus),
        _number("epoch"),
        _text("holder_id", optional=True),
        _time("created_at"),
        _time("updated_at"),
        _time("claimed_at", optional=True),
        _failure(),
        _text("graph_id", optional=True),
        _json("input_json", optional=True),
        _text("parent_id", optional=True),
        _text("root_id", optional=True),
        _text("origin", optional=True),
        _waits(),
        _tags(),
        field(Column("group_id", Type.TEXT, True), "group"),
        _text("traceparent", optional=True),
    ),
    key="workflow_id",
    # Not the status, which can only delay a run. The end of a run is part of its head. And not the
    # trace, by which nottwice decides nothing.
    sealed="workflow_id created_at graph_id input_json parent_id root_id origin",
    sealed_if_any="tags_json group_id",
)
STEPS: Table[StepRecord] = Table(
    "steps",
    "a step",
    StepRecord,
    (
        _text("workflow_id"),
        _text("node_id"),
        _text("checkpoint_id"),
        _choice("status", StepStatus),
        _number("ordinal"),
        _time("started_at"),
        _time("finished_at", optional=True),
        _failure(),
        _text("output_file", optional=True),
    ),
    key="workflow_id node_id checkpoint_id",
    # Not its start and its ordinal: they never change, whichever process writes the step again.
    sealed="workflow_id node_id checkpoint_id status finished_at failure_json output_file",
)
REVIEWS: Table[Review] = Table(
    "reviews",
    "a review",
    Review,
    (
        _text("review_id"),
        _choice("kind", ReviewKind),
        _choice("status", ReviewStatus),
        _identity(),
        _text("call_id"),
        _text("attempt_id"),
        _text("summary"),
        _time("opened_at"),
        _number("version"),
        field(
            Column("decision_json", Type.JSON, True),
            "decision",
            write=_write_decision,
            read=_read_decision,
        ),
        _text("closed_by", optional=True),
        _time("closed_at", optional=True),
        _json("about_json", "about", optional=True),
        field(Column("group_id", Type.TEXT, True), "group"),
    ),
    key="workflow_id review_id",
    sealed_if_any="group_id",
    believable=_check_decided,
)
EVIDENCE: Table[Evidence] = Table(
    "evidence",
    "evidence",
    Evidence,
    (
        _text("workflow_id"),
        _text("call_id"),
        _text("attempt_id"),
        _time("at"),
        _text("source"),
        _text("text"),
        _result(),
    ),
    key="workflow_id call_id attempt_id at source text",
)
AUDIT: Table[AuditEntry] = Table(
    "audit",
    "an audit entry",
    AuditEntry,
    (
        _text("workflow_id"),
        _time("at"),
        _text("who"),
        _text("action"),
        _text("subject"),
        _text("why"),
    ),
    key="workflow_id at who action subject why",
)
CHARGES: Table[ChargeRecord] = Table(
    "charges",
    "a charge",
    ChargeRecord,
    (
        _identity(),
        _text("meter"),
        _text("call_id"),
        _time("at"),
        _number("amount"),
        _flag("if_failed"),
    ),
    key="meter call_id",
)
CHECKPOINTS: Table[CheckpointRecord] = Table(
    "checkpoints",
    "a checkpoint",
    CheckpointRecord,
    (
        _text("workflow_id"),
        _number("version"),
        _number("snapshot"),
        _text("node_id"),
        _time("created_at"),
        _json("state_json", "json"),
    ),
    key="workflow_id version",
)
EVENTS: Table[EventRecord] = Table(
    "events",
    "an event",
    EventRecord,
    (
        _text("workflow_id"),
        _text("event_id"),
        _text("name"),
        _json("event_json", "json"),
        _time("sent_at"),
        _text("sent_by"),
        _text("received_by", optional=True),
        _time("received_at", optional=True),
        _text("traceparent", optional=True),
    ),
    key="workflow_id event_id",
    sealed="workflow_id event_id name event_json sent_at sent_by received_by received_at",
)
GRAPHS: Table[GraphRecord] = Table(
    "graphs",
    "a graph",
    GraphRecord,
    (_text("graph_id"), _json("definition_json", "json"), _time("recorded_at")),
    key="graph_id",
)
HOLDERS: Table[HolderRecord] = Table(
    "holders",
    "a holder",
    HolderRecord,
    (
        _text("holder_id"),
        _text("host"),
        _text("machine_id"),
        _text("boot_id"),
        _text("pid_namespace"),
        _number("pid"),
        _text("pid_started"),
        _time("since"),
        _text("lock_file", optional=True),
    ),
    key="holder_id",
    sealed=None,
)
OPENINGS: Table[OpeningRecord] = Table(
    "openings",
    "an opening",
    OpeningRecord,
    (
        _text("workflow_id"),
        _number("epoch"),
        _text("holder_id"),
        _time("began_at"),
        _time("ended_at", optional=True),
        _choice_or_none("ended", OpeningEnd),
        field(Column("receipts", Type.NUMBER, True)),
        field(Column("duplicates", Type.NUMBER, True)),
        field(Column("tokens", Type.NUMBER, True)),
        field(Column("usd", Type.REAL, True), read=_summable),
        _text("traceparent", optional=True),
    ),
    key="workflow_id epoch",
    # They only inform, and nottwice decides nothing by them.
    sealed=None,
)
TOOLS: Table[ToolRecord] = Table(
    "tools",
    "a tool",
    ToolRecord,
    (
        _text("tool_name"),
        _choice("replay_class", ReplayClass),
        _time("recorded_at"),
        _text("summary", optional=True),
        _text("place", optional=True),
        _text("title", optional=True),
        _text("look", optional=True),
        _json("result_schema_json", "result_json", optional=True),
    ),
    key="tool_name",
)
OUTBOX: Table[NoticeRecord] = Table(
    "outbox",
    "a notice",
    NoticeRecord,
    (
        _text("notice_id"),
        _text("kind"),
        _text("workflow_id"),
        _time("created_at"),
        _json("payload_json"),
        _text("leased_by", optional=True),
        _time("leased_until", optional=True),
        _time("sent_at", optional=True),
        field(Column("tries", Type.NUMBER, True), empty=0),
        _text("problem", optional=True),
    ),
    key="notice_id",
    # They only inform, and nottwice decides nothing by them.
    sealed=None,
)
WORKERS: Table[WorkerRecord] = Table(
    "workers",
    "a worker",
    WorkerRecord,
    (
        _text("presence_id"),
        _text("holder_id"),
        field(Column("graphs_json", Type.JSON), "graphs", write=_write_names, read=_read_names),
        _number("concurrency"),
        _time("started_at"),
        _time("seen_at"),
    ),
    key="presence_id",
    # They only inform, and nottwice decides nothing by them.
    sealed=None,
)
OF_RUNS: tuple[Table[Any], ...] = (
    CALLS,
    STEPS,
    REVIEWS,
    EVIDENCE,
    AUDIT,
    CHARGES,
    CHECKPOINTS,
    EVENTS,
    OPENINGS,
    OUTBOX,
)
"""The tables whose rows belong to a run, besides the run's own record."""
ALL: tuple[Table[Any], ...] = (RUNS, *OF_RUNS, GRAPHS, TOOLS, HOLDERS, WORKERS)
