"""Does a store find all runs that can continue, in the right order? (M1, A6)

A worker takes enqueued runs, runs that were released in the middle, and runs that wait for
something that has arrived. None may be missing, because nothing else looks for them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from nottwice.model.review import ReviewStatus
from nottwice.model.run import Fence, RunRecord, RunStatus, Wait, WaitKind
from nottwice.model.runs.tally import ReadyCount
from nottwice.store.interface import (
    Claim,
    Commit,
    EventWrite,
    Outdated,
    ReviewWrite,
    RunUpdate,
    Store,
)
from nottwice.testing.conformance.bench import Bench, expect, needs, outcomes_of, refused
from nottwice.testing.conformance.samples import NOW, decision, event, review, run_record, told

LATER = NOW + 1_000
QUESTION = Wait(WaitKind.REVIEW, "aaaa0001", "ask")
PAYMENT = Wait(WaitKind.EVENT, "paid", "wait")


class Ready(Bench):
    """What workers look for."""

    def test_a_new_run_is_ready_until_a_process_takes_it(self) -> None:
        store = self.open()
        enqueued = _enqueue(store, "run")
        for reader in (store, self.open()):
            expect(_queued(reader), ["run"], "Runs that were only enqueued")
            expect(_begun(reader), [], "Runs that were started")
            expect(reader.load_run("run"), enqueued, "A run that was only enqueued")
        with refused(Outdated, what="Enqueuing a run that is there"):
            _enqueue(store, "run", at=NOW + 1)
        _claim(store, "run")
        expect(_queued(store), [], "Runs that were enqueued and taken")
        expect(_begun(store), [], "Runs that are held")

    def test_new_runs_come_in_their_turn_and_no_more_than_asked_for(self) -> None:
        store = self.open()
        for number, run in enumerate(("c", "a", "d", "b")):
            _enqueue(store, run, at=NOW + number, graph="odd@1.0.0" if run == "d" else None)
        expect(_queued(store), ["c", "a", "d", "b"], "Enqueued runs, oldest first")
        expect(_queued(store, limit=2), ["c", "a"], "The first two enqueued runs")
        without = ["odd@1.0.0", "gone@1.0.0"]
        expect(_queued(store, without=without), ["c", "a", "b"], "Runs without a graph's")
        two = _queued(store, limit=3, without=without)
        expect(two, ["c", "a", "b"], "Graphs that are left out do not count")

    def test_ready_runs_are_counted_by_graph_up_to_a_limit(self) -> None:
        store = self.open()
        for number in range(4):
            _enqueue(store, f"many {number}", at=NOW + number, graph="many@1.0.0")
        for number in range(3):
            run = f"begun {number}"
            fence = _claim(store, run, graph_id="many@1.0.0")
            _release(store, run, fence, RunStatus.RUNNING, at=NOW + 9)
        _enqueue(store, "last", at=NOW + 8, graph="few@1.0.0")
        counted = store.count_ready(now=NOW + 9, limit=2)
        few, many = ReadyCount("few@1.0.0", 1, NOW + 8), ReadyCount("many@1.0.0", 2 + 2, NOW)
        expect(counted, [few, many], "Of each graph two new runs and two that were begun")
        counted = store.count_ready(now=NOW + 9, limit=9)
        expect([one.runs for one in counted], [1, 4 + 3], "All ready runs of each graph")

    def test_a_run_that_was_given_up_in_the_middle_is_ready(self) -> None:
        store = self.open()
        for number, run in enumerate(("a", "b")):
            _enqueue(store, run)
            fence = _claim(store, run)
            _release(store, run, fence, RunStatus.RUNNING, at=NOW + 9 - number)
        expect(_begun(store), ["b", "a"], "Released runs, longest first")
        expect(_queued(store), [], "Runs that were only enqueued")
        expect(_begun(store, limit=1), ["b"], "The run that was released first")

    def test_a_run_that_is_over_or_no_graph_or_a_fork_is_not_ready(self) -> None:
        store = self.open()
        for status in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.ABORTED):
            _release(store, status.value, _claim(store, status.value), status)
        plain = _claim(store, "plain", graph_id=None)
        _release(store, "plain", plain, RunStatus.RUNNING)
        fork = _claim(store, "fork", origin="run")
        _release(store, "fork", fork, RunStatus.RUNNING)
        expect(_begun(store), [], "Runs that can continue")

    def test_a_timer_makes_a_run_ready_when_it_is_due(self) -> None:
        store = self.open()
        waits = (Wait(WaitKind.TIMER, "pause", "sleep", NOW + 60), QUESTION)
        _wait(store, "run", *waits, asks=True)
        expect(_begun(store, now=NOW + 59), [], "A run whose timer is not due")
        expect(_begun(store, now=NOW + 60), ["run"], "A run whose timer is due")
        _claim(store, "run")
        expect(_begun(store, now=LATER), [], "A run with a timer that is held")

    def test_a_clock_that_was_put_back_hides_nothing_but_timers(self) -> None:
        store = self.open()
        _enqueue(store, "queued", at=LATER)
        for run in ("released", "told"):
            fence = _claim(store, run)
            if run == "told":
                store.commit(told(event(run=run)))
            status = RunStatus.RUNNING if run == "released" else RunStatus.WAITING
            waits = () if run == "released" else (replace(PAYMENT, until=LATER + 60),)
            _release(store, run, fence, status, at=LATER, waits=waits)
        _wait(store, "timed", Wait(WaitKind.TIMER, "pause", "sleep", LATER))
        _wait(store, "due now", Wait(WaitKind.TIMER, "pause", "sleep", NOW))
        expect(_queued(store, now=NOW), ["queued"], "A new run written by a later clock")
        found = _begun(store, now=NOW)
        expect(found, ["due now", "released", "told"], "Runs written by a later clock")

    def test_a_decision_makes_a_run_ready(self) -> None:
        store = self.open()
        _wait(store, "run", QUESTION, asks=True)
        expect(_begun(store), [], "A run whose question is open")
        self.open().commit(_decided())
        expect(_begun(store), ["run"], "A run whose question was answered")

    def test_what_was_decided_before_a_run_was_given_up_makes_it_ready(self) -> None:
        store = self.open()
        fence = _claim(store, "run")
        store.commit(Commit(workflow_id="run", fence=fence, reviews=(ReviewWrite(review()),)))
        store.commit(_decided())
        expect(_begun(store), [], "A held run with a decision")
        _release(store, "run", fence, RunStatus.WAITING, waits=(QUESTION,))
        expect(_begun(store), ["run"], "A run that waits for what was decided before")

    def test_an_event_makes_a_run_ready_that_waits_for_it(self) -> None:
        store = self.open()
        _wait(store, "run", PAYMENT)
        store.commit(told(event("other", name="refunded")))
        store.commit(told(event(run="other run")))
        expect(_begun(store), [], "A run with another event")
        store.commit(told(event()))
        expect(_begun(store), ["run"], "A run with the event that it waits for")

    def test_an_event_that_came_before_makes_a_run_ready_unless_it_was_taken(self) -> None:
        store = self.open()
        store.commit(told(event()))
        _wait(store, "run", PAYMENT)
        expect(_begun(store), ["run"], "A run that waits for an event that is there")
        fence = _claim(store, "run")
        taken = event(received_by="call", received_at=NOW + 2)
        store.commit(Commit(workflow_id="run", fence=fence, events=(EventWrite(taken),)))
        _release(store, "run", fence, RunStatus.WAITING, waits=(PAYMENT,))
        expect(_begun(store), [], "A run that waits for another event of the same name")

    def test_a_child_that_ends_makes_its_parent_ready(self) -> None:
        for status in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.ABORTED):
            store = self.fresh()
            child = _claim(store, "child", parent_id="run", root_id="run")
            _wait(store, "run", Wait(WaitKind.CHILD, "child", "spawn"))
            expect(_begun(store), [], "A run whose child is running")
            _release(store, "child", child, status)
            expect(_begun(store), ["run"], f"A run whose child is {status.value}")

    def test_a_child_that_only_waits_or_is_given_up_does_not_make_its_parent_ready(self) -> None:
        store = self.open()
        child = _claim(store, "child", parent_id="run", root_id="run")
        _wait(store, "run", Wait(WaitKind.CHILD, "child", "spawn"))
        _release(store, "child", child, RunStatus.WAITING, waits=(PAYMENT,))
        expect(_begun(store), [], "A run whose child waits")
        _release(store, "child", _claim(store, "child"), RunStatus.RUNNING)
        expect(_begun(store), ["child"], "A run whose child can continue on its own")

    def test_a_child_that_ended_before_makes_its_parent_ready(self) -> None:
        store = self.open()
        parent = _claim(store, "run")
        child = _claim(store, "child", parent_id="run", root_id="run")
        _release(store, "child", child, RunStatus.COMPLETED)
        expect(_begun(store), [], "A run that is held")
        waits = (Wait(WaitKind.CHILD, "child", "spawn"),)
        _release(store, "run", parent, RunStatus.WAITING, waits=waits)
        expect(_begun(store), ["run"], "A run that waits for a child that has ended")

    def test_a_decision_or_an_event_while_a_run_is_released_is_not_missed(self) -> None:
        for number in range(12):
            place = self.new_place()
            store, other = self.open(place), self.open(place)
            fence = _claim(store, "run")
            release = partial(
                _release, store, "run", fence, RunStatus.WAITING, waits=(PAYMENT, QUESTION)
            )
            opened = Commit(workflow_id="run", fence=fence, reviews=(ReviewWrite(review()),))
            store.commit(opened)
            send = partial(other.commit, _decided() if number % 2 else told(event()))
            expect(outcomes_of([release, send]), ["done", "done"], "Sending and releasing")
            expect(_begun(store), ["run"], "A run that received something while it was released")

    def test_a_commit_that_is_repeated_changes_no_readiness(self) -> None:
        store = self.open()
        record = _new("run", NOW, "refund@1.0.0")
        enqueue = Commit(workflow_id="run", claim=Claim(record))
        store.commit(enqueue)
        store.commit(enqueue)
        expect(_queued(store), ["run"], "A run that was enqueued twice by one commit")
        fence = _claim(store, "run")
        update = RunUpdate(RunStatus.WAITING, NOW + 1, release=True, waits=(PAYMENT,))
        release = Commit(workflow_id="run", fence=fence, run=update)
        store.commit(release)
        store.commit(told(event()))
        store.commit(release)
        expect(_begun(store), ["run"], "A run whose last commit was repeated after an event")

    @needs("other_holders")
    def test_holders_of_runs_of_graphs_are_known_even_if_they_are_dead(self) -> None:
        store, other = self.open(), self.other()
        expect(store.holders_of_runs(), [], "Holders, before there are any")
        mine = store.holder().holder_id
        _claim(store, "b", claimed_at=NOW + 2)
        _claim(store, "a", claimed_at=NOW + 3)
        _claim(store, "plain", graph_id=None)
        _release(store, "gone", _claim(store, "gone"), RunStatus.COMPLETED)
        theirs = run_record("theirs", holder_id=other.holder_id, graph_id="refund@1.0.0")
        store.commit(Commit(workflow_id="theirs", claim=Claim(theirs)))
        other.kill()
        expect(store.holders_of_runs(), sorted([mine, other.holder_id]), "Holders")
        held = [run.workflow_id for run in store.runs_held_by(mine)]
        expect(held, ["b", "a"], "The runs of a holder, oldest claim first")
        expect(store.runs_held_by(other.holder_id), [theirs], "The runs of a dead holder")
        expect(store.runs_held_by("missing"), [], "The runs of an unknown holder")


def _queued(store: Store, **more: Any) -> list[str]:
    return _ready(store, begun=False, **more)


def _begun(store: Store, **more: Any) -> list[str]:
    return _ready(store, begun=True, **more)


def _ready(store: Store, *, begun: bool, **more: Any) -> list[str]:
    asked: dict[str, Any] = {"now": LATER, "limit": 10, **more}
    return [run.workflow_id for run in store.ready_runs(begun=begun, **asked)]


def _new(run: str, at: float, graph: str) -> RunRecord:
    return run_record(
        run,
        epoch=0,
        holder_id=None,
        claimed_at=None,
        created_at=at,
        updated_at=at,
        graph_id=graph,
        input_json="{}",
    )


def _enqueue(store: Store, run: str, *, at: float = NOW, graph: str | None = None) -> RunRecord:
    record = _new(run, at, graph or "refund@1.0.0")
    store.commit(Commit(workflow_id=run, claim=Claim(record)))
    return record


def _claim(store: Store, run: str, **changes: Any) -> Fence:
    """Claim a graph run, which is created if it does not exist."""
    known = store.load_run(run)
    holder_id = store.holder().holder_id
    if known is None:
        record = run_record(run, **{"graph_id": "refund@1.0.0", **changes})
    else:
        record = replace(known, epoch=known.epoch + 1, status=RunStatus.RUNNING, waits=())
    record = replace(record, holder_id=holder_id)
    seen = None if known is None else known.epoch
    store.commit(Commit(workflow_id=run, claim=Claim(record, seen)))
    return Fence(holder_id, record.epoch)


def _release(
    store: Store,
    run: str,
    fence: Fence,
    status: RunStatus,
    *,
    at: float = NOW + 1,
    waits: tuple[Wait, ...] = (),
) -> None:
    update = RunUpdate(status, at, release=True, waits=waits)
    store.commit(Commit(workflow_id=run, fence=fence, run=update))


def _wait(store: Store, run: str, *waits: Wait, asks: bool = False) -> None:
    """Claim a run and release it waiting for these. With ``asks``, its question is on record."""
    fence = _claim(store, run)
    if asks:
        store.commit(Commit(workflow_id=run, fence=fence, reviews=(ReviewWrite(review()),)))
    _release(store, run, fence, RunStatus.WAITING, waits=waits)


def _decided() -> Commit:
    answered = review(status=ReviewStatus.DECIDED, version=2, decision=decision())
    return Commit(workflow_id="run", reviews=(ReviewWrite(answered, review().version),))
