"""Do records become rows and records again, unchanged, and is an unreadable row refused?"""

from __future__ import annotations

import importlib.resources
import re
import sqlite3
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nottwice.errors import LedgerCorrupt
from nottwice.model.call import CallStatus, ResultKind, StoredResult
from nottwice.model.policy import ChargeRecord
from nottwice.model.replay_class import ReplayClass
from nottwice.model.review import ReviewKind, ReviewStatus, Verb
from nottwice.model.run import (
    CheckpointRecord,
    EventRecord,
    GraphRecord,
    HolderRecord,
    RunStatus,
    StepStatus,
    Wait,
    WaitKind,
)
from nottwice.model.runs.notices import NoticeRecord
from nottwice.model.runs.openings import OpeningEnd, OpeningRecord
from nottwice.model.runs.workers import WorkerRecord
from nottwice.model.tools.tool_record import ToolRecord
from nottwice.store import tables
from nottwice.store.sqlite.schema import read_scripts
from nottwice.store.table import Table
from tests.store.samples import (
    FAILURE,
    NOW,
    RESULT,
    audit,
    decision,
    evidence,
    full_call,
    identity,
    pending,
    review,
    run_record,
    step,
)

HOLDER = HolderRecord("id", "host", "machine", "boot", "pid:[1]", 42, "12345", NOW)
CHECKPOINT = CheckpointRecord("run", 3, 1, "node", "{}", NOW)
EVENT = EventRecord("run", "event-1", "paid", "{}", NOW, "ann")
KINDS: dict[str, tuple[Table[Any], list[Any]]] = {
    "call": (
        tables.CALLS,
        [
            pending(),
            full_call(),
            *(pending(status=status) for status in CallStatus),
            *(pending(replay_class=kind) for kind in ReplayClass),
            *(pending(result=StoredResult(kind, "[]")) for kind in ResultKind),
        ],
    ),
    "run": (
        tables.RUNS,
        [
            *(run_record(status=status) for status in RunStatus),
            run_record(waits=(Wait(WaitKind.TIMER, "rest", "/", NOW + 9),)),
            run_record(holder_id=None, claimed_at=None, failure=FAILURE),
            run_record(tags=(("a", "b=c"), ("customer", "acme")), group="order-7"),
        ],
    ),
    "step": (
        tables.STEPS,
        [
            *(step(status=status) for status in StepStatus),
            step(finished_at=NOW + 1, failure=FAILURE, output_file="a.txt"),
        ],
    ),
    "review": (
        tables.REVIEWS,
        [
            *(review(status=status, decision=decision()) for status in ReviewStatus),
            review(status=ReviewStatus.OPEN),
            *(review(kind=kind) for kind in ReviewKind),
            *(review(decision=decision(verb)) for verb in Verb),
            review(decision=decision(Verb.HAPPENED, result=RESULT, holder_stopped=True)),
            review().closed("verify", now=NOW + 0.000001),
        ],
    ),
    "evidence": (tables.EVIDENCE, [evidence(), evidence(result=RESULT)]),
    "audit": (tables.AUDIT, [audit()]),
    "charge": (tables.CHARGES, [ChargeRecord("usd", identity(), "call", NOW, 7, if_failed=True)]),
    "checkpoint": (tables.CHECKPOINTS, [CHECKPOINT]),
    "event": (tables.EVENTS, [EVENT, replace(EVENT, received_by="c", received_at=NOW + 1)]),
    "graph": (tables.GRAPHS, [GraphRecord("graph@1", "{}", NOW)]),
    "opening": (
        tables.OPENINGS,
        [
            OpeningRecord("run", 1, "holder", NOW),
            *(OpeningRecord("run", 1, "h", NOW, NOW + 1, end, 3, 2, 70, 0.5) for end in OpeningEnd),
        ],
    ),
    "tool": (
        tables.TOOLS,
        [
            ToolRecord("mail", ReplayClass.PURE, NOW),
            ToolRecord("pay", ReplayClass.PURE, NOW, "a", "b", "c", "d", '{"e":1}'),
        ],
    ),
    "notice": (
        tables.OUTBOX,
        [
            NoticeRecord("1a2b", "run_over", "run", NOW, '{"status":"failed"}'),
            NoticeRecord("1a2b", "run_ready", "run", NOW, "{}", "sender", NOW + 9, NOW + 1),
        ],
    ),
    "worker": (
        tables.WORKERS,
        [
            WorkerRecord("w", "holder", (), 1, NOW, NOW + 1),
            WorkerRecord("w", "holder", ("refund@1.0.0", "mail@2.0.0"), 8, NOW, NOW),
        ],
    ),
    "holder": (tables.HOLDERS, [HOLDER, replace(HOLDER, lock_file="1:2")]),
}


def test_every_table_is_tried() -> None:
    assert {table for table, _ in KINDS.values()} == set(tables.ALL)


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_comes_back_equal(kind: str) -> None:
    table, records = KINDS[kind]
    for record in records:
        written = table.row(record)
        assert len(written) == len(table.names) == len(set(table.names))
        assert table.record(written) == record
    many = records * 20
    assert table.records(list(map(table.row, many))) == many


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_is_one_that_sqlite_keeps_as_it_is(kind: str) -> None:
    table, records = KINDS[kind]
    connection = sqlite3.connect(":memory:")
    for record in records:
        written = table.row(record)
        marks = ", ".join("?" * len(written))
        assert connection.execute("SELECT " + marks, written).fetchone() == written
    connection.close()


