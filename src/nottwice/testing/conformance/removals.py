"""Does a store remove what it should, nothing else, and only from finished runs? (L8)"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from nottwice.errors import OwnershipLost, RunRemoved
from nottwice.model.run import Fence, RunRecord, RunStatus, Wait, WaitKind
from nottwice.model.runs.notices import NOTICE_KINDS
from nottwice.store.interface import (
    CallWrite,
    Claim,
    Commit,
    EventWrite,
    Outdated,
    Removal,
    ReviewWrite,
    RunUpdate,
    Store,
)
from nottwice.testing.conformance.bench import (
    Bench,
    everything,
    expect,
    outcomes_of,
    refused,
)
from nottwice.testing.conformance.samples import (
    NOW,
    RESULT,
    audit,
    checkpoint,
    claim,
    event,
    evidence,
    graph,
    identity,
    pending,
    review,
    run_record,
    step,
    told,
)

DUE = Wait(WaitKind.TIMER, "retention", "/", NOW + 50)
FIRST = pending(identity(tool="first")).done(RESULT, now=NOW)
SECOND = pending(identity(tool="second")).done(RESULT, now=NOW)


class Removals(Bench):
    """What retention needs from a store."""

    def test_what_is_removed_of_a_run_is_not_found_by_its_tags(self) -> None:
        store = self.open()
        tags, holder_id = (("customer", "acme"),), store.holder().holder_id
        held = run_record("a", holder_id=holder_id, tags=tags, group="g")
        store.commit(Commit(workflow_id="a", claim=Claim(held, None, NOW)))
        over = RunUpdate(RunStatus.COMPLETED, NOW + 1, release=True)
        store.commit(Commit(workflow_id="a", fence=Fence(holder_id, 1), run=over))
        expect(len(store.openings("a")), 1, "The openings of a run that is over")
        ended = replace(held, holder_id=None, updated_at=NOW + 1)
        bare = replace(ended, status=RunStatus.REMOVED, epoch=2, tags=(), group=None)
        store.commit(Commit(workflow_id="a", removal=Removal(bare, 1, rest=True)))
        expect(store.runs(tags=tags), [], "The runs with the tag of a removed run")
        expect(store.runs(group="g"), [], "The runs of the group of a removed run")
        expect(store.openings("a"), [], "The openings of a removed run")

    def test_notices_go_with_their_run(self) -> None:
        store = self.open()
        over, _ = _finished(store), _finished(store, "other")
        expect(bool(store.notices(run="run")), True, "The notices of a run that is over")
        _remove(store, over, calls=(FIRST.identity, SECOND.identity), rest=True)
        for reader in (store, self.open()):
            expect(reader.notices(run="run"), [], "The notices of a removed run")
            expect(bool(reader.notices(run="other")), True, "The notices of another run")

    def test_old_notices_are_forgotten(self) -> None:
        store = self.open()
        for number in range(5):
            store.commit(told(event(f"e-{number}", f"run-{number}", sent_at=NOW + number)))
        ids = [notice.notice_id for notice in store.notices()]
        store.commit(Commit(workflow_id="run-4", forgotten=(ids.pop(), "none")))
        expect([one.notice_id for one in self.open().notices()], ids, "The notices but one")
        store.take_notices(
            by="a", kinds=NOTICE_KINDS, now=NOW, lease_seconds=60.0, limit=1, only=ids[3:]
        )
        store.settle_notices(ids[3:], by="a", now=NOW + 5)

        def forget(settled_before: float, created_before: float, limit: int) -> int:
            return store.forget_notices(
                settled_before=settled_before, created_before=created_before, limit=limit
            )

        def old(settled_before: float, created_before: float) -> int:
            return store.count_old_notices(
                settled_before=settled_before, created_before=created_before
            )

        expect(old(NOW + 5, NOW + 1), 1, "The number of old notices that are counted")
        expect(forget(NOW + 5, NOW + 1, 9), 1, "The number of old notices")
        expect(old(NOW + 5, NOW + 1), 0, "The number that is counted afterwards")
        expect(old(NOW + 6, NOW + 2), 2, "The number that is counted later")
        expect([one.notice_id for one in store.notices()], ids[1:], "Those that are left")
        expect(forget(NOW + 6, NOW + 2, 1), 1, "The number that goes at a time")
        expect(forget(NOW + 6, NOW + 2, 9), 1, "The number that is old then")
        expect(forget(NOW + 6, NOW + 2, 9), 0, "The number that is old in the end")
        left = [one.notice_id for one in self.open().notices()]
        expect(left, ids[2:3], "What is neither old nor settled")

    def test_what_is_removed_is_gone_and_the_rest_stays(self) -> None:
        store = self.open()
        over = _finished(store)
        other = _finished(store, "other")
        before = everything(store, "other")
        tombstone = _tombstone(over, waits=(DUE,))
        first = Removal(tombstone, over.epoch, calls=(FIRST.identity,), steps=(("late", "start/"),))
        store.commit(Commit(workflow_id="run", removal=first, audit=(audit("gone"),)))
        for reader in (store, self.open()):
            expect(reader.load_run("run"), tombstone, "The tombstone of a run")
            expect(reader.calls("run"), [SECOND], "The calls that were not removed")
            expect(reader.load_call(FIRST.identity), None, "A call that was removed")
            expect(reader.steps("run"), [step()], "The steps that were not removed")
            expect(reader.reviews("run"), [_closed("run")], "Reviews that were not removed")
        bare = replace(tombstone, waits=())
        last = Removal(bare, tombstone.epoch, calls=(SECOND.identity,), rest=True)
        store.commit(Commit(workflow_id="run", removal=last))
        for reader in (store, self.open()):
            shown = everything(reader)
            expect(shown.pop("run"), bare, "The tombstone of a run")
            expect(shown.pop("audit"), [audit(), audit("gone")], "Audit, which is never removed")
            expect(shown.pop("graphs"), [graph()], "Graphs, which other runs also need")
            left = {kind: found for kind, found in shown.items() if found}
            expect(left, {}, "What is left of a run that was removed")
            expect(everything(reader, "other"), before, "Another run")
            expect(reader.load_run("other"), other, "The record of another run")

    def test_only_a_run_that_is_over_and_as_it_was_seen_is_removed(self) -> None:
        for status in (RunStatus.RUNNING, RunStatus.WAITING):
            store = self.fresh()
            run = _finished(store, status=status)
            before = everything(store)
            with refused(Outdated, what=f"Removing a run that is {status.value}"):
                _remove(store, run, calls=(FIRST.identity,), rest=True)
            expect(everything(store), before, f"A run that is {status.value}")
        for status in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.ABORTED):
            store = self.fresh()
            run = _finished(store, status=status)
            with refused(Outdated, what="Removing a run that was opened since"):
                _remove(store, replace(run, epoch=run.epoch - 1))
            _remove(store, run)
            shown = store.load_run("run")
            expect(shown and shown.status, RunStatus.REMOVED, f"A run that was {status.value}")
        with refused(Outdated, what="Removing a run that is not there"):
            _remove(store, run_record("gone"))

    def test_a_removed_run_is_never_claimed_again(self) -> None:
        store = self.open()
        over = _finished(store)
        tombstone = _remove(store, over)
        holder_id = store.holder().holder_id
        again = replace(over, status=RunStatus.RUNNING, epoch=over.epoch + 1, holder_id=holder_id)
        with refused(Outdated, what="Claiming a run that was removed since it was seen"):
            store.commit(Commit(workflow_id="run", claim=Claim(again, over.epoch)))
        later = replace(again, epoch=tombstone.epoch + 1)
        with refused(RunRemoved, what="Claiming a tombstone"):
            store.commit(Commit(workflow_id="run", claim=Claim(later, tombstone.epoch)))
        new = run_record(holder_id=holder_id, created_at=NOW + 99)
        with refused(Outdated, what="Beginning a run whose id a tombstone has"):
            store.commit(Commit(workflow_id="run", claim=Claim(new)))
        with refused(OwnershipLost, what="A write of the previous holder"):
            update = RunUpdate(RunStatus.RUNNING, NOW + 99)
            fence = Fence(holder_id, over.epoch)
            store.commit(Commit(workflow_id="run", fence=fence, run=update))
        expect(store.load_run("run"), tombstone, "A tombstone")

    def test_repeating_a_removal_changes_nothing(self) -> None:
        store = self.open()
        over = _finished(store)
        removal = Removal(_tombstone(over), over.epoch, calls=(FIRST.identity,))
        once = Commit(workflow_id="run", removal=removal, audit=(audit("gone"),))
        store.commit(once)
        before = everything(store)
        store.commit(once)
        expect(everything(store), before, "After the same removal twice")
        other = replace(removal, run=_tombstone(over, waits=(DUE,)), calls=(SECOND.identity,))
        with refused(Outdated, what="Another removal that saw the run as it was before"):
            store.commit(Commit(workflow_id="run", removal=other))
        expect(everything(store), before, "After another removal was refused")

    def test_of_a_removal_and_a_claim_at_the_same_moment_one_is_refused(self) -> None:
        for _ in range(5):
            store = self.fresh()
            over = _finished(store)
            mine = replace(
                over,
                status=RunStatus.RUNNING,
                epoch=over.epoch + 1,
                holder_id=store.holder().holder_id,
            )
            claiming = Commit(workflow_id="run", claim=Claim(mine, over.epoch))
            removing = Removal(_tombstone(over), over.epoch, calls=(FIRST.identity,))
            removed = Commit(workflow_id="run", removal=removing)
            ends = outcomes_of([partial(store.commit, claiming), partial(store.commit, removed)])
            expect(ends, ["Outdated", "done"], "How a concurrent claim and removal end")
            run = store.load_run("run")
            claimed = run is not None and run.status is RunStatus.RUNNING
            expect(len(store.calls("run")), 2 if claimed else 1, "Calls afterwards")

    def test_what_is_due_is_found_by_id_and_no_more_than_asked_for(self) -> None:
        store = self.open()
        for run in ("c", "a", "b"):
            _finished(store, run)
        _finished(store, "late", at=NOW + 40)
        _finished(store, "open", status=RunStatus.WAITING)
        _finished(store, "child", parent_id="a", root_id="a")
        _remove(store, _finished(store, "part"), waits=(DUE,))
        _remove(store, _finished(store, "bare"))
        for reader in (store, self.open()):
            expect(_expired(reader), ["a", "b", "c"], "Runs that ended before")
            expect(_expired(reader, limit=2), ["a", "b"], "The first two of them")
            expect(_expired(reader, after="a"), ["b", "c"], "Those after the first")
            found = _expired(reader, due_before=NOW + 50)
            expect(found, ["a", "b", "c", "part"], "With removed ones that still have parts due")
            found = _expired(reader, ended_before=NOW + 41)
            expect(found, ["a", "b", "c", "late"], "With the one that ended later")


def _finished(
    store: Store,
    run: str = "run",
    *,
    status: RunStatus = RunStatus.COMPLETED,
    at: float = NOW + 9,
    **changes: Any,
) -> RunRecord:
    """Create a run without a holder, with something of every kind."""
    fence = claim(store, run)
    if changes:
        known = store.load_run(run)
        assert known is not None
        record = replace(known, epoch=2, **changes)
        store.commit(Commit(workflow_id=run, claim=Claim(record, 1)))
        fence = replace(fence, epoch=2)
    rows = [
        row._replace(identity=row.identity._replace(workflow_id=run)) for row in (FIRST, SECOND)
    ]
    told = event(workflow_id=run)
    store.commit(
        Commit(
            workflow_id=run,
            fence=fence,
            run=RunUpdate(status, at, release=True),
            calls=tuple(CallWrite(row) for row in rows),
            steps=(step(run), step(run, "late", ordinal=2)),
            reviews=(ReviewWrite(_closed(run)),),
            evidence=(evidence(run=run),),
            audit=(audit(run=run),),
            checkpoints=(checkpoint(1, 1, workflow_id=run), checkpoint(2, 1, workflow_id=run)),
            events=(EventWrite(told),),
            graph=graph(),
        )
    )
    known = store.load_run(run)
    assert known is not None
    return known


def _closed(run: str) -> Any:
    asked = review(f"aaaa-{run}", run)
    return asked.closed("a late answer", now=NOW + 1)


def _tombstone(run: RunRecord, **changes: Any) -> RunRecord:
    return replace(run, status=RunStatus.REMOVED, epoch=run.epoch + 1, holder_id=None, **changes)


def _remove(store: Store, run: RunRecord, *, waits: Any = (), **what: Any) -> RunRecord:
    tombstone = _tombstone(run, waits=waits)
    removal = Removal(tombstone, run.epoch, **what)
    store.commit(Commit(workflow_id=run.workflow_id, removal=removal))
    return tombstone


def _expired(store: Store, **changes: Any) -> list[str]:
    wanted = {"ended_before": NOW + 10, "due_before": NOW + 49, "limit": 10, **changes}
    return [run.workflow_id for run in store.expired_runs(**wanted)]
