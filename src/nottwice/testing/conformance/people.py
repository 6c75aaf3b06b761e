"""Are reviews decided once, do they block, and are evidence and audit kept? (H2, D9)"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from nottwice.model.review import DANGER, ReviewKind, ReviewStatus, Verb
from nottwice.store.interface import Blocked, Commit, Outdated, ReviewWrite
from nottwice.testing.conformance.bench import Bench, expect, outcomes_of, refused
from nottwice.testing.conformance.samples import (
    NOW,
    RESULT,
    audit,
    claim,
    decision,
    evidence,
    identity,
    intent,
    pending,
    review,
)


def asked(*reviews: ReviewWrite, run: str = "run", **more: Any) -> Commit:
    """Return a commit of reviews, as any process may make it."""
    return Commit(workflow_id=run, reviews=reviews, **more)


class People(Bench):
    """What a person decides, and what any process may add."""

    def test_a_tally_has_the_most_dangerous_reviews_and_of_these_the_oldest(self) -> None:
        store = self.open()
        kinds = [*reversed(DANGER), DANGER[0]]
        for number, kind in enumerate(kinds):
            run = str(number)
            claim(store, run)
            opened = review(run, run, opened_at=NOW + number, kind=kind)
            store.commit(asked(ReviewWrite(opened), run=run))
        found = store.tally(now=NOW, limit=len(kinds)).reviews
        expect([one.kind for one in found], [DANGER[0], *DANGER], "All reviews")
        expect([one.review_id for one in found[:2]], ["8", "9"], "Two of one kind")
        few = store.tally(now=NOW, limit=2).reviews
        expect([one.review_id for one in few], ["8", "9"], "Only two reviews")

    def test_a_commit_can_be_refused_while_a_review_is_open(self) -> None:
        store = self.open()
        fence = claim(store)
        waiting = review()
        store.commit(asked(ReviewWrite(waiting)))
        careful = intent(pending(), fence, unless_blocked=True)
        with refused(Blocked, what="An effect while a review is open") as caught:
            store.commit(careful)
        expect(getattr(caught[0], "reviews", None), (waiting,), "The reviews that block")
        expect(store.calls("run"), [], "Calls of a blocked run")

        decided = waiting.decided(decision())
        store.commit(asked(ReviewWrite(decided, 1)))
        with refused(Blocked, what="An effect while a decision is not used"):
            store.commit(careful)
        store.commit(intent(pending(identity(tool="careless")), fence))

        used = decided.used(now=NOW + 6)
        store.commit(asked(ReviewWrite(used, 2)))
        store.commit(careful)
        expect(len(store.calls("run")), 2, "Calls after the review was used")

    def test_an_accepted_drift_and_the_reviews_of_other_runs_block_nothing(self) -> None:
        store = self.open()
        fence = claim(store)
        accepted = review(kind=ReviewKind.DRIFT).decided(decision(Verb.ACCEPT))
        store.commit(asked(ReviewWrite(accepted)))
        store.commit(asked(ReviewWrite(review("aaaa0009", "other run")), run="other run"))
        store.commit(intent(pending(), fence, unless_blocked=True))
        expect(store.calls("run"), [pending()], "Calls of a run that nothing blocks")

    def test_a_review_is_written_only_over_the_version_that_was_read(self) -> None:
        store = self.open()
        first = review()
        store.commit(asked(ReviewWrite(first)))
        for seen in (None, 0, 2):
            with refused(Outdated, what=f"A decision about version {seen} of version 1"):
                store.commit(asked(ReviewWrite(first.decided(decision()), seen)))
        with refused(Outdated, what="A decision about a review that is not there"):
            store.commit(asked(ReviewWrite(review("bbbb0001"), 1)))
        expect(store.reviews(), [first], "The review after decisions that came too late")

    def test_holders_and_others_take_a_review_through_its_states(self) -> None:
        """The holder opens and uses a review. Others decide and undo, in turn."""
        store, other = self.open(), self.open()
        fence = claim(store)
        opened = review()
        decided = opened.decided(decision())
        undone = decided.undone()
        again = undone.decided(decision(Verb.ABORT, by="bob"))
        used = again.used(now=NOW + 9)
        store.commit(intent(pending(), fence, reviews=(ReviewWrite(opened),)))
        for before, after in ((opened, decided), (decided, undone), (undone, again)):
            other.commit(asked(ReviewWrite(after, before.version)))
            expect(store.load_review(opened.review_id), after, f"A review that is {after.status}")
        store.commit(Commit(workflow_id="run", fence=fence, reviews=(ReviewWrite(used, 4),)))
        expect(other.reviews("run"), [used], "A review that was used")
        with refused(Outdated, what="A decision after the use"):
            other.commit(asked(ReviewWrite(again, 3)))

    def test_of_several_decisions_at_the_same_moment_one_counts(self) -> None:
        opened = review()
        stores = [self.open() for _ in range(6)]
        stores[0].commit(asked(ReviewWrite(opened)))
        decisions = [opened.decided(decision(by=f"person {number}")) for number in range(6)]

        def decide(number: int) -> Callable[[], None]:
            write = ReviewWrite(decisions[number], opened.version)
            commit = asked(write, audit=(audit(who=f"person {number}"),))
            return partial(stores[number].commit, commit)

        heard = outcomes_of([decide(number) for number in range(6)])
        expect(heard, ["Outdated"] * 5 + ["done"], "How six concurrent decisions end")
        kept = stores[0].reviews()
        expect(len(kept) == 1 and kept[0] in decisions, True, "One of the decisions is kept")
        by = [one.decision.by for one in kept if one.decision is not None]
        expect([entry.who for entry in stores[0].audit()], by, "Who is on record as having decided")

    def test_a_review_id_that_another_run_has_is_not_taken_over(self) -> None:
        for seen in (None, 1):
            store = self.fresh()
            theirs = review(run="theirs")
            store.commit(asked(ReviewWrite(theirs), run="theirs"))
            with refused(Outdated, what="A review whose id belongs to another run"):
                store.commit(asked(ReviewWrite(review(run="mine"), seen), run="mine"))
            expect(store.reviews(), [theirs], "The review of the other run")

    def test_open_are_the_reviews_that_are_not_used_or_closed(self) -> None:
        store = self.open()
        for status in ReviewStatus:
            said = None if status is ReviewStatus.OPEN else decision()
            one = review(status.value, status=status, decision=said)
            store.commit(asked(ReviewWrite(one)))
        for found in (store.open_reviews(), store.open_reviews("run")):
            expect({one.review_id for one in found}, {"open", "decided"}, "Open reviews")
        expect(len(store.reviews("run")), len(ReviewStatus), "All reviews")

    def test_the_same_evidence_and_audit_are_kept_once_and_the_first_stays(self) -> None:
        store = self.open()
        first = Commit(workflow_id="run", evidence=(evidence(result=RESULT),), audit=(audit(),))
        again = Commit(workflow_id="run", evidence=(evidence(),) * 2, audit=(audit(),) * 2)
        for commit in (first, again, first):
            store.commit(commit)
        expect(store.evidence("run"), [evidence(result=RESULT)], "Evidence that was written thrice")
        expect(store.audit("run"), [audit()], "An audit entry that was written thrice")

    def test_evidence_and_audit_that_differ_in_anything_are_both_kept(self) -> None:
        store = self.open()
        items = [
            evidence(),
            evidence("something else"),
            evidence(call_id="other"),
            evidence(attempt_id="other"),
            evidence(at=NOW + 0.000001),
            evidence(source="other"),
        ]
        entries = [
            audit(),
            audit("another reason"),
            audit(at=NOW + 0.000001),
            audit(who="bob"),
            audit(action="undo"),
            audit(subject="review aaaa0002"),
        ]
        for item, entry in zip(items, entries, strict=True):
            store.commit(Commit(workflow_id="run", evidence=(item,), audit=(entry,)))
        expect(set(store.evidence("run")), set(items), "Evidence that differs")
        expect(set(store.audit("run")), set(entries), "Audit entries that differ")

    def test_evidence_and_audit_come_oldest_first(self) -> None:
        store = self.open()
        for number in (3, 1, 2):
            at = NOW + number
            commit = Commit(
                workflow_id="run",
                evidence=(
                    evidence(f"{number}", at=at),
                    evidence(f"{number} of another call", at=at, call_id="other"),
                ),
                audit=(audit(f"{number}", at=at), audit(f"{number}, later", at=at)),
            )
            store.commit(commit)
        mine = store.evidence("run", evidence().call_id)
        expect([item.text for item in mine], ["1", "2", "3"], "The evidence about one call")
        expect(len(store.evidence("run")), 6, "All evidence of a run")
        expect(store.evidence("other run"), [], "Evidence of another run")
        reasons = ["1", "1, later", "2", "2, later", "3", "3, later"]
        expect([entry.why for entry in store.audit("run")], reasons, "The audit of a run")
        expect([entry.why for entry in store.audit()], reasons, "The audit of the ledger")
        expect(store.audit("other run"), [], "The audit of another run")