def test_what_may_change_about_a_call_leaves_out_what_identifies_it() -> None:
    fixed = "created_at call_id replay_class args_json label idempotency_key key_since trace_id"
    assert set(tables.CHANGING) <= set(tables.CALLS.names)
    assert not set(tables.CHANGING) & {*tables.CALLS.key, *fixed.split(), "parent_call_id"}


@given(st.floats(min_value=0, max_value=4_102_444_800))
def test_a_time_is_kept_to_the_microsecond_and_then_exactly(at: float) -> None:
    kept = tables.CALLS.record(tables.CALLS.row(pending(created_at=at))).created_at
    assert abs(kept - at) <= 0.000_001
    again = tables.CALLS.record(tables.CALLS.row(pending(created_at=kept))).created_at
    assert again == kept


@given(st.floats(min_value=NOW, max_value=NOW + 1))
def test_an_attempt_that_ended_when_the_next_began_comes_back_with_the_same_time(at: float) -> None:
    retried = pending().next_attempt(attempt_id="attempt-2", holder_id="holder-2", now=at)
    kept = tables.CALLS.record(tables.CALLS.row(retried))
    assert kept.past[-1].ended_at == kept.started_at


def spoiled(kind: str, column: str, value: Any) -> tuple[Any, ...]:
    table, records = KINDS[kind]
    record = full_call() if kind == "call" else records[-1]
    return table.changed(table.row(record), **{column: value})


SPOILED = [
    ("call", "status", "MAYBE"),
    ("call", "status", None),
    ("call", "replay_class", "harmless"),
    ("call", "created_at", "yesterday"),
    ("call", "started_at", None),
    ("call", "finished_at", "later"),
    ("call", "result_kind", "code"),
    ("call", "result_kind", None),
    ("call", "result_json", None),
    ("call", "result_json", b"bytes"),
    ("call", "failure_json", "{}"),
    ("call", "failure_json", "not json"),
    ("call", "failure_json", "[1]"),
    ("call", "past_json", "[1]"),
    ("call", "past_json", "7"),
    ("call", "past_json", '[{"attempt":1}]'),
    ("call", "past_json", '[{"unknown":1}]'),
    ("run", "status", "asleep"),
    ("run", "created_at", "never"),
    ("run", "failure_json", "null"),
    ("step", "status", "half"),
    ("step", "started_at", b"x"),
    ("review", "kind", "whim"),
    ("review", "status", "shut"),
    ("review", "status", "decided"),
    ("review", "status", "used"),
    ("review", "decision_json", "{}"),
    ("review", "decision_json", "[]"),
    ("review", "decision_json", "7"),
    ("review", "decision_json", "nonsense"),
    ("review", "opened_at", None),
    ("evidence", "result_kind", "code"),
    ("evidence", "result_json", None),
    ("evidence", "at", "noon"),
    ("audit", "at", None),
    ("holder", "since", None),
    ("worker", "seen_at", None),
    ("worker", "graphs_json", "7"),
    ("worker", "graphs_json", "[7]"),
]


@pytest.mark.parametrize(("kind", "column", "value"), SPOILED)
def test_what_cannot_be_read_is_not_believed(kind: str, column: str, value: Any) -> None:
    table, records = KINDS[kind]
    row = spoiled(kind, column, value)
    with pytest.raises(LedgerCorrupt, match="not used"):
        table.record(row)
    with pytest.raises(LedgerCorrupt, match="not used"):
        table.records([*(table.row(records[0]) for _ in range(50)), row])


def test_the_refusal_says_where_to_look() -> None:
    with pytest.raises(LedgerCorrupt, match=r"a call .*'MAYBE'.*\['run', '/', 'start', 'send'"):
        tables.CALLS.record(spoiled("call", "status", "MAYBE"))


@pytest.mark.parametrize(
    ("number", "other"),
    [(0.0, 1e-9), (1e-6, 1e-6 + 1e-9)],
)
def test_two_records_are_the_same_if_a_ledger_would_show_the_same(
    number: float, other: float
) -> None:
    one, two = pending(created_at=NOW + number), pending(created_at=NOW + other)
    assert tables.CALLS.same(one, two)
    assert not tables.CALLS.same(one, pending(created_at=NOW + number + 0.001))
    assert not tables.CALLS.same(None, one)


SCHEMAS = {
    "sqlite": importlib.resources.files("nottwice.store") / "sql" / "sqlite",
    "postgres": importlib.resources.files("nottwice.store") / "sql" / "postgres",
}


@pytest.mark.parametrize("database", SCHEMAS)
def test_every_column_that_is_declared_is_in_the_schema(database: str) -> None:
    """A new column takes a migration of each SQL store."""
    scripts = [script.sql for script in read_scripts(SCHEMAS[database])]
    text = "\n".join(scripts)
    for table in tables.ALL:
        created = re.search(
            rf"CREATE TABLE (?:nottwice[._])?{table.name} \((.*?)\n\)", text, re.DOTALL
        )
        assert created is not None, table.name
        added = re.findall(rf"ALTER TABLE (?:nottwice[._])?{table.name}\s+ADD COLUMN (\w+)", text)
        known = {*re.findall(r"^  (\w+) ", created[1], re.MULTILINE), *added}
        # A lease proves the life of a holder on PostgreSQL.
        unknown = set(table.names) - known - ({"lock_file"} if database == "postgres" else set())
        assert not unknown, f"{table.name} of {database} lacks {unknown}"
