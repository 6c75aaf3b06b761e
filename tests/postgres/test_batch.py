"""Is what many runs commit together the same as what each commits alone? (P5, P6)"""

from __future__ import annotations

import pytest

from nottwice.errors import OwnershipLost, StoreError
from nottwice.model.call import CallRow, CallStatus
from nottwice.model.run import Fence
from nottwice.store.interface import Blocked, Commit, Outdated, ReviewWrite
from nottwice.store.memory import MemoryStore
from nottwice.store.postgres.batch import arrange
from nottwice.store.postgres.store import PostgresStore
from nottwice.testing.conformance.bench import everything
from tests.store.samples import (
    NOW,
    RESULT,
    claim,
    follow,
    identity,
    intent,
    note,
    pending,
    review,
    step,
)

RUNS = tuple(f"run {number}" for number in range(7))


def row_of(run: str, arguments: str = "1") -> CallRow:
    return pending(identity(run, arguments=arguments), attempt_id=f"{run} {arguments}")


def together(store: PostgresStore, commits: list[Commit]) -> list[str]:
    """What each is told when they are committed in one batch."""
    return [type(told).__name__ for told in store._commits.commit_many(commits)]


def test_intents_of_many_runs_are_one_statement_and_so_are_receipts(ledger: PostgresStore) -> None:
    fences = {run: claim(ledger, run) for run in RUNS}
    first = [intent(row_of(run), fences[run], unless_blocked=True) for run in RUNS]
    assert len(arrange(first)[0]) == 1
    assert together(ledger, first) == ["NoneType"] * 7
    receipts = [
        follow(row_of(run).done(RESULT, now=NOW + 1), row_of(run), fences[run]) for run in RUNS
    ]
    more = [intent(row_of(run, "2"), fences[run], unless_blocked=True) for run in RUNS]
    assert len(arrange([*receipts, *more])[0]) == 2
    assert together(ledger, [*receipts, *more, note(1, RUNS[0])]) == ["NoneType"] * 15
    for run in RUNS:
        rows = [row_of(run).done(RESULT, now=NOW + 1), row_of(run, "2")]
        assert ledger.calls(run) == rows
    # Repeating all of it changes nothing, and is success.
    before = [everything(ledger, run) for run in RUNS]
    assert together(ledger, [*receipts, *more]) == ["NoneType"] * 14
    assert [everything(ledger, run) for run in RUNS] == before


def test_each_member_is_judged_by_itself(ledger: PostgresStore) -> None:
    fences = {run: claim(ledger, run) for run in RUNS}
    known = row_of(RUNS[2])
    ledger.commit(intent(known, fences[RUNS[2]]))
    ledger.commit(Commit(workflow_id=RUNS[3], reviews=(ReviewWrite(review(run=RUNS[3])),)))
    claim(ledger, RUNS[4], after=ledger.load_run(RUNS[4]))
    fences[RUNS[1]] = Fence("somebody", 1)
    other = known._replace(attempt_id="another attempt")
    rows = {run: row_of(run) for run in RUNS} | {RUNS[2]: other}
    commits = [intent(rows[run], fences[run], unless_blocked=True) for run in RUNS]
    heard = together(ledger, commits)
    refused = {1: OwnershipLost, 2: Outdated, 3: Blocked, 4: OwnershipLost}
    assert heard == [refused.get(n, type(None)).__name__ for n in range(7)]
    assert [len(ledger.calls(run)) for run in RUNS] == [1, 0, 1, 0, 0, 1, 1]
    assert ledger.calls(RUNS[2]) == [known]


def test_of_two_alike_in_one_batch_only_a_repetition_is_believed(ledger: PostgresStore) -> None:
    fence, other = claim(ledger, RUNS[0]), claim(ledger, RUNS[1])
    row = row_of(RUNS[0])
    changed = row._replace(args_json='{"to":"bob"}')
    commits = [
        intent(row, fence, unless_blocked=True),
        intent(row_of(RUNS[1]), other, unless_blocked=True),
        intent(row, fence, unless_blocked=True),
        intent(changed, fence, unless_blocked=True),
        intent(row._replace(attempt_id="other"), fence, unless_blocked=True),
    ]
    wanted = ["NoneType", "NoneType", "NoneType", "Outdated", "Outdated"]
    assert together(ledger, commits) == wanted
    assert ledger.calls(RUNS[0]) == [row]


def test_a_receipt_in_a_batch_follows_only_its_own_attempt(ledger: PostgresStore) -> None:
    fences = {run: claim(ledger, run) for run in RUNS[:3]}
    for run in fences:
        ledger.commit(intent(row_of(run), fences[run]))
    stale = row_of(RUNS[1])._replace(attempt_id="stale")
    results = [
        follow(row_of(RUNS[0]).done(RESULT, now=NOW), row_of(RUNS[0]), fences[RUNS[0]]),
        follow(stale.done(RESULT, now=NOW), stale, fences[RUNS[1]]),
        follow(row_of(RUNS[2]).done(RESULT, now=NOW), row_of(RUNS[2]), Fence("no", 1)),
    ]
    assert together(ledger, results) == ["NoneType", "Outdated", "OwnershipLost"]
    shown = [ledger.calls(run)[0].status for run in RUNS[:3]]
    assert shown == [CallStatus.DONE, CallStatus.PENDING, CallStatus.PENDING]


def test_a_member_that_the_database_refuses_does_not_spoil_the_others(
    ledger: PostgresStore,
) -> None:
    fences = {run: claim(ledger, run) for run in RUNS}
    commits = [intent(row_of(run), fences[run], unless_blocked=True) for run in RUNS]
    bad = row_of(RUNS[3])._replace(args_json="\ud800")
    commits[3] = intent(bad, fences[RUNS[3]], unless_blocked=True)
    heard = together(ledger, commits)
    assert heard == [StoreError.__name__ if n == 3 else "NoneType" for n in range(7)]
    assert [len(ledger.calls(run)) for run in RUNS] == [1, 1, 1, 0, 1, 1, 1]


@pytest.mark.parametrize("count", [1, 2, 40])
def test_batches_of_any_size_leave_what_a_plain_ledger_shows(
    ledger: PostgresStore, count: int
) -> None:
    plain = MemoryStore(now=NOW)
    shown = []
    for store in (plain, ledger):
        fences = {run: claim(store, run) for run in RUNS[:count]}
        commits = [
            intent(row_of(run, f"{number}"), fences[run], unless_blocked=True, steps=steps)
            for number in range(count)
            for run in fences
            for steps in [(step(run, f"{number}"),) if number % 3 == 0 else ()]
        ]
        if isinstance(store, PostgresStore):
            assert set(together(store, commits)) == {"NoneType"}
        else:
            for commit in commits:
                store.commit(commit)
        shown.append(
            {run: (sorted(store.calls(run)), len(store.steps(run))) for run in RUNS[:count]}
        )
    assert shown[0] == shown[1]
