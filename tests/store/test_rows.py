"""Do records survive the way to SQL and back unchanged, and is what cannot be read not believed?"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nottwice.errors import LedgerCorrupt
from nottwice.model.call import CallStatus, ResultKind, StoredResult
from nottwice.model.replay_class import ReplayClass
from nottwice.model.review import ReviewKind, ReviewStatus, Verb
from nottwice.model.run import HolderRecord, RunStatus, StepStatus
from nottwice.store import rows
from tests.store.samples import (
    FAILURE,
    NOW,
    RESULT,
    audit,
    decision,
    evidence,
    full_call,
    pending,
    review,
    run_record,
    step,
)

HOLDER = HolderRecord("id", "host", "machine", "boot", "pid:[1]", 42, "12345", NOW)
Maker = Callable[[Any], Any]
KINDS: dict[str, tuple[Maker, Maker, str, list[Any]]] = {
    "call": (
        rows.call_to_sql,
        rows.call_from_sql,
        rows.CALL_COLUMNS,
        [
            pending(),
            full_call(),
            *(pending(status=status) for status in CallStatus),
            *(pending(replay_class=kind) for kind in ReplayClass),
            *(pending(result=StoredResult(kind, "[]")) for kind in ResultKind),
        ],
    ),
    "run": (
        rows.run_to_sql,
        rows.run_from_sql,
        rows.RUN_COLUMNS,
        [
            *(run_record(status=status) for status in RunStatus),
            run_record(holder_id=None, claimed_at=None, failure=FAILURE),
        ],
    ),
    "step": (
        rows.step_to_sql,
        rows.step_from_sql,
        rows.STEP_COLUMNS,
        [
            *(step(status=status) for status in StepStatus),
            step(finished_at=NOW + 1, failure=FAILURE),
        ],
    ),
    "review": (
        rows.review_to_sql,
        rows.review_from_sql,
        rows.REVIEW_COLUMNS,
        [
            *(review(status=status, decision=decision()) for status in ReviewStatus),
            review(status=ReviewStatus.OPEN),
            *(review(kind=kind) for kind in ReviewKind),
            *(review(decision=decision(verb)) for verb in Verb),
            review(decision=decision(Verb.HAPPENED, result=RESULT, holder_stopped=True)),
            review().closed("verify", now=NOW + 0.000001),
        ],
    ),
    "evidence": (
        rows.evidence_to_sql,
        rows.evidence_from_sql,
        rows.EVIDENCE_COLUMNS,
        [evidence(), evidence(result=RESULT)],
    ),
    "audit": (rows.audit_to_sql, rows.audit_from_sql, rows.AUDIT_COLUMNS, [audit()]),
    "holder": (rows.holder_to_sql, rows.holder_from_sql, rows.HOLDER_COLUMNS, [HOLDER]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_comes_back_equal(kind: str) -> None:
    to_sql, from_sql, columns, records = KINDS[kind]
    for record in records:
        written = to_sql(record)
        assert len(written) == len(columns.split(","))
        assert from_sql(written) == record


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_is_one_that_sqlite_keeps_as_it_is(kind: str) -> None:
    to_sql, _, _, records = KINDS[kind]
    connection = sqlite3.connect(":memory:")
    for record in records:
        written = to_sql(record)
        marks = ", ".join("?" * len(written))
        assert connection.execute("SELECT " + marks, written).fetchone() == written
    connection.close()


def test_what_may_change_about_a_call_leaves_out_what_identifies_it() -> None:
    row = full_call()
    changes = rows.call_changes_to_sql(row)
    assert changes[-5:] == row.identity
    stored = dict(zip(rows.CALL_COLUMNS.split(", "), rows.call_to_sql(row), strict=True))
    fixed = "created_at call_id replay_class args_json label idempotency_key key_since trace_id"
    for name in fixed.split():
        assert stored[name] not in changes[:-5], name


@given(st.floats(min_value=0, max_value=4_102_444_800))
def test_a_time_is_kept_to_the_microsecond_and_then_exactly(seconds: float) -> None:
    kept = rows.call_from_sql(rows.call_to_sql(pending(created_at=seconds))).created_at
    assert abs(kept - seconds) <= 0.000_001
    again = rows.call_from_sql(rows.call_to_sql(pending(created_at=kept))).created_at
    assert again == kept


def spoiled(kind: str, column: str, value: Any) -> tuple[Any, ...]:
    to_sql, _, columns, records = KINDS[kind]
    record = full_call() if kind == "call" else records[-1]
    names = columns.split(", ")
    written = list(to_sql(record))
    written[names.index(column)] = value
    return tuple(written)


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
]


@pytest.mark.parametrize(("kind", "column", "value"), SPOILED)
def test_what_cannot_be_read_is_not_believed(kind: str, column: str, value: Any) -> None:
    from_sql = KINDS[kind][1]
    with pytest.raises(LedgerCorrupt, match="not believed"):
        from_sql(spoiled(kind, column, value))


def test_the_refusal_says_where_to_look() -> None:
    with pytest.raises(LedgerCorrupt, match=r"a call .*'MAYBE'.*\['run', '/', 'start', 'send'"):
        rows.call_from_sql(spoiled("call", "status", "MAYBE"))
