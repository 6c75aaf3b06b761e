"""Do calls follow only what their writer saw, and is a key used for one thing? (P9, T2)"""

from __future__ import annotations

import itertools
from functools import partial

from nottwice.errors import KeyConflict
from nottwice.model.call import CallRow, CallStatus, ResultKind, StoredResult
from nottwice.model.replay_class import ReplayClass
from nottwice.store.interface import CallWrite, Commit, Outdated
from nottwice.testing.conformance.bench import Bench, expect, outcomes_of, refused
from nottwice.testing.conformance.samples import (
    FAILURE,
    NOW,
    RESULT,
    claim,
    follow,
    identity,
    intent,
    pending,
)


class Calls(Bench):
    """The rows of the ledger, and the order in which they may change."""

    def test_an_intent_is_recorded_once(self) -> None:
        store = self.open()
        fence = claim(store)
        row = pending()
        store.commit(intent(row, fence))
        for careful in (False, True):
            again = intent(row._replace(attempt_id="attempt-2"), fence, unless_blocked=careful)
            with refused(Outdated, what="A second intent for one call"):
                store.commit(again)
        expect(store.calls("run"), [row], "The first intent")

    def test_a_result_follows_only_what_its_writer_saw(self) -> None:
        stale = {
            "another attempt": (CallStatus.PENDING, "attempt-0"),
            "another status": (CallStatus.UNKNOWN, "attempt-1"),
            "no row": None,
        }
        for what, seen in stale.items():
            store = self.fresh()
            fence = claim(store)
            row = pending()
            store.commit(intent(row, fence))
            done = row.done(RESULT, now=NOW + 1)
            late = Commit(workflow_id="run", fence=fence, calls=(CallWrite(done, seen),))
            with refused(Outdated, what=f"A result whose writer saw {what}"):
                store.commit(late)
            expect(store.calls("run"), [row], f"The row after a result that saw {what}")
            store.commit(follow(done, row, fence))
            expect(store.calls("run"), [done], "The row after its result")

    def test_a_receipt_is_not_overwritten_by_another_result_of_the_same_attempt(self) -> None:
        store = self.open()
        fence = claim(store)
        row = pending()
        done = row.done(RESULT, now=NOW + 1)
        store.commit(intent(row, fence))
        store.commit(follow(done, row, fence))
        other = row.done(StoredResult(ResultKind.PLAIN, '"something else"'), now=NOW + 1)
        with refused(Outdated, what="Another result for a call that is done"):
            store.commit(follow(other, row, fence))
        expect(store.calls("run"), [done], "The receipt")

    def test_of_two_results_for_one_attempt_one_is_kept(self) -> None:
        store = self.open()
        fence = claim(store)
        row = pending()
        store.commit(intent(row, fence))
        results = [row.done(StoredResult(ResultKind.PLAIN, f"{n}"), now=NOW + n) for n in range(6)]
        commits = [follow(one, row, fence) for one in results]
        heard = outcomes_of([partial(store.commit, commit) for commit in commits])
        expect(heard, ["Outdated"] * 5 + ["done"], "How six concurrent results end")
        expect(store.load_call(row.identity) in results, True, "One of the results is kept")

    def test_a_pure_result_never_makes_a_commit_fail(self) -> None:
        """Pure results are pending writes of other commits. A later computation is as good."""
        store = self.open()
        fence = claim(store)
        first = pending(replay_class=ReplayClass.PURE).done(RESULT, now=NOW)
        again = first.done(StoredResult(ResultKind.PLAIN, "2"), now=NOW + 1)
        again = again._replace(attempt_id="attempt-2")
        store.commit(intent(first, fence))
        store.commit(intent(again, fence))
        expect(store.calls("run"), [again], "The last of two pure results")

    def test_a_call_that_failed_continues_with_another_attempt(self) -> None:
        store = self.open()
        fence = claim(store)
        rows = [pending()]
        rows.append(rows[-1].failed(FAILURE, now=NOW + 1, retry_at=NOW + 5))
        rows.append(rows[-1].next_attempt(attempt_id="two", holder_id="holder", now=NOW + 6))
        rows.append(rows[-1].unknown(FAILURE, now=NOW + 7))
        rows.append(rows[-1].done(RESULT, now=NOW + 8, settled_by="verify"))
        store.commit(intent(rows[0], fence))
        for before, after in itertools.pairwise(rows):
            store.commit(follow(after, before, fence))
            expect(store.load_call(after.identity), after, f"A call that is {after.status.value}")

    def test_a_result_that_was_found_later_takes_the_place_of_one_that_was_not_kept(self) -> None:
        store = self.open()
        fence = claim(store)
        rows = [pending()]
        rows.append(rows[-1].done(StoredResult(ResultKind.NOT_KEPT, "{}"), now=NOW + 1))
        rows.append(rows[-1]._replace(result=StoredResult(ResultKind.TYPED, "[7]")))
        given = StoredResult(ResultKind.GIVEN, "[8]")
        rows.append(rows[-1]._replace(result=given, settled_by="decision by ann"))
        store.commit(intent(rows[0], fence))
        for before, after in itertools.pairwise(rows):
            store.commit(follow(after, before, fence))
            expect(store.load_call(after.identity), after, "A call whose result was found")

    def test_what_identifies_a_stored_call_is_never_changed(self) -> None:
        store = self.open()
        fence = claim(store)
        row = pending(
            replay_class=ReplayClass.IDEMPOTENT_WITH_KEY,
            key="key",
            key_since=NOW,
            window_seconds=60.0,
            label="first",
            trace_id="trace",
            parent_call_id="outer",
        )
        store.commit(intent(row, fence))
        forged = row.done(RESULT, now=NOW + 1)._replace(
            replay_class=ReplayClass.PURE,
            key="other",
            key_since=NOW + 1,
            window_seconds=1.0,
            label="second",
            trace_id="other",
            parent_call_id=None,
            args_json="{}",
            created_at=NOW + 1,
            call_id="other",
        )
        store.commit(follow(forged, row, fence))
        kept = store.load_call(row.identity)
        expect(kept, row.done(RESULT, now=NOW + 1), "Identity, key, class and arguments")

    def test_one_key_with_two_different_arguments_is_refused(self) -> None:
        store = self.open()
        fence, other = claim(store), claim(store, "other run")
        store.commit(intent(keyed("run", "1"), fence))
        with refused(KeyConflict, what="A key that another run used for other arguments") as caught:
            store.commit(intent(keyed("other run", "2"), other))
        expect("'run'" in str(caught[0]), True, "The refusal names the run that has the key")
        expect(store.calls("other run"), [], "Calls of the run that was refused")
        store.commit(intent(keyed("other run", "1"), other))
        store.commit(intent(keyed("other run", "2", tool="another tool"), other))
        store.commit(intent(keyed("other run", "2", key="another key"), other))
        store.commit(intent(keyed("other run", "3", key=None), other))
        expect(len(store.calls("other run")), 4, "Calls that no key forbids")

    def test_a_row_that_has_its_key_already_continues_with_it(self) -> None:
        store = self.open()
        fence = claim(store)
        row = keyed("run", "1")
        store.commit(intent(row, fence))
        store.commit(follow(row.done(RESULT, now=NOW), row, fence))
        expect(store.calls("run"), [row.done(RESULT, now=NOW)], "A call with a key")

    def test_of_two_runs_that_use_a_key_at_once_for_two_things_one_is_refused(self) -> None:
        stores = [self.open() for _ in range(4)]
        fences = [claim(store, f"run {number}") for number, store in enumerate(stores)]
        commits = [intent(keyed(f"run {n}", f"{n}"), fence) for n, fence in enumerate(fences)]
        pairs = zip(stores, commits, strict=True)
        heard = outcomes_of([partial(each.commit, one) for each, one in pairs])
        expect(heard, ["KeyConflict"] * 3 + ["done"], "How four concurrent uses of one key end")

    def test_the_last_use_of_a_key_is_found_in_any_run(self) -> None:
        store = self.open()
        for run, at in {"first": 1.0, "last": 5.0, "between": 3.0}.items():
            row = pending(identity(run), key="key", key_since=NOW, created_at=NOW + at)
            store.commit(intent(row, claim(store, run)))
        found = store.last_use_of_key("send", "key")
        expect(found and found.identity.workflow_id, "last", "The run that used a key last")
        expect(store.last_use_of_key("other tool", "key"), None, "The key of another tool")
        expect(store.last_use_of_key("send", "ke"), None, "A part of a key")

    def test_of_two_uses_of_a_key_at_the_same_time_the_one_recorded_later_is_the_last(self) -> None:
        store = self.open()
        fence = claim(store)
        for node in ("z", "a"):
            row = pending(identity(node=node), key="key", key_since=NOW)
            store.commit(intent(row, fence))
        found = store.last_use_of_key("send", "key")
        expect(found and found.identity.node_id, "a", "The use that was recorded later")


def keyed(run: str, arguments: str, *, tool: str = "send", key: str | None = "key") -> CallRow:
    """Return an intent with a key."""
    return pending(identity(run, tool=tool, arguments=arguments), key=key, key_since=NOW)
