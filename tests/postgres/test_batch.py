"""Is what many runs commit together the same as what each commits alone? (P5, P6)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import OwnershipLost, StoreError
from nottwice.model.call import CallRow, CallStatus
from nottwice.model.run import Fence
from nottwice.store.interface import Blocked, Claim, Commit, Outdated, ReviewWrite
from nottwice.store.memory import MemoryStore
from nottwice.store.postgres.batch import arrange
from nottwice.store.postgres.store import PostgresStore
from nottwice.testing.conformance.bench import everything
from tests.store.samples import (
    NOW,
    RESULT,
    claim,
    follow,
    graph,
    identity,
    intent,
    note,
    pending,
    review,
    run_record,
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


def enqueued(run: str, **more: Any) -> Commit:
    """The commit that enqueues a run."""
    found = {"epoch": 0, "holder_id": None, "claimed_at": None, "graph_id": "refund@1.0.0"}
    record = run_record(run, **found, input_json='{"a": "it\'s \\"\\\\"}', **more)
    return Commit(workflow_id=run, claim=Claim(record), graph=graph())


def test_runs_that_are_enqueued_together_are_one_statement_and_as_if_alone(
    ledger: PostgresStore,
) -> None:
    plain = [enqueued(run) for run in RUNS[:3]]
    tagged = [enqueued(run, tags=(("a", "b"),), group="g") for run in RUNS[3:5]]
    alone = enqueued("alone", tags=(("a", "b"),), group="g")
    assert len(arrange([*plain, *tagged])[0]) == 1
    assert together(ledger, [*plain, *tagged]) == ["NoneType"] * 5
    ledger.commit(alone)
    for commit in (*plain, *tagged, alone):
        assert commit.claim is not None
        assert ledger.load_run(commit.workflow_id) == commit.claim.run
        assert len(ledger.notices(run=commit.workflow_id)) == 1
    tags = {run.workflow_id for run in ledger.runs(tags=(("a", "b"),), group="g")}
    assert tags == {RUNS[3], RUNS[4], "alone"}
    ready = ledger.ready_runs(begun=False, now=NOW, limit=9)
    assert sorted(run.workflow_id for run in ready) == sorted([*RUNS[:5], "alone"])
    assert [one.graph_id for one in ledger.graphs()] == ["refund@1.0.0"]
    # Repeated, or with another input: what is there stays, and each is told so.
    other = enqueued(RUNS[0], group="another")
    told = together(ledger, [other, *plain[1:], enqueued("new")])
    assert told == ["Outdated", "NoneType", "NoneType", "NoneType"]
    assert ledger.load_runs([RUNS[0], "new", "none"]) == {
        RUNS[0]: ledger.load_run(RUNS[0]),
        "new": ledger.load_run("new"),
    }


def test_two_commits_that_enqueue_one_run_are_judged_in_order(ledger: PostgresStore) -> None:
    told = together(ledger, [enqueued("r"), enqueued("r", group="another"), enqueued("s")])
    assert sorted(told) == ["NoneType", "NoneType", "Outdated"]


def test_a_thousand_runs_are_enqueued_in_a_few_transactions(
    ledger: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow: nt.Graph[Any] = nt.Graph("flow", version="1.0.0")
    flow.node(name="only")(lambda state: None)
    sizes: list[int] = []
    commit_many = ledger._commits.commit_many

    def counted(commits: Sequence[Commit]) -> Any:
        sizes.append(len(commits))
        return commit_many(commits)

    monkeypatch.setattr(ledger._commits, "commit_many", counted)
    app = nt.App(graphs=[flow], store=nt.Ledger(ledger))
    names = {f"r{number}": {"n": number} for number in range(1000)}
    assert app.enqueue_all("flow", names) == 1000
    # At most two for each 256: the first may begin before all of them have arrived.
    assert sum(sizes) == 1000
    assert len(sizes) <= 4 * 8
    assert app.enqueue_all("flow", names) == 0
    assert sum(sizes) == 1000
