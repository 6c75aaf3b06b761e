"""Is a commit one transaction: whole or not at all, exact, and harmless to repeat? (L3, P5, P7)"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nottwice.errors import KeyConflict, OwnershipLost, UsageError
from nottwice.model.call import CallStatus, ResultKind, StoredResult
from nottwice.model.review import ReviewKind, Verb
from nottwice.model.run import Fence, RunStatus, StepStatus
from nottwice.store.interface import (
    Blocked,
    CallWrite,
    Claim,
    Commit,
    EventWrite,
    Outdated,
    ReviewWrite,
    RunUpdate,
)
from nottwice.testing.conformance.bench import Bench, everything, expect, refused
from nottwice.testing.conformance.samples import (
    FAILURE,
    NOW,
    RESULT,
    WAITS,
    audit,
    checkpoint,
    claim,
    decision,
    event,
    evidence,
    follow,
    full_call,
    graph,
    identity,
    intent,
    pending,
    review,
    run_record,
    step,
    told,
)


def rich_commit(fence: Fence, *calls: CallWrite) -> Commit:
    """Return a commit that writes something of every kind."""
    return Commit(
        workflow_id="run",
        fence=fence,
        run=RunUpdate(RunStatus.WAITING, NOW + 9, FAILURE, waits=WAITS),
        calls=calls,
        steps=(step(), step(node="late", ordinal=2)),
        reviews=(ReviewWrite(review()),),
        evidence=(evidence(),),
        audit=(audit(),),
        checkpoints=(checkpoint(1, 1), checkpoint(2, 1)),
        events=(EventWrite(event()),),
        graph=graph(),
    )


class CommitChecks(Bench):
    """One commit is one transaction."""

    def test_a_commit_makes_everything_in_it_visible_at_once(self) -> None:
        store = self.open()
        fence = claim(store)
        row = pending()
        store.commit(rich_commit(fence, CallWrite(row)))
        for reader in (store, self.open()):
            shown = everything(reader)
            run = run_record(
                holder_id=fence.holder_id,
                status=RunStatus.WAITING,
                updated_at=NOW + 9,
                failure=FAILURE,
                waits=WAITS,
            )
            expected = {
                "run": run,
                "calls": [row],
                "steps": [step(), step(node="late", ordinal=2)],
                "reviews": [review()],
                "evidence": [evidence()],
                "audit": [audit()],
                "checkpoints": [checkpoint(1, 1), checkpoint(2, 1)],
                "events": [event()],
                "graphs": [graph()],
            }
            for kind, wanted in expected.items():
                expect(shown[kind], wanted, f"After one commit of everything: {kind}")

    def test_a_commit_that_is_refused_for_any_reason_writes_nothing_at_all(self) -> None:
        other = pending(identity(tool="other"), key="key", key_since=NOW)
        conflict = pending(identity(tool="other", arguments="2"), key="key", key_since=NOW)
        gone = pending(identity(tool="gone")).done(RESULT, now=NOW)
        reasons: dict[str, tuple[type[Exception], dict[str, Any]]] = {
            "a call that is gone": (
                Outdated,
                {"calls": (CallWrite(gone, (CallStatus.DONE, "x")),)},
            ),
            "an outdated review": (Outdated, {"reviews": (ReviewWrite(review(summary="no"), 9),)}),
            "an event that is gone": (
                Outdated,
                {"events": (EventWrite(event("gone", received_by="call")),)},
            ),
            "another epoch": (OwnershipLost, {"fence": Fence("another", 1)}),
            "a key of other arguments": (
                KeyConflict,
                {"calls": (CallWrite(pending()), CallWrite(conflict))},
            ),
            "an open review": (Blocked, {"unless_blocked": True}),
        }
        for reason, (kind, changes) in reasons.items():
            store = self.fresh()
            fence = claim(store)
            store.commit(intent(other, fence))
            if kind is Blocked:
                waiting = ReviewWrite(review("bbbb0001"))
                store.commit(Commit(workflow_id="run", reviews=(waiting,)))
            before = everything(store)
            refusable = replace(rich_commit(fence, CallWrite(pending())), **changes)
            with refused(kind, what=f"A commit with {reason}"):
                store.commit(refusable)
            expect(everything(store), before, f"A commit refused for {reason} wrote something")

    def test_a_result_and_the_checkpoint_that_follows_are_one_transaction(self) -> None:
        store = self.open()
        fence = claim(store)
        row = pending()
        store.commit(intent(row, fence, checkpoints=(checkpoint(1, 1),), steps=(step(),)))
        done = row.done(RESULT, now=NOW + 1)
        late = replace(follow(done, row, fence), checkpoints=(checkpoint(2, 1),))
        stale = replace(late, calls=(CallWrite(done, (CallStatus.UNKNOWN, "other")),))
        with refused(Outdated, what="A result of another attempt"):
            store.commit(stale)
        expect(store.checkpoint_chain("run"), [checkpoint(1, 1)], "No checkpoint without its row")
        store.commit(late)
        expect(store.calls("run"), [done], "The row of a checkpoint")
        chain = [checkpoint(1, 1), checkpoint(2, 1)]
        expect(store.checkpoint_chain("run"), chain, "The checkpoint of a row")

    def test_records_come_back_exactly_as_they_were_written(self) -> None:
        store = self.open()
        fence = claim(store)
        row = full_call()
        words = "\"'; -- \\ ☃ 🦀 \x7f\u2028"
        happened = decision(Verb.HAPPENED, result=RESULT, holder_stopped=True, why=words)
        decided = review("aaaa0002").decided(happened)
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
        for reader in (store, self.open()):
            expect(reader.load_call(row.identity), row, "A call in which nothing is empty")
            expect(reader.load_step("run", "notify", "start/"), failed, "A failed step")
            expect(reader.load_review("aaaa0002"), decided, "A decided review")
            expect(reader.load_review("aaaa0003"), closed, "A closed review")
            expect(reader.evidence("run"), [item], "Evidence with a result")

    def test_a_step_that_is_done_stays_done(self) -> None:
        store = self.open()
        fence = claim(store)
        began = step(status=StepStatus.IN_PROGRESS)
        failed = step(status=StepStatus.FAILED, finished_at=NOW + 2, failure=FAILURE)
        done = step(status=StepStatus.DONE, finished_at=NOW + 3, output_file='a "b\\☃.md')
        again = step(status=StepStatus.IN_PROGRESS, started_at=NOW + 1, ordinal=9)
        marks = ((began, began), (failed, failed), (again, began), (done, done))
        for record, kept in marks:
            store.commit(Commit(workflow_id="run", fence=fence, steps=(record,)))
            expect(store.load_step("run", "notify", "start/"), kept, "The mark of a step")
        # A commit that another one overtook may still contain the old mark.
        store.commit(Commit(workflow_id="run", fence=fence, steps=(began,)))
        expect(store.load_step("run", "notify", "start/"), done, "The mark of a step that is done")

    def test_stored_json_comes_back_letter_by_letter(self) -> None:
        store = self.open()
        fence = claim(store)
        texts = [
            "null",
            "[]",
            '{"b":1,"a":2}',
            '{ "a" : 1 }',
            "1.0",
            "1e3",
            '"\\u0041"',
            '"A"',
            "9",
        ]
        texts += ["12345678901234567890", '{"a":1,"a":2}', "not json at all", "", "[[[[]]]]"]
        for number, text in enumerate(texts):
            result = StoredResult(ResultKind.PLAIN, text)
            row = pending(identity(tool=f"{number}"), args_json=text).done(result, now=NOW)
            state = checkpoint(number + 1, number + 1, text)
            store.commit(intent(row, fence, checkpoints=(state,)))
        for reader in (store, self.open()):
            rows = reader.calls("run")
            expect([row.args_json for row in rows], texts, "Arguments as text")
            expect([row.result and row.result.json for row in rows], texts, "Results as text")
            states = [reader.checkpoint_chain("run", n + 1)[0].json for n in range(len(texts))]
            expect(states, texts, "States as text")

    def test_what_is_not_there_is_none(self) -> None:
        store = self.open()
        found = (
            store.load_run("run"),
            store.load_call(identity()),
            store.load_step("run", "notify", "start/"),
            store.load_review("aaaa0001"),
            store.load_holder("holder"),
            store.load_graph("refund@1.0.0"),
            store.last_use_of_key("send", "key"),
        )
        expect(found, (None,) * 7, "What an empty ledger loads")
        listed: list[Any] = [store.runs(), store.children("run"), store.checkpoints("run")]
        listed += [*list(everything(store).values())[1:], store.checkpoint_chain("run", 1)]
        expect(listed, [[]] * len(listed), "What an empty ledger lists")

    def test_repeating_a_commit_changes_nothing(self) -> None:
        for what in repeatable(Fence("holder", 1)):
            store = self.fresh()
            commits = repeatable(claim(store))[what]
            for commit in commits:
                store.commit(commit)
            before = everything(store)
            store.commit(commits[-1])
            expect(everything(store), before, f"Repeating {what}")

    def test_a_commit_is_repeated_with_times_that_no_store_keeps_exactly(self) -> None:
        store = self.open()
        odd = NOW + 0.123456789
        record = run_record(created_at=odd, updated_at=odd, claimed_at=odd)
        first = Commit(workflow_id="run", claim=Claim(record))
        row = pending(created_at=odd, started_at=odd)
        opened = review(opened_at=odd)
        second = Commit(
            workflow_id="run",
            fence=Fence("holder", 1),
            calls=(CallWrite(row),),
            reviews=(ReviewWrite(opened),),
        )
        for commit in (first, second):
            # By this store, and by a new one that knows only what is stored.
            for writer in (store, store, self.open()):
                writer.commit(commit)
        expect(len(store.calls("run")), 1, "Calls after a repeated commit")

    def test_repeating_a_claim_changes_nothing(self) -> None:
        store = self.open()
        fence = claim(store)
        before = everything(store)
        record = store.load_run("run")
        if record is not None:
            store.commit(Commit(workflow_id="run", claim=Claim(record)))
        expect(everything(store), before, "A repeated claim")
        store.commit(intent(pending(), fence))

    def test_what_only_the_holder_may_write_is_refused_before_any_store_sees_it(self) -> None:
        holders_only: list[dict[str, Any]] = [
            {"calls": (CallWrite(pending()),)},
            {"steps": (step(),)},
            {"run": RunUpdate(RunStatus.COMPLETED, NOW)},
            {"checkpoints": (checkpoint(1, 1),)},
            {"dropped": (1,)},
            {"events": (EventWrite(event(received_by="call")),)},
        ]
        for written in holders_only:
            with refused(UsageError, what=f"Writing {next(iter(written))} without a fence"):
                Commit(workflow_id="run", **written)

    def test_what_others_may_write_needs_no_holder_and_no_run(self) -> None:
        """Decisions, events, evidence, audit and graphs, but nothing else (B4)."""
        store = self.open()
        theirs = Commit(
            workflow_id="run",
            reviews=(ReviewWrite(review()),),
            events=(EventWrite(event()),),
            evidence=(evidence(),),
            audit=(audit(),),
            graph=graph(),
        )
        store.commit(theirs)
        before = everything(store)
        expect(before["run"], None, "The run that has not been claimed")
        for kind in ("reviews", "events", "evidence", "audit", "graphs"):
            expect(len(before[kind]), 1, f"What a process without the run wrote: {kind}")
        fence = claim(store)
        store.commit(intent(pending(), fence))
        store.commit(told(event("event-2")))
        after = everything(self.open())
        for kind in ("reviews", "evidence", "audit", "graphs"):
            expect(after[kind], before[kind], f"What others wrote before the claim: {kind}")
        expect(len(after["events"]), 2, "What others wrote while the run was held")


def repeatable(fence: Fence) -> dict[str, list[Commit]]:
    """Return commits of every kind, each after those that it follows."""
    row, opened = pending(), review()
    done = row.done(RESULT, now=NOW + 1)
    taken = event(received_by="call", received_at=NOW + 2)
    decided = ReviewWrite(opened.decided(decision()), 1)
    release = RunUpdate(RunStatus.COMPLETED, NOW + 1, release=True)
    return {
        "an intent": [intent(row, fence)],
        "an intent unless blocked": [intent(row, fence, unless_blocked=True)],
        "a result": [intent(row, fence), follow(done, row, fence)],
        "many records": [rich_commit(fence, CallWrite(row))],
        "a decision": [
            Commit(workflow_id="run", reviews=(ReviewWrite(opened),)),
            Commit(workflow_id="run", reviews=(decided,), audit=(audit(),)),
        ],
        "an event": [told(event())],
        "an event that was taken meanwhile": [
            told(event()),
            Commit(workflow_id="run", fence=fence, events=(EventWrite(taken),)),
            told(event()),
        ],
        "taking an event": [
            told(event()),
            Commit(workflow_id="run", fence=fence, events=(EventWrite(taken),)),
        ],
        "dropping a checkpoint": [
            Commit(workflow_id="run", fence=fence, checkpoints=(checkpoint(1, 1),)),
            Commit(workflow_id="run", fence=fence, dropped=(1,)),
        ],
        "a release": [intent(row, fence, run=release)],
    }
