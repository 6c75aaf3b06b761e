"""Is every precondition read before the first write, and is the quick way the same as the long one?

What a commit does is in `test_conformance.py`; here it is how: which statements, and when.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from nottwice.errors import Fenced, KeyConflict
from nottwice.model.call import CallRow, CallStatus
from nottwice.model.review import Verb
from nottwice.model.run import Fence, RunStatus
from nottwice.store import rows
from nottwice.store.interface import (
    Blocked,
    CallWrite,
    Claim,
    Commit,
    Outdated,
    ReviewWrite,
    RunUpdate,
)
from nottwice.store.sealing import Sealing
from nottwice.store.sqlite.schema import bring_forward
from nottwice.store.sqlite.writes import INSERT_CALL, plan, quick
from tests.store.samples import (
    FAILURE,
    NOW,
    RESULT,
    audit,
    decision,
    evidence,
    follow,
    full_call,
    identity,
    intent,
    pending,
    review,
    run_record,
    step,
)

FENCE = Fence("holder", 1)
ROW = pending()
DONE = ROW.done(RESULT, now=NOW + 1)


def new_ledger() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    bring_forward(connection, "here")
    apply(connection, Commit(workflow_id="run", claim=Claim(run_record())))
    return connection


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(new_ledger()) as opened:
        yield opened


def apply(connection: sqlite3.Connection, commit: Commit) -> None:
    """The long way."""
    for sql, parameters in plan(connection, commit, Sealing(None)):
        connection.execute(sql, parameters)


def dump(connection: sqlite3.Connection) -> list[str]:
    return list(connection.iterdump())


EVERYTHING = Commit(
    workflow_id="run",
    fence=FENCE,
    run=RunUpdate(RunStatus.FAILED, NOW + 1, FAILURE, release=True),
    calls=(CallWrite(ROW), CallWrite(pending(identity(tool="other"), key="key", key_since=NOW))),
    steps=(step(),),
    reviews=(ReviewWrite(review()),),
    evidence=(evidence(),),
    audit=(audit(),),
)


def test_a_plan_writes_nothing_itself(connection: sqlite3.Connection) -> None:
    before, changes = dump(connection), connection.total_changes
    statements = plan(connection, EVERYTHING, Sealing(None))
    assert (dump(connection), connection.total_changes) == (before, changes)
    assert len(statements) == 7
    for sql, parameters in statements:
        connection.execute(sql, parameters)
    assert connection.total_changes == changes + 7


def refusals() -> dict[str, tuple[type[BaseException], Commit]]:
    """For every precondition a commit that breaks only this one, and would write before it."""
    one = CallWrite(pending(identity(tool="new")))

    def with_calls(*calls: CallWrite, **more: Any) -> Commit:
        return Commit(workflow_id="run", fence=FENCE, calls=(one, *calls), **more)

    stale = CallWrite(DONE, (CallStatus.UNKNOWN, "attempt-1"))
    keyed = pending(identity(arguments="2", tool="keyed"), key="key", key_since=NOW)
    decided = review().decided(decision())
    return {
        "epoch": (Fenced, replace(with_calls(), fence=Fence("holder", 2))),
        "holder": (Fenced, replace(with_calls(), fence=Fence("other", 1))),
        "open review": (Blocked, with_calls(unless_blocked=True)),
        "state of a call": (Outdated, with_calls(stale)),
        "missing call": (Outdated, with_calls(CallWrite(keyed, keyed.state))),
        "key": (KeyConflict, with_calls(CallWrite(keyed))),
        "version of a review": (Outdated, with_calls(reviews=(ReviewWrite(decided, 7),))),
        "claimed epoch": (
            Outdated,
            Commit(
                workflow_id="run",
                claim=Claim(run_record(epoch=9), 8),
                audit=(audit(),),
            ),
        ),
    }


@pytest.mark.parametrize("precondition", refusals())
def test_every_precondition_is_read_before_the_first_write(
    connection: sqlite3.Connection, precondition: str
) -> None:
    apply(connection, intent(ROW, FENCE))
    apply(connection, intent(pending(identity(tool="keyed"), key="key"), FENCE))
    apply(connection, Commit(workflow_id="run", reviews=(ReviewWrite(review()),)))
    kind, commit = refusals()[precondition]
    before = dump(connection)
    with pytest.raises(kind):
        apply(connection, commit)
    assert dump(connection) == before


# The quick way


def test_an_effect_in_steady_state_takes_one_statement_at_each_end(
    connection: sqlite3.Connection,
) -> None:
    for commit in (intent(ROW, FENCE, unless_blocked=True), follow(DONE, ROW, FENCE)):
        statement = quick(commit)
        assert statement is not None
        assert connection.execute(*statement).rowcount == 1
    (found,) = connection.execute("SELECT " + rows.CALL_COLUMNS + " FROM tool_call_results")
    assert rows.call_from_sql(found) == DONE


@pytest.mark.parametrize("row", [ROW, full_call(), ROW.unknown(FAILURE, now=NOW)], ids=str)
def test_the_quick_way_writes_what_the_long_way_writes(row: Any) -> None:
    row = row._replace(key=None)
    after = row.next_attempt(attempt_id="attempt-9", holder_id="other", now=NOW + 5)
    commits = [intent(row, FENCE, unless_blocked=True), follow(after, row, FENCE)]
    with closing(new_ledger()) as quickly, closing(new_ledger()) as slowly:
        for commit in commits:
            statement = quick(commit)
            assert statement is not None
            assert quickly.execute(*statement).rowcount == 1
            apply(slowly, commit)
            assert dump(quickly) == dump(slowly)


SECOND = ROW.unknown(FAILURE, now=NOW).next_attempt(
    attempt_id="attempt-2", holder_id="other", now=NOW + 3
)


@pytest.mark.parametrize("intended", [ROW, SECOND, ROW._replace(label="again")], ids=str)
@pytest.mark.parametrize("before", list(CallStatus))
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"result": None},
        {"finished_at": None},
        {"settled_by": "verify"},
        {"failure": FAILURE},
        {"retry_at": NOW + 9},
        {"ambiguous": True},
        {"holder_id": "third"},
        {"attempt_id": "attempt-3"},
        {"status": CallStatus.UNKNOWN},
    ],
    ids=str,
)
def test_a_quick_receipt_leaves_the_row_that_the_long_way_leaves(
    intended: Any, before: CallStatus, change: dict[str, Any]
) -> None:
    """Whatever is not the receipt of this very attempt names all columns that may change."""
    intended = intended._replace(status=before)
    after = (
        intended._replace(status=CallStatus.PENDING).done(RESULT, now=NOW + 7)._replace(**change)
    )
    if before is CallStatus.PENDING and after.attempt_id == intended.attempt_id:
        # The same attempt: what an intent says about it cannot change any more.
        after = after._replace(holder_id=intended.holder_id, ambiguous=intended.ambiguous)
    with closing(new_ledger()) as quickly, closing(new_ledger()) as slowly:
        for ledger in (quickly, slowly):
            apply(ledger, intent(intended, FENCE))
        statement = quick(follow(after, intended, FENCE))
        assert statement is not None
        assert quickly.execute(*statement).rowcount == 1
        apply(slowly, follow(after, intended, FENCE))
        assert dump(quickly) == dump(slowly)


CAREFUL = intent(ROW, FENCE, unless_blocked=True)
RESULTING = follow(DONE, ROW, FENCE)


@pytest.mark.parametrize(
    "commit",
    [
        intent(ROW, FENCE),
        intent(ROW._replace(key="key"), FENCE, unless_blocked=True),
        replace(RESULTING, unless_blocked=True),
        replace(CAREFUL, calls=(*CAREFUL.calls, CallWrite(pending(identity(tool="other"))))),
        replace(CAREFUL, calls=()),
        *(
            replace(simple, **more)
            for simple in (CAREFUL, RESULTING)
            for more in (
                {"run": RunUpdate(RunStatus.RUNNING, NOW)},
                {"steps": (step(),)},
                {"reviews": (ReviewWrite(review()),)},
                {"evidence": (evidence(),)},
                {"audit": (audit(),)},
            )
        ),
    ],
    ids=lambda commit: f"{len(commit.calls)} {commit.unless_blocked}",
)
def test_whatever_carries_more_goes_the_long_way(commit: Commit) -> None:
    assert quick(commit) is None


@pytest.mark.parametrize("commit", [CAREFUL, RESULTING], ids=["intent", "result"])
@pytest.mark.parametrize("fence", [Fence("holder", 2), Fence("holder", 0), Fence("other", 1)])
def test_the_quick_way_writes_nothing_for_who_is_not_the_holder(
    connection: sqlite3.Connection, commit: Commit, fence: Fence
) -> None:
    if commit is RESULTING:
        apply(connection, intent(ROW, FENCE))
    assert no_row_changes(connection, replace(commit, fence=fence))


@pytest.mark.parametrize("other", [ROW, ROW._replace(attempt_id="other"), DONE], ids=str)
def test_the_quick_way_never_replaces_a_row(connection: sqlite3.Connection, other: Any) -> None:
    apply(connection, intent(other, FENCE))
    assert no_row_changes(connection, CAREFUL)


@pytest.mark.parametrize(
    "blocking",
    [review(), review().decided(decision()), review().decided(decision(Verb.ABORT))],
    ids=str,
)
def test_the_quick_way_starts_nothing_while_a_review_is_open(
    connection: sqlite3.Connection, blocking: Any
) -> None:
    apply(connection, Commit(workflow_id="run", reviews=(ReviewWrite(blocking),)))
    assert no_row_changes(connection, CAREFUL)


@pytest.mark.parametrize(
    "stored",
    [None, DONE, ROW.unknown(FAILURE, now=NOW), ROW._replace(attempt_id="other")],
    ids=str,
)
def test_the_quick_way_follows_only_what_its_writer_saw(
    connection: sqlite3.Connection, stored: Any
) -> None:
    if stored is not None:
        apply(connection, intent(stored, FENCE))
    assert no_row_changes(connection, RESULTING)


@pytest.mark.parametrize("axis", range(5))
def test_the_quick_way_looks_at_all_five_axes(connection: sqlite3.Connection, axis: int) -> None:
    """A row that differs in one axis only is another row."""
    name = ROW.identity._fields[axis]
    other = ROW._replace(identity=ROW.identity._replace(**{name: "other"}))
    connection.execute(INSERT_CALL, rows.call_to_sql(other))
    assert no_row_changes(connection, RESULTING)
    statement = quick(CAREFUL)
    assert statement is not None
    assert connection.execute(*statement).rowcount == 1


def no_row_changes(connection: sqlite3.Connection, commit: Commit) -> bool:
    statement = quick(commit)
    assert statement is not None
    before = dump(connection)
    return connection.execute(*statement).rowcount == 0 and dump(connection) == before


# Calls in doubt are looked for among the calls since the first that may be


def commit_as_a_store_does(connection: sqlite3.Connection, commit: Commit) -> None:
    statement = quick(commit)
    if statement is None or connection.execute(*statement).rowcount != 1:
        apply(connection, commit)


def in_doubt_from(connection: sqlite3.Connection) -> int:
    found: int = connection.execute("SELECT in_doubt_from FROM runs").fetchone()[0]
    return found


def first_in_doubt(connection: sqlite3.Connection) -> int | None:
    query = "SELECT min(created_at) FROM tool_call_results WHERE status IN ('PENDING', 'UNKNOWN')"
    found: int | None = connection.execute(query).fetchone()[0]
    return found


@pytest.mark.parametrize("seed", range(20))
def test_no_call_in_doubt_was_created_before_doubt_begins(
    connection: sqlite3.Connection, seed: int
) -> None:
    """Whatever happens to calls, in whatever order, and wherever the clock jumps."""
    chance, now, moved = random.Random(seed), NOW, set()
    known: dict[str, CallRow] = {}
    for number in range(150):
        now += chance.choice((1, 1, 1, 0, -40))
        row = chance.choice([*known.values(), None, None])
        if row is None:
            call_id = chance.choice(("00", "11")) + str(number)
            row = pending(identity(arguments=str(number)), call_id=call_id, created_at=now)
            row = chance.choice((row, row, row, row.done(RESULT, now=now)))
            commit = intent(row, FENCE, unless_blocked=chance.random() < 0.8)
            if chance.random() < 0.3:
                other = identity(arguments=f"{number}b")
                older = pending(other, created_at=now - chance.choice((0, 1, 30)))
                known[other.input_hash] = older
                commit = replace(commit, calls=(*commit.calls, CallWrite(older)))
        else:
            again = f"attempt-{number}"
            after = chance.choice(
                [row.done(RESULT, now=now)] * 3
                + [row.unknown(FAILURE, now=now), row.failed(FAILURE, now=now)]
                + [row.next_attempt(attempt_id=again, holder_id="holder", now=now)]
            )
            commit = follow(after, row, FENCE, unless_blocked=chance.random() < 0.5)
            row = after
        commit_as_a_store_does(connection, commit)
        known[row.identity.input_hash] = row
        moved.add(in_doubt_from(connection))
        first = first_in_doubt(connection)
        assert first is None or in_doubt_from(connection) <= first
    assert len(moved) > 3, "it never moved"


def test_a_claim_does_not_forget_where_doubt_begins(connection: sqlite3.Connection) -> None:
    row = pending(call_id="00a").done(RESULT, now=NOW)
    apply(connection, intent(row, FENCE))
    assert in_doubt_from(connection) == rows.micros(NOW)
    apply(connection, Commit(workflow_id="run", claim=Claim(run_record(epoch=2), 1)))
    assert in_doubt_from(connection) == rows.micros(NOW)


def test_doubt_begins_not_long_before_the_newest_call_of_a_long_run(
    connection: sqlite3.Connection,
) -> None:
    """Calls have real ids here: one in 256 of them looks."""
    for number in range(3000):
        row = pending(identity(arguments=str(number)), created_at=NOW + number)
        commit_as_a_store_does(connection, intent(row, FENCE, unless_blocked=True))
        commit_as_a_store_does(connection, follow(row.done(RESULT, now=NOW), row, FENCE))
    assert in_doubt_from(connection) > rows.micros(NOW + 1500)
