"""Is every precondition read before the first write, and where do calls in doubt begin?

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

from nottwice.errors import KeyConflict, OwnershipLost
from nottwice.model.call import CallRow, CallStatus
from nottwice.model.run import Fence, RunStatus
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
from nottwice.store.sqlite.plan import decide
from nottwice.store.sqlite.quick import quick
from nottwice.store.sqlite.statements import SQL
from nottwice.store.tables import micros
from tests.store.samples import (
    FAILURE,
    NOW,
    RESULT,
    audit,
    decision,
    evidence,
    follow,
    identity,
    intent,
    pending,
    review,
    run_record,
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
    outcome, statements = decide(connection, EVERYTHING, Sealing(None, location="agent.db"))
    assert outcome is None
    assert (dump(connection), connection.total_changes) == (before, changes)
    assert len(statements) == 11
    for name, parameters in statements:
        connection.execute(SQL[name], parameters)
    assert connection.total_changes == changes + 10


def refusals() -> dict[str, tuple[type[BaseException], Commit]]:
    """For every precondition a commit that breaks only this one, and would write before it."""
    one = CallWrite(pending(identity(tool="new")))

    def with_calls(*calls: CallWrite, **more: Any) -> Commit:
        return Commit(workflow_id="run", fence=FENCE, calls=(one, *calls), **more)

    stale = CallWrite(DONE, (CallStatus.UNKNOWN, "attempt-1"))
    keyed = pending(identity(arguments="2", tool="keyed"), key="key", key_since=NOW)
    decided = review().decided(decision())
    return {
        "epoch": (OwnershipLost, replace(with_calls(), fence=Fence("holder", 2))),
        "holder": (OwnershipLost, replace(with_calls(), fence=Fence("other", 1))),
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


# Calls in doubt are looked for among the calls since the first that may be


def commit_as_a_store_does(connection: sqlite3.Connection, commit: Commit) -> None:
    statement = quick(commit)
    if statement is None or connection.execute(*statement).rowcount != 1:
        apply(connection, commit)


def in_doubt_from(connection: sqlite3.Connection) -> int:
    found: int = connection.execute("SELECT in_doubt_from FROM nottwice_runs").fetchone()[0]
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
    assert in_doubt_from(connection) == micros(NOW)
    apply(connection, Commit(workflow_id="run", claim=Claim(run_record(epoch=2), 1)))
    assert in_doubt_from(connection) == micros(NOW)


def test_doubt_begins_not_long_before_the_newest_call_of_a_long_run(
    connection: sqlite3.Connection,
) -> None:
    """Calls have real ids here: one in 256 of them looks."""
    for number in range(3000):
        row = pending(identity(arguments=str(number)), created_at=NOW + number)
        commit_as_a_store_does(connection, intent(row, FENCE, unless_blocked=True))
        commit_as_a_store_does(connection, follow(row.done(RESULT, now=NOW), row, FENCE))
    assert in_doubt_from(connection) > micros(NOW + 1500)
