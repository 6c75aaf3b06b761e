"""Does a quick commit write what the rules would write, and nothing where they refuse?"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from nottwice.model.call import CallStatus
from nottwice.model.review import Verb
from nottwice.model.run import Fence, RunStatus
from nottwice.store.interface import CallWrite, Commit, ReviewWrite, RunUpdate
from nottwice.store.sqlite.quick import quick
from nottwice.store.sqlite.statements import SQL
from nottwice.store.tables import CALLS
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
    step,
)
from tests.store.sqlite.ledgers import apply, dump, new_ledger

FENCE = Fence("holder", 1)
ROW = pending()
DONE = ROW.done(RESULT, now=NOW + 1)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(new_ledger()) as opened:
        yield opened


def test_an_effect_in_steady_state_takes_one_statement_at_each_end(
    connection: sqlite3.Connection,
) -> None:
    for commit in (intent(ROW, FENCE, unless_blocked=True), follow(DONE, ROW, FENCE)):
        statement = quick(commit)
        assert statement is not None
        assert connection.execute(*statement).rowcount == 1
    (found,) = connection.execute(SQL["call"], ROW.identity._asdict())
    assert CALLS.record(found) == DONE


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
    connection.execute(SQL["add_call"], CALLS.row(other))
    assert no_row_changes(connection, RESULTING)
    statement = quick(CAREFUL)
    assert statement is not None
    assert connection.execute(*statement).rowcount == 1


def no_row_changes(connection: sqlite3.Connection, commit: Commit) -> bool:
    statement = quick(commit)
    assert statement is not None
    before = dump(connection)
    return connection.execute(*statement).rowcount == 0 and dump(connection) == before
