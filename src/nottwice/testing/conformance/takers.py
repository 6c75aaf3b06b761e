"""Does a store give each notice to one taker at a time, and to another one if that taker died?"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import replace

from nottwice.model.runs.notices import NOTICE_KINDS, REVIEW_OLD, RUN_READY, NoticeRecord
from nottwice.store.interface import Commit, NoticeWrite, Outdated, Store
from nottwice.testing.conformance.bench import Bench, expect, refused
from nottwice.testing.conformance.samples import NOW, event, told

HOUR = 3600.0
_OLD = NoticeRecord("0ld", REVIEW_OLD, "run-0", NOW + 90, '{"review":"aaaa0001"}')


def _told(store: Store, number: int) -> list[str]:
    """Add some notices; return their ids, oldest first."""
    for one in range(number):
        store.commit(told(event(f"e-{one}", f"run-{one}", sent_at=NOW + one)))
    return [notice.notice_id for notice in store.notices()]


def _take(
    store: Store,
    by: str,
    *,
    lease: float = HOUR,
    limit: int = 9,
    kinds: Collection[str] = NOTICE_KINDS,
    only: Collection[str] | None = None,
) -> list[str]:
    taken = store.take_notices(
        by=by, kinds=kinds, now=NOW, lease_seconds=lease, limit=limit, only=only
    )
    return [notice.notice_id for notice in taken]


class TakerChecks(Bench):
    """Notices are taken with a lease, acknowledged, returned, and taken again."""

    def test_a_notice_has_one_taker_while_its_lease_lasts(self) -> None:
        store, other = self.open(), self.open()
        ids = _told(store, 3)
        expect(_take(store, "a", limit=2), ids[:2], "What the first taker gets")
        expect(_take(other, "b"), ids[2:], "What another taker gets")
        expect(_take(other, "c"), [], "What is left for a third")
        due = other.due_notices(kinds=NOTICE_KINDS, now=NOW, limit=9)
        expect(due, [], "The notices that could be taken")
        expect(_take(store, "a", limit=9), ids[:2], "A taking that is repeated")

    def test_a_lease_that_ran_out_lets_the_next_taker_have_it(self) -> None:
        store = self.open()
        ids = _told(store, 2)
        expect(_take(store, "dies", lease=0.0), ids, "What a taker gets that dies")
        due = store.due_notices(kinds=NOTICE_KINDS, now=NOW, limit=9)
        expect([one.leased_by for one in due], ["dies", "dies"], "The taker of what is due")
        for reader in (store, self.open()):
            expect([one.tries for one in reader.notices()], [1, 1], "The tries after one taking")
        expect(_take(self.open(), "next"), ids, "What the next taker gets")
        expect([one.tries for one in store.notices()], [2, 2], "The tries after two takings")
        expect(store.settle_notices(ids, by="dies", now=NOW), [], "What the first one may settle")
        settled = store.settle_notices(ids, by="next", now=NOW + 1)
        expect(sorted(settled), sorted(ids), "What the second one may settle")

    def test_what_is_acknowledged_is_not_taken_again(self) -> None:
        store = self.open()
        ids = _told(store, 3)
        _take(store, "a", lease=0.0)
        for _ in range(2):
            # Whether the first attempt was durable may have been unknown.
            expect(store.settle_notices(ids[:1], by="a", now=NOW + 5), ids[:1], "What is settled")
        store.settle_notices(ids[1:2], by="a", now=NOW + 6, problem="it is gone")
        for reader in (store, self.open()):
            expect(_take(reader, "b", lease=0.0), ids[2:], "What is left to take")
            settled = reader.settled_notices(since=NOW + 5, kinds=NOTICE_KINDS)
            shown = [(one.notice_id, one.sent_at, one.problem) for one in settled]
            wanted = [(ids[0], NOW + 5, None), (ids[1], NOW + 6, "it is gone")]
            expect(shown, wanted, "The notices that are settled")
            later = reader.settled_notices(since=NOW + 6, kinds=(RUN_READY,))
            expect([one.notice_id for one in later], ids[1:2], "Those settled since a time")
            given_up = reader.settled_notices(since=0.0, kinds=NOTICE_KINDS, given_up=True)
            expect([one.notice_id for one in given_up], ids[1:2], "Those whose last try failed")
            others = reader.settled_notices(since=0.0, kinds=(REVIEW_OLD,))
            expect(others, [], "The settled notices of another kind")

    def test_what_is_returned_waits_and_comes_back(self) -> None:
        store = self.open()
        ids = _told(store, 2)
        _take(store, "a")
        store.settle_notices(ids[:1], by="a", now=NOW, retry_seconds=HOUR, problem="503")
        store.settle_notices(ids[1:], by="a", now=NOW, retry_seconds=0.0, problem="timeout")
        expect(_take(self.open(), "b"), ids[1:], "What came back")
        problems = [one.problem for one in self.open().notices()]
        expect(problems, ["503", "timeout"], "The reasons why they were returned")

    def test_a_taker_gets_only_what_it_asks_for(self) -> None:
        store = self.open()
        ids = _told(store, 4)
        expect(store.add_notice(_OLD), True, "Whether an added notice is new")
        expect(store.add_notice(_OLD), False, "Whether it is new the second time")
        expect(_take(store, "a", kinds=(REVIEW_OLD,)), ["0ld"], "What a taker of one kind gets")
        expect(_take(store, "b", kinds=()), [], "What a taker of no kind gets")
        expect(_take(store, "c", only=[ids[2], "none"]), ids[2:3], "What was asked for by its id")
        expect(_take(store, "d", only=[]), [], "What is taken of none")
        expect(_take(store, "e", limit=1), ids[:1], "The oldest of the rest")

    def test_takers_at_the_same_moment_share_the_work(self) -> None:
        ids = _told(self.open(), 24)
        got: list[list[str]] = []

        def take(name: str, store: Store) -> None:
            for turn in range(12):
                got.append(_take(store, f"{name}-{turn}", limit=3))

        threads = [threading.Thread(target=take, args=(name, self.open())) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken = [notice_id for each in got for notice_id in each]
        expect(sorted(taken), sorted(ids), "What three takers got together")

    def test_a_write_of_a_taker_is_refused_if_the_notice_has_changed(self) -> None:
        store = self.open()
        _told(store, 1)
        (seen,) = store.notices()
        mine = replace(seen, leased_by="me", leased_until=NOW + HOUR, tries=1)
        write = Commit(workflow_id="run-0", notices=(NoticeWrite(mine, seen),))
        store.commit(write)
        store.commit(write)
        theirs = replace(mine, leased_by="them")
        with refused(Outdated, what="A lease on what another taker has"):
            store.commit(Commit(workflow_id="run-0", notices=(NoticeWrite(theirs, seen),)))
        with refused(Outdated, what="A new notice with the id of another"):
            store.commit(Commit(workflow_id="run-0", notices=(NoticeWrite(theirs),)))
        for reader in (store, self.open()):
            expect(reader.notices(), [mine], "The notice")
