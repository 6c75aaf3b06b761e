"""Does what was reported durable stay, from many threads, over many openings, at any size? (P10)"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from nottwice.errors import OwnershipLost, StoreError
from nottwice.model.call import ResultKind, StoredResult
from nottwice.model.run import Fence
from nottwice.store.interface import Commit, ReviewWrite, Store
from nottwice.testing.conformance.bench import Bench, everything, expect, needs, outcomes_of
from nottwice.testing.conformance.samples import (
    NOW,
    RESULT,
    audit,
    checkpoint,
    claim,
    decision,
    event,
    evidence,
    follow,
    identity,
    intent,
    note,
    noted,
    pending,
    review,
    told,
)

MEGABYTE = 1_000_000


class Endurance(Bench):
    """Threads, closing, sizes, and answers that get lost."""

    def test_commit_soon_is_durable_when_its_future_has_a_result(self) -> None:
        store = self.open()
        expect(store.commit_soon(note(1)).result(timeout=30), None, "The result of a commit")
        expect(noted(self.open()), [1], "What was committed soon")

    def test_commit_soon_brings_the_same_refusals(self) -> None:
        store = self.open()
        claim(store)
        error = store.commit_soon(intent(pending(), Fence("another", 1))).exception(timeout=30)
        expect(type(error), OwnershipLost, "The error of a refused commit")
        expect(store.calls("run"), [], "What a refused commit wrote")

    def test_many_commits_soon_all_arrive(self) -> None:
        store = self.open()
        futures = [store.commit_soon(note(number)) for number in range(50)]
        for future in futures:
            future.result(timeout=60)
        expect(noted(store), list(range(50)), "Commits without waiting in between")

    def test_commits_of_many_threads_all_arrive(self) -> None:
        store = self.open()
        fences = {f"run {number}": claim(store, f"run {number}") for number in range(4)}

        def work(run: str) -> None:
            for number in range(10):
                row = pending(identity(run, arguments=f"{number}"), created_at=NOW + number)
                store.commit(intent(row, fences[run]))
                store.commit(follow(row.done(RESULT, now=NOW + number), row, fences[run]))
                store.commit(note(number, run))

        heard = outcomes_of([partial(work, run) for run in fences])
        expect(heard, ["done"] * 4, "How four threads end")
        for reader in (store, self.open()):
            for run in fences:
                done = [row.status.value for row in reader.calls(run)]
                expect(done, ["DONE"] * 10, f"The calls of {run}")
                expect(noted(reader, run), list(range(10)), f"The notes of {run}")

    def test_threads_that_write_one_run_lose_nothing_of_each_other(self) -> None:
        stores = [self.open() for _ in range(3)]
        fence = claim(stores[0])

        def hold(_: Store) -> None:
            for number in range(10):
                row = pending(identity(arguments=f"{number}"))
                stores[0].commit(intent(row, fence))

        def tell(store: Store) -> None:
            for number in range(10):
                name = f"{stores.index(store)} {number}"
                store.commit(told(event(name)))
                store.commit(Commit(workflow_id="run", evidence=(evidence(name),)))

        works = [partial(hold, stores[0]), partial(tell, stores[1]), partial(tell, stores[2])]
        expect(outcomes_of(works), ["done"] * 3, "How the holder and two others end")
        shown = everything(self.open())
        counts = {kind: len(shown[kind]) for kind in ("calls", "events", "evidence")}
        expect(counts, {"calls": 10, "events": 20, "evidence": 20}, "What all of them wrote")

    def test_readers_see_whole_commits_while_others_write(self) -> None:
        store, reader = self.open(), self.open()
        torn: list[str] = []

        def write() -> None:
            for number in range(30):
                store.commit(note(number, weight=100))

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            while not writing.done():
                entries = reader.audit("run")
                notes = [one.why for one in entries if one.action == "decide abort"]
                heavy = [one.why.strip() for one in entries if one.action == "weigh"]
                expected = [f"note {number}" for number in range(len(notes))]
                if notes != heavy or notes != expected:
                    torn.append(f"{notes} beside {heavy}")
            writing.result()
        expect(torn, [], "Commits that a reader saw half of")

    def test_a_reader_never_misses_what_was_durable_before_it_looked(self) -> None:
        """Other processes write while a run is held. Whatever a store does to merge shows here."""
        holder, other, reader = self.open(), self.open(), self.open()
        fence = claim(holder)
        durable: list[int] = []
        missed: list[str] = []

        def write() -> None:
            for number in range(40):
                other.commit(note(number))
                durable.append(number)
                row = pending(identity(arguments=f"{number}"))
                holder.commit(intent(row, fence))

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            while not writing.done():
                before = len(durable)
                seen = len(noted(reader))
                if seen < before:
                    missed.append(f"{seen} of {before}")
            writing.result()
        expect(missed, [], "What a reader missed")

    @needs("durable")
    def test_what_was_committed_is_there_after_closing_and_opening_again(self) -> None:
        first = self.open()
        fence = claim(first)
        row = pending()
        first.commit(intent(row, fence, checkpoints=(checkpoint(1, 1),)))
        first.commit(note(1))
        before = everything(first)
        first.close()
        second = self.open()
        expect(everything(second), before, "What a new store shows of what a closed one wrote")
        second.commit(follow(row.done(RESULT, now=NOW), row, fence))
        expect(noted(first), [1], "A closed store that is used again")

    def test_closing_twice_is_harmless(self) -> None:
        store = self.open()
        store.commit(note(1))
        store.close()
        store.close()

    def test_a_record_of_a_megabyte_is_kept_whole(self) -> None:
        store = self.open()
        fence = claim(store)
        text = '"' + "ä" * (MEGABYTE // 2) + '"'
        row = pending(args_json=text).done(StoredResult(ResultKind.TYPED, text), now=NOW)
        big = audit("x" * MEGABYTE)
        store.commit(intent(row, fence, checkpoints=(checkpoint(1, 1, text),), audit=(big,)))
        store.commit(told(event(json=text)))
        reader = self.open()
        expect(reader.calls("run") == [row], True, "A call of two megabytes comes back")
        expect(reader.checkpoint_chain("run")[0].json == text, True, "A state of a megabyte")
        expect(reader.audit("run") == [big], True, "A reason of a megabyte")
        expect(reader.events("run")[0].json == text, True, "An event of a megabyte")

    def test_many_records_of_one_run_are_kept_in_order(self) -> None:
        store = self.open()
        fence = claim(store)
        rows = [pending(identity(arguments=f"{n}"), created_at=NOW + n) for n in range(300)]
        for start in range(0, 300, 50):
            calls = [intent(row, fence).calls[0] for row in rows[start : start + 50]]
            store.commit(Commit(workflow_id="run", fence=fence, calls=tuple(calls)))
        expect(self.open().calls("run"), rows, "Three hundred calls")

    @needs("ambiguity")
    def test_a_commit_whose_answer_was_lost_is_resolved_by_repeating_it(self) -> None:
        store = self.open()
        fence = claim(store)
        opened, row = review(), pending()
        store.commit(Commit(workflow_id="run", reviews=(ReviewWrite(opened),)))
        decided = ReviewWrite(opened.decided(decision()), 1)
        for commit in (
            intent(row, fence),
            follow(row.done(RESULT, now=NOW), row, fence),
            Commit(workflow_id="run", reviews=(decided,), audit=(audit(),)),
        ):
            with self.lose_answers(store):
                with contextlib.suppress(StoreError):
                    store.commit(commit)
            store.commit(commit)
            before = everything(store)
            self.open().commit(commit)
            expect(everything(store), before, "A commit after its answer was lost")
        expect(len(store.calls("run")), 1, "Calls after every answer was lost")
