"""Does a store keep what hosts rely on: claims that also write, groups, and the outbox?"""

from __future__ import annotations

from dataclasses import replace

from nottwice.errors import OwnershipLost, UsageError
from nottwice.model.review import ReviewKind
from nottwice.model.run import Fence, RunRecord, RunStatus
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
from nottwice.testing.conformance.bench import Bench, expect, refused
from nottwice.testing.conformance.samples import (
    NOW,
    RESULT,
    claim,
    decision,
    event,
    identity,
    pending,
    review,
    run_record,
    told,
)

GROUP = "order 7, 'ä' = 50%"


def _first(store: Store, run: str, *, group: str | None = None, at: float = NOW) -> Commit:
    """Return the commit that claims a new run and writes its first intent."""
    holder_id = store.holder().holder_id
    record = run_record(run, holder_id=holder_id, group=group, updated_at=at)
    return Commit(
        workflow_id=run,
        fence=Fence(holder_id, 1),
        claim=Claim(record, None, at),
        unless_blocked=True,
        calls=(CallWrite(pending(identity(run), holder_id=holder_id)),),
        group=group,
    )


def _last(first: Commit) -> Commit:
    """Return the commit that ends the run with its receipt."""
    row = first.calls[0].row
    return Commit(
        workflow_id=first.workflow_id,
        fence=first.fence,
        run=RunUpdate(RunStatus.COMPLETED, NOW + 2, release=True, released_at=NOW + 2),
        calls=(CallWrite(row.done(RESULT, now=NOW + 2), row.state),),
    )


def _kinds(store: Store, run: str | None = None) -> list[str]:
    return [one.kind for one in store.notices(run=run)]


class GroupChecks(Bench):
    """Runs of one call, groups that wait together, and notices."""

    def test_a_claim_may_write_as_the_holder_that_it_makes(self) -> None:
        store = self.open()
        first = _first(store, "g/1", group=GROUP)
        store.commit(first)
        store.commit(first)
        row = first.calls[0].row
        for reader in (store, self.open()):
            expect(reader.load_call(row.identity), row, "The intent that a claim has brought")
            expect(len(reader.openings("g/1")), 1, "The openings of the run")
        store.commit(_last(first))
        store.commit(_last(first))
        for reader in (store, self.open()):
            run: RunRecord | None = reader.load_run("g/1")
            shown = None if run is None else (run.status, run.holder_id, run.group)
            expect(shown, (RunStatus.COMPLETED, None, GROUP), "The run after its only call")

    def test_a_claim_that_comes_too_late_writes_nothing(self) -> None:
        store = self.open()
        claim(store, "g/1")
        first = _first(store, "g/1", at=NOW + 1)
        with refused(Outdated, what="A claim of a run that exists already"):
            store.commit(first)
        expect(store.calls("g/1"), [], "The calls of a claim that was refused")
        with refused(UsageError, what="A claim with the fence of another one"):
            replace(first, fence=Fence("another", 1))
        with refused(OwnershipLost, what="A write to a run that does not exist"):
            store.commit(replace(_first(store, "g/2"), claim=None))

    def test_an_open_review_of_a_group_holds_back_its_other_runs(self) -> None:
        store = self.open()
        store.commit(_first(store, "g/1", group=GROUP))
        fence = Fence(store.holder().holder_id, 1)
        asked = review("aaaa0001", "g/1", group=GROUP)
        store.commit(Commit(workflow_id="g/1", fence=fence, reviews=(ReviewWrite(asked),)))
        for reader in (store, self.open()):
            expect(reader.group_reviews(GROUP), [asked], "The reviews that hold a group back")
        with refused(Blocked, what="A new effect of a group that waits for a person") as caught:
            store.commit(_first(store, "g/2", group=GROUP))
        shown = [one.review_id for each in caught for one in getattr(each, "reviews", ())]
        expect(shown, ["aaaa0001"], "The reviews that a refusal names")
        expect(store.load_run("g/2"), None, "A run whose first commit was refused")
        store.commit(_first(store, "other/1", group="other"))
        store.commit(_first(store, "alone"))
        answered = ReviewWrite(asked.decided(decision()), 1)
        store.commit(Commit(workflow_id="g/1", reviews=(answered,)))
        store.commit(_first(store, "g/2", group=GROUP))
        expect(store.group_reviews(GROUP), [], "The reviews of a group once all are decided")

    def test_a_question_holds_back_no_other_run_of_the_group(self) -> None:
        store = self.open()
        fence = claim(store, "g/1")
        for number, kind in enumerate(one for one in ReviewKind if one.asks_first):
            asked = review(f"aaaa000{number}", "g/1", group=GROUP, kind=kind)
            store.commit(Commit(workflow_id="g/1", fence=fence, reviews=(ReviewWrite(asked),)))
        store.commit(_first(store, "g/2", group=GROUP))
        expect(store.group_reviews(GROUP), [], "The reviews that hold a group back")

    def test_notices_are_written_with_the_facts_and_once(self) -> None:
        store = self.open()
        first = _first(store, "g/1", group=GROUP)
        fence, asked = first.fence, review("aaaa0001", "g/1", opened_at=NOW + 1)
        opens = Commit(workflow_id="g/1", fence=fence, reviews=(ReviewWrite(asked),))
        decided = ReviewWrite(asked.decided(decision()), 1)
        for commit in (first, opens, Commit(workflow_id="g/1", reviews=(decided,)), _last(first)):
            store.commit(commit)
            if commit is not first:
                # Whether the first attempt was durable may have been unknown.
                store.commit(commit)
        store.commit(told(event("paid-1", "early")))
        wanted = ["review_opened", "run_over", "review_decided", "run_ready"]
        for reader in (store, self.open()):
            expect(sorted(_kinds(reader, "g/1")), sorted(wanted), "The notices of a run")
            expect(_kinds(reader, "early"), ["run_ready"], "The notice of an event")
            since = [one.kind for one in reader.notices(since=NOW + 2, run="g/1")]
            expect(sorted(since), sorted(wanted[1:]), "The notices since a time")
            expect(len(reader.notices(limit=2)), 2, "The notices up to a limit")
            ids = {one.notice_id for one in reader.notices()}
            expect(len(ids), 5, "The ids of five notices")
