"""Is a commit all or nothing, fenced, conditional and harmless to repeat, on every store alike?"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from nottwice.errors import Fenced, KeyConflict
from nottwice.model.call import CallRow, CallStatus, ReplayClass, ResultKind, StoredResult
from nottwice.model.review import ReviewKind, Verb
from nottwice.model.run import Fence, Life, RunStatus, StepStatus
from nottwice.store.interface import (
    Blocked,
    CallWrite,
    Claim,
    Commit,
    Outdated,
    ReviewWrite,
    RunUpdate,
    Store,
)
from tests.store.conftest import OpenStore
from tests.store.samples import (
    FAILURE,
    NOW,
    RESULT,
    audit,
    claim,
    decision,
    evidence,
    follow,
    full_call,
    identity,
    intent,
    note,
    noted,
    pending,
    review,
    run_record,
    step,
)


def everything(store: Store, run: str = "run") -> tuple[Any, ...]:
    """All that a store shows about a run."""
    return (
        store.load_run(run),
        store.calls(run),
        store.steps(run),
        store.reviews(run),
        store.evidence(run),
        store.audit(run),
    )


# One commit is one transaction


def rich_commit(fence: Fence, *calls: CallWrite) -> Commit:
    return Commit(
        workflow_id="run",
        fence=fence,
        run=RunUpdate(RunStatus.WAITING, NOW + 9, FAILURE),
        calls=calls,
        steps=(step(), step(node="late", ordinal=2)),
        reviews=(ReviewWrite(review()),),
        evidence=(evidence(),),
        audit=(audit(),),
    )


def test_a_commit_makes_everything_in_it_visible_at_once(open_store: OpenStore) -> None:
    store = open_store()
    fence = claim(store)
    row = pending()
    store.commit(rich_commit(fence, CallWrite(row)))
    for reader in (store, open_store()):
        run, calls, steps, reviews, items, entries = everything(reader)
        assert run == run_record(
            holder_id=fence.holder_id, status=RunStatus.WAITING, updated_at=NOW + 9, failure=FAILURE
        )
        assert calls == [row]
        assert steps == [step(), step(node="late", ordinal=2)]
        assert reviews == [review()]
        assert items == [evidence()]
        assert entries == [audit()]


def test_a_commit_whose_last_precondition_fails_writes_nothing_at_all(store: Store) -> None:
    fence = claim(store)
    before = everything(store)
    gone = CallWrite(pending(identity(tool="other")).done(RESULT, now=NOW), (CallStatus.DONE, "x"))
    with pytest.raises(Outdated):
        store.commit(rich_commit(fence, CallWrite(pending()), gone))
    assert everything(store) == before


def test_a_commit_whose_review_is_outdated_writes_nothing_at_all(store: Store) -> None:
    fence = claim(store)
    store.commit(Commit(workflow_id="run", reviews=(ReviewWrite(review()),)))
    before = everything(store)
    outdated = ReviewWrite(review(summary="other"), 9)
    late = replace(rich_commit(fence, CallWrite(pending())), reviews=(outdated,))
    with pytest.raises(Outdated):
        store.commit(late)
    assert everything(store) == before


def test_records_come_back_exactly_as_they_were_written(store: Store) -> None:
    fence = claim(store)
    row = full_call()
    decided = review("aaaa0002").decided(
        decision(Verb.HAPPENED, result=RESULT, holder_stopped=True, why="\"'; -- ☃")
    )
    closed = review("aaaa0003", kind=ReviewKind.DRIFT).closed("a new attempt", now=NOW + 1)
    failed = step(status=StepStatus.FAILED, finished_at=NOW + 3, failure=FAILURE)
    item = evidence(result=StoredResult(ResultKind.NOT_KEPT, "{}"))
    store.commit(
        Commit(
            workflow_id="run",
            fence=fence,
            calls=(CallWrite(row),),
            steps=(failed,),
            reviews=(ReviewWrite(decided), ReviewWrite(closed)),
            evidence=(item,),
        )
    )
    assert store.load_call(row.identity) == row
    assert store.load_step("run", "notify", "start/") == failed
    assert store.load_review("aaaa0002") == decided
    assert store.load_review("aaaa0003") == closed
    assert store.evidence("run") == [item]


def test_what_is_not_there_is_none(store: Store) -> None:
    assert store.load_run("run") is None
    assert store.load_call(identity()) is None
    assert store.load_step("run", "notify", "start/") is None
    assert store.load_review("aaaa0001") is None
    assert store.load_holder("holder") is None
    assert store.last_use_of_key("send", "key") is None
    assert everything(store) == (None, [], [], [], [], [])
    assert store.runs() == []


def test_commit_soon_is_durable_when_its_future_has_a_result(open_store: OpenStore) -> None:
    store = open_store()
    assert store.commit_soon(note(1)).result(timeout=30) is None
    assert noted(open_store()) == [1]


def test_commit_soon_brings_the_same_refusals(store: Store) -> None:
    claim(store)
    error = store.commit_soon(intent(pending(), Fence("somebody", 1))).exception(timeout=30)
    assert isinstance(error, Fenced)
    assert store.calls("run") == []


# The fence


@pytest.mark.parametrize("wrong", ["another holder", "an older epoch", "a newer epoch", "no run"])
def test_only_the_holder_of_this_epoch_writes(store: Store, wrong: str) -> None:
    fence = claim(store)
    fences = {
        "another holder": Fence("somebody", fence.epoch),
        "an older epoch": Fence(fence.holder_id, fence.epoch - 1),
        "a newer epoch": Fence(fence.holder_id, fence.epoch + 1),
        "no run": fence,
    }
    run = "elsewhere" if wrong == "no run" else "run"
    before = everything(store, run)
    with pytest.raises(Fenced, match=repr(run)):
        store.commit(intent(pending(identity(run)), fences[wrong]))
    with pytest.raises(Fenced):
        store.commit(
            Commit(
                workflow_id=run,
                fence=fences[wrong],
                steps=(step(run),),
                evidence=(evidence(run=run),),
            )
        )
    assert everything(store, run) == before


def test_an_overtaken_holder_writes_no_result_but_may_leave_evidence(
    open_store: OpenStore,
) -> None:
    store = open_store()
    fence = claim(store)
    row = pending()
    store.commit(intent(row, fence))
    claim(store, after=store.load_run("run"))
    for commit in (
        follow(row.done(RESULT, now=NOW), row, fence),
        Commit(workflow_id="run", fence=fence, run=RunUpdate(RunStatus.COMPLETED, NOW)),
        Commit(workflow_id="run", fence=fence, run=RunUpdate(RunStatus.FAILED, NOW, release=True)),
    ):
        with pytest.raises(Fenced):
            store.commit(commit)
    assert store.load_call(row.identity) == row
    store.commit(Commit(workflow_id="run", evidence=(evidence(),)))
    assert store.evidence("run") == [evidence()]


def test_a_released_run_has_no_holder_and_takes_no_more_calls(store: Store) -> None:
    fence = claim(store)
    over = RunUpdate(RunStatus.COMPLETED, NOW + 1, release=True)
    release = Commit(workflow_id="run", fence=fence, run=over)
    store.commit(release)
    run = store.load_run("run")
    assert run is not None
    assert (run.holder_id, run.status, run.epoch) == (None, RunStatus.COMPLETED, fence.epoch)
    with pytest.raises(Fenced):
        store.commit(intent(pending(), fence))
    store.commit(release)
    assert store.load_run("run") == run


def test_a_status_does_not_give_the_run_up(store: Store) -> None:
    fence = claim(store)
    waiting = RunUpdate(RunStatus.WAITING, NOW + 1)
    store.commit(Commit(workflow_id="run", fence=fence, run=waiting))
    run = store.load_run("run")
    assert run is not None
    assert (run.holder_id, run.status) == (fence.holder_id, RunStatus.WAITING)


# Claims


def test_a_run_is_created_once(store: Store) -> None:
    claim(store)
    before = store.load_run("run")
    with pytest.raises(Outdated):
        store.commit(Commit(workflow_id="run", claim=Claim(run_record(holder_id="other"))))
    assert store.load_run("run") == before


def test_a_claim_names_the_epoch_it_saw(store: Store) -> None:
    for seen in (1, 7):
        with pytest.raises(Outdated):
            store.commit(Commit(workflow_id="run", claim=Claim(run_record(epoch=seen + 1), seen)))
    claim(store)
    for seen in (2, 0):
        late = Claim(run_record(epoch=seen + 1, holder_id="late"), seen)
        with pytest.raises(Outdated):
            store.commit(Commit(workflow_id="run", claim=late))
    second = run_record(epoch=2, holder_id="second", claimed_at=NOW + 4)
    store.commit(Commit(workflow_id="run", claim=Claim(second, 1)))
    assert store.load_run("run") == second


def outcomes_of(actions: list[Callable[[], None]]) -> list[str]:
    """Let everybody act at the same moment and say what each was told."""
    start = threading.Barrier(len(actions))

    def act(action: Callable[[], None]) -> str:
        start.wait()
        try:
            action()
        except (Outdated, Fenced) as error:
            return type(error).__name__
        return "done"

    with ThreadPoolExecutor(len(actions)) as pool:
        return sorted(pool.map(act, actions))


@pytest.mark.parametrize("seen", [None, 1])
def test_of_many_who_claim_at_once_one_wins(open_store: OpenStore, seen: int | None) -> None:
    if seen is not None:
        claim(open_store())
    stores = [open_store() for _ in range(8)]
    claims = [
        Claim(run_record(epoch=(seen or 0) + 1, holder_id=f"holder-{number}"), seen)
        for number in range(8)
    ]

    commits = [Commit(workflow_id="run", claim=one) for one in claims]
    told = outcomes_of(
        [partial(each.commit, one) for each, one in zip(stores, commits, strict=True)]
    )
    assert told == ["Outdated"] * 7 + ["done"]
    assert stores[0].load_run("run") in [one.run for one in claims]


def test_two_claims_that_look_alike_are_not_one(store: Store) -> None:
    """Two threads of one holder that claim the same epoch: only one may believe it won."""
    first = run_record(epoch=1, claimed_at=NOW)
    store.commit(Commit(workflow_id="run", claim=Claim(first)))
    with pytest.raises(Outdated):
        store.commit(Commit(workflow_id="run", claim=Claim(replace(first, claimed_at=NOW + 1))))
    assert store.load_run("run") == first


# Calls follow what their writer saw


def test_an_intent_is_recorded_once(store: Store) -> None:
    fence = claim(store)
    row = pending()
    store.commit(intent(row, fence))
    with pytest.raises(Outdated):
        store.commit(intent(row._replace(attempt_id="attempt-2"), fence))
    with pytest.raises(Outdated):
        store.commit(intent(row._replace(attempt_id="attempt-2"), fence, unless_blocked=True))
    assert store.calls("run") == [row]


STALE = {
    "another attempt": (CallStatus.PENDING, "attempt-0"),
    "another status": (CallStatus.UNKNOWN, "attempt-1"),
    "no row": None,
}


@pytest.mark.parametrize("seen", STALE)
def test_a_result_follows_only_what_its_writer_saw(store: Store, seen: str) -> None:
    fence = claim(store)
    row = pending()
    store.commit(intent(row, fence))
    done = row.done(RESULT, now=NOW + 1)
    with pytest.raises(Outdated):
        store.commit(Commit(workflow_id="run", fence=fence, calls=(CallWrite(done, STALE[seen]),)))
    assert store.calls("run") == [row]
    store.commit(follow(done, row, fence))
    assert store.calls("run") == [done]


def test_a_receipt_is_not_overwritten_by_another_result_of_the_same_attempt(store: Store) -> None:
    fence = claim(store)
    row = pending()
    done = row.done(RESULT, now=NOW + 1)
    store.commit(intent(row, fence))
    store.commit(follow(done, row, fence))
    other = row.done(StoredResult(ResultKind.PLAIN, '"something else"'), now=NOW + 1)
    with pytest.raises(Outdated):
        store.commit(follow(other, row, fence))
    assert store.calls("run") == [done]


def test_of_two_results_for_one_attempt_one_is_kept(open_store: OpenStore) -> None:
    store = open_store()
    fence = claim(store)
    row = pending()
    store.commit(intent(row, fence))
    results = [row.done(StoredResult(ResultKind.PLAIN, f"{n}"), now=NOW + n) for n in range(6)]
    commits = [follow(one, row, fence) for one in results]
    told = outcomes_of([partial(store.commit, commit) for commit in commits])
    assert told == ["Outdated"] * 5 + ["done"]
    assert store.load_call(row.identity) in results


def test_what_identifies_a_stored_call_is_never_changed(store: Store) -> None:
    fence = claim(store)
    row = pending(
        replay_class=ReplayClass.IDEMPOTENT_WITH_KEY,
        key="key",
        key_since=NOW,
        window_seconds=60.0,
        label="first",
        trace_id="trace",
    )
    store.commit(intent(row, fence))
    forged = row.done(RESULT, now=NOW + 1)._replace(
        replay_class=ReplayClass.PURE,
        key="other",
        key_since=NOW + 1,
        window_seconds=1.0,
        label="second",
        trace_id="other",
        args_json="{}",
        created_at=NOW + 1,
        call_id="other",
    )
    store.commit(follow(forged, row, fence))
    assert store.load_call(row.identity) == row.done(RESULT, now=NOW + 1)


# Repeating a commit changes nothing


def repeatable(fence: Fence) -> dict[str, list[Commit]]:
    row = pending()
    done = row.done(RESULT, now=NOW + 1)
    opened = review()
    return {
        "an intent": [intent(row, fence)],
        "an intent unless blocked": [intent(row, fence, unless_blocked=True)],
        "a result": [intent(row, fence), follow(done, row, fence)],
        "many records": [rich_commit(fence, CallWrite(row))],
        "a decision": [
            Commit(workflow_id="run", reviews=(ReviewWrite(opened),)),
            Commit(
                workflow_id="run",
                reviews=(ReviewWrite(opened.decided(decision()), 1),),
                audit=(audit(),),
            ),
        ],
        "a release": [
            Commit(
                workflow_id="run",
                fence=fence,
                run=RunUpdate(RunStatus.COMPLETED, NOW + 1, release=True),
                calls=(CallWrite(row),),
            )
        ],
    }


@pytest.mark.parametrize("what", repeatable(Fence("holder", 1)))
def test_repeating_a_commit_changes_nothing(store: Store, what: str) -> None:
    commits = repeatable(claim(store))[what]
    for commit in commits:
        store.commit(commit)
    before = everything(store)
    store.commit(commits[-1])
    assert everything(store) == before


def test_repeating_a_claim_changes_nothing(store: Store) -> None:
    fence = claim(store)
    before = everything(store)
    record = store.load_run("run")
    assert record is not None
    store.commit(Commit(workflow_id="run", claim=Claim(record)))
    assert everything(store) == before
    store.commit(intent(pending(), fence))


# Reviews


def test_a_commit_can_be_refused_while_a_review_is_open(store: Store) -> None:
    fence = claim(store)
    waiting = review()
    store.commit(Commit(workflow_id="run", reviews=(ReviewWrite(waiting),)))
    careful = intent(pending(), fence, unless_blocked=True)
    with pytest.raises(Blocked) as refused:
        store.commit(careful)
    assert refused.value.reviews == (waiting,)
    assert store.calls("run") == []

    decided = waiting.decided(decision())
    store.commit(Commit(workflow_id="run", reviews=(ReviewWrite(decided, 1),)))
    with pytest.raises(Blocked):
        store.commit(careful)
    store.commit(intent(pending(identity(tool="careless")), fence))

    used = decided.used(now=NOW + 6)
    store.commit(Commit(workflow_id="run", reviews=(ReviewWrite(used, 2),)))
    store.commit(careful)
    assert len(store.calls("run")) == 2


def test_an_accepted_drift_and_the_reviews_of_other_runs_block_nothing(store: Store) -> None:
    fence = claim(store)
    accepted = review(kind=ReviewKind.DRIFT).decided(decision(Verb.ACCEPT))
    store.commit(Commit(workflow_id="run", reviews=(ReviewWrite(accepted),)))
    other = review("aaaa0009", "other run")
    store.commit(Commit(workflow_id="other run", reviews=(ReviewWrite(other),)))
    store.commit(intent(pending(), fence, unless_blocked=True))
    assert store.calls("run") == [pending()]


def test_a_review_is_written_only_over_the_version_that_was_read(store: Store) -> None:
    first = review()
    store.commit(Commit(workflow_id="run", reviews=(ReviewWrite(first),)))
    for seen in (None, 0, 2):
        with pytest.raises(Outdated):
            store.commit(
                Commit(workflow_id="run", reviews=(ReviewWrite(first.decided(decision()), seen),))
            )
    with pytest.raises(Outdated):
        store.commit(Commit(workflow_id="run", reviews=(ReviewWrite(review("bbbb0001"), 1),)))
    assert store.reviews() == [first]


def test_of_two_who_decide_at_once_one_decides(open_store: OpenStore) -> None:
    opened = review()
    stores = [open_store() for _ in range(6)]
    stores[0].commit(Commit(workflow_id="run", reviews=(ReviewWrite(opened),)))
    decisions = [opened.decided(decision(by=f"person {number}")) for number in range(6)]

    def decide(number: int) -> Callable[[], None]:
        write = ReviewWrite(decisions[number], opened.version)
        entry = audit(who=f"person {number}")
        commit = Commit(workflow_id="run", reviews=(write,), audit=(entry,))
        return partial(stores[number].commit, commit)

    assert outcomes_of([decide(number) for number in range(6)]) == ["Outdated"] * 5 + ["done"]
    (kept,) = stores[0].reviews()
    assert kept in decisions
    assert kept.decision is not None
    assert [entry.who for entry in stores[0].audit()] == [kept.decision.by]


@pytest.mark.parametrize("seen", [None, 1])
def test_a_review_id_that_another_run_has_is_not_taken_over(store: Store, seen: int | None) -> None:
    theirs = review(run="theirs")
    store.commit(Commit(workflow_id="theirs", reviews=(ReviewWrite(theirs),)))
    with pytest.raises(Outdated):
        store.commit(Commit(workflow_id="mine", reviews=(ReviewWrite(review(run="mine"), seen),)))
    assert store.reviews() == [theirs]


# Keys


def keyed(run: str, arguments: str, *, tool: str = "send", key: str | None = "key") -> CallRow:
    return pending(identity(run, tool=tool, arguments=arguments), key=key, key_since=NOW)


def test_one_key_with_two_different_arguments_is_refused(store: Store) -> None:
    fence = claim(store)
    other = claim(store, "other run")
    store.commit(intent(keyed("run", "1"), fence))
    with pytest.raises(KeyConflict, match="'run'"):
        store.commit(intent(keyed("other run", "2"), other))
    assert store.calls("other run") == []
    store.commit(intent(keyed("other run", "1"), other))
    store.commit(intent(keyed("other run", "2", tool="another tool"), other))
    store.commit(intent(keyed("other run", "2", key="another key"), other))
    store.commit(intent(keyed("other run", "3", key=None), other))
    assert len(store.calls("other run")) == 4


def test_a_row_that_has_its_key_already_goes_on_with_it(store: Store) -> None:
    fence = claim(store)
    row = keyed("run", "1")
    store.commit(intent(row, fence))
    store.commit(follow(row.done(RESULT, now=NOW), row, fence))
    assert store.calls("run") == [row.done(RESULT, now=NOW)]


# Added once


def test_the_same_evidence_and_audit_are_kept_once_and_the_first_stays(store: Store) -> None:
    first = Commit(workflow_id="run", evidence=(evidence(result=RESULT),), audit=(audit(),))
    again = Commit(workflow_id="run", evidence=(evidence(),) * 2, audit=(audit(),) * 2)
    for commit in (first, again, first):
        store.commit(commit)
    assert store.evidence("run") == [evidence(result=RESULT)]
    assert store.audit("run") == [audit()]


@pytest.mark.parametrize(
    "other",
    [
        evidence("something else"),
        evidence(call_id="other"),
        evidence(attempt_id="other"),
        evidence(at=NOW + 0.000001),
        evidence(source="other"),
        audit("another reason"),
        audit(at=NOW + 0.000001),
        audit(who="bob"),
        audit(action="undo"),
        audit(subject="review aaaa0002"),
    ],
    ids=str,
)
def test_evidence_and_audit_that_differ_in_anything_are_both_kept(store: Store, other: Any) -> None:
    is_audit = type(other) is type(audit())
    first = Commit(workflow_id="run", evidence=(evidence(),), audit=(audit(),))
    added: dict[str, Any] = {"audit": (other,)} if is_audit else {"evidence": (other,)}
    store.commit(first)
    store.commit(Commit(workflow_id="run", **added))
    assert len(store.audit("run")) == (2 if is_audit else 1)
    assert len(store.evidence("run")) == (1 if is_audit else 2)


# Holders


def test_the_holder_is_the_same_as_long_as_the_process_lives(store: Store) -> None:
    first = store.holder()
    assert store.holder() == first
    assert store.load_holder(first.holder_id) == first
    assert store.life_of(first.holder_id) is Life.ALIVE


def test_nothing_is_proven_about_a_holder_that_nobody_knows(store: Store) -> None:
    assert store.life_of("never seen") is Life.NOT_PROVEN
