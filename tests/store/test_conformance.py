"""Does every store that is shipped keep every claim, and does the suite notice one that cannot?

The second half breaks a store on purpose, once for each kind of claim. A suite that finds nothing
wrong with those is worth nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import pytest

from nottwice.errors import CommitUnknown, OwnershipLost, UsageError
from nottwice.model import values
from nottwice.model.call import CallRow
from nottwice.model.run import (
    CheckpointRecord,
    GraphRecord,
    Life,
    RunRecord,
    RunStatus,
    WaitKind,
)
from nottwice.model.runs.notices import NoticeRecord
from nottwice.model.runs.workers import WorkerRecord
from nottwice.model.sealing.keyring import make_key, make_keyring
from nottwice.model.sealing.seal import Seals
from nottwice.store.files.store import JsonFileStore
from nottwice.store.interface import Blocked, CallWrite, Claim, Commit, Outdated, Store
from nottwice.store.memory import MemoryData, MemoryStore
from nottwice.store.rules import apply
from nottwice.store.sqlite.store import SqliteStore
from nottwice.testing.conformance import (
    NotConforming,
    Other,
    OtherStore,
    StoreConformance,
    check_store,
    claims_of,
)
from nottwice.testing.conformance.others import OtherFailed, OtherProcess
from tests.store.samples import claim

SEALS = Seals(make_keyring([make_key(bytes(range(32)))]))


class InMemory(StoreConformance):
    """A store in memory, of whatever class."""

    durable = False
    kind: ClassVar[type[MemoryStore]] = MemoryStore

    def setup_method(self) -> None:
        self._data: dict[Path, MemoryData] = {}
        super().setup_method()

    def open_store(self, place: Path, now: float) -> Store:
        return self.kind(self._data.setdefault(place, MemoryData()), now=now)

    def start_other(self, place: Path) -> Other:
        return OtherStore(self.open_store(place, 0.0))

    @contextlib.contextmanager
    def lose_answers(self, store: Store) -> Iterator[None]:
        def commit_and_forget(commit: Commit) -> None:
            type(store).commit(store, commit)
            raise CommitUnknown("The answer was lost.")

        with patch.object(store, "commit", commit_and_forget):
            yield


class TestMemory(InMemory):
    pass


class TestSqlite(StoreConformance):
    def open_store(self, place: Path, now: float) -> Store:
        return SqliteStore(place / "ledger.db", now=now)


class TestSealedSqlite(StoreConformance):
    """Every claim also holds with a key, and every run adds up after it (P97)."""

    def open_store(self, place: Path, now: float) -> Store:
        return SqliteStore(place / "ledger.db", now=now, seals=SEALS)

    def teardown_method(self) -> None:
        for ledger in self.place.rglob("ledger.db"):
            store = SqliteStore(ledger, now=0.0, create=False, seals=SEALS)
            for run in store.runs():
                assert store.flaws(run.workflow_id, thorough=True) == []
        super().teardown_method()


class TestSealedJsonFile(StoreConformance):
    def open_store(self, place: Path, now: float) -> Store:
        return JsonFileStore(place / "runs", now=now, seals=SEALS)


class TestJsonFile(StoreConformance):
    def open_store(self, place: Path, now: float) -> Store:
        return JsonFileStore(place / "runs", now=now)

    @contextlib.contextmanager
    def lose_answers(self, store: Store) -> Iterator[None]:
        sync = os.fsync

        def sync_and_forget(descriptor: int) -> None:
            sync(descriptor)
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(errno.EIO, "the disk does not say")

        with patch("os.fsync", sync_and_forget):
            yield


# Capabilities


def test_a_claim_that_a_store_cannot_keep_is_not_collected() -> None:
    everything, in_memory = set(claims_of(TestJsonFile)), set(claims_of(TestMemory))
    durable_only = {
        "test_a_stopped_holder_is_alive",
        "test_what_was_committed_is_there_after_closing_and_opening_again",
    }
    assert everything - in_memory == durable_only
    ambiguous = "test_a_commit_whose_answer_was_lost_is_resolved_by_repeating_it"
    assert everything - set(claims_of(TestSqlite)) == {ambiguous}
    assert TestSqlite.capabilities() == {"durable", "proves_death", "other_holders"}


def test_a_store_that_is_never_opened_is_an_error_of_its_author() -> None:
    class Forgotten(StoreConformance):
        pass

    name = "test_an_intent_is_recorded_once"
    (broken,) = check_store(Forgotten, claims=[name])
    assert broken.claim == name
    assert "does not define how to open its store" in broken.reason
    bench = Forgotten()
    bench.setup_method()
    with pytest.raises(UsageError, match="Define open_store"):
        bench.open()
    bench.teardown_method()


def test_a_class_that_no_other_process_can_find_says_so(tmp_path: Path) -> None:
    class Inside(StoreConformance):
        pass

    with pytest.raises(OtherFailed, match="top level of a module"):
        OtherProcess(Inside, tmp_path)


def test_a_place_is_empty_and_gone_afterwards() -> None:
    bench = TestMemory()
    bench.setup_method()
    places = [bench.place, bench.new_place()]
    assert [list(place.iterdir()) for place in places] == [[], []]
    bench.teardown_method()
    assert not any(place.exists() for place in places)


def test_a_store_that_conforms_has_nothing_broken() -> None:
    assert list(check_store(TestMemory)) == []


# Broken on purpose: each store, and the claim that must notice it


class ForgetsSteps(MemoryStore):
    def commit(self, commit: Commit) -> None:
        super().commit(replace(commit, steps=()))


class WritesHalf(MemoryStore):
    def commit(self, commit: Commit) -> None:
        self.data.audit.update(dict.fromkeys(commit.audit))
        super().commit(commit)


class ChecksCallsAfterCheckpoints(MemoryStore):
    def commit(self, commit: Commit) -> None:
        for one in commit.checkpoints:
            self.data.checkpoints[(one.workflow_id, one.version)] = one
        super().commit(commit)


class IgnoresFences(MemoryStore):
    def commit(self, commit: Commit) -> None:
        run = self.load_run(commit.workflow_id)
        if run is not None and commit.fence is not None:
            shown = replace(commit.fence, epoch=run.epoch, holder_id=str(run.holder_id))
            commit = replace(commit, fence=shown)
        super().commit(commit)


class LetsEverybodyClaim(MemoryStore):
    def commit(self, commit: Commit) -> None:
        run = self.load_run(commit.workflow_id)
        if commit.claim is not None:
            seen = None if run is None else run.epoch
            commit = replace(commit, claim=replace(commit.claim, after_epoch=seen))
        super().commit(commit)


class TakesLikenessForEquality(MemoryStore):
    def commit(self, commit: Commit) -> None:
        run, wanted = self.load_run(commit.workflow_id), commit.claim
        if wanted is not None and run is not None:
            alike = (run.epoch, run.holder_id) == (wanted.run.epoch, wanted.run.holder_id)
            if alike:
                return
        super().commit(commit)


class OverwritesReceipts(MemoryStore):
    def commit(self, commit: Commit) -> None:
        def seen(write: CallWrite) -> CallWrite:
            found = self.load_call(write.row.identity)
            return write if found is None else replace(write, after=found.state)

        super().commit(replace(commit, calls=tuple(map(seen, commit.calls))))


class RefusesToRepeat(MemoryStore):
    def commit(self, commit: Commit) -> None:
        for write in commit.calls:
            found = self.load_call(write.row.identity)
            if found is not None and found.state != write.after:
                raise Outdated("I have seen this before")
        super().commit(commit)


class ForgetsWhatIsIdentity(MemoryStore):
    def commit(self, commit: Commit) -> None:
        super().commit(commit)
        for write in commit.calls:
            self.data.calls[write.row.identity] = write.row


class IgnoresReviews(MemoryStore):
    def commit(self, commit: Commit) -> None:
        super().commit(replace(commit, unless_blocked=False))


class BlocksForOtherRuns(MemoryStore):
    def commit(self, commit: Commit) -> None:
        waiting = [one for one in self.open_reviews() if one.blocks]
        if commit.unless_blocked and waiting:
            raise Blocked(waiting)
        super().commit(commit)


class DecidesTwice(MemoryStore):
    def commit(self, commit: Commit) -> None:
        def seen(write: Any) -> Any:
            found = self.load_review(write.review.review_id)
            return write if found is None else replace(write, after_version=found.version)

        super().commit(replace(commit, reviews=tuple(map(seen, commit.reviews))))


class IgnoresKeysOfOtherRuns(MemoryStore):
    def commit(self, commit: Commit) -> None:
        kept = self.data.calls.items()
        others = {who: row for who, row in kept if who.workflow_id != commit.workflow_id}
        for who in others:
            del self.data.calls[who]
        try:
            super().commit(commit)
        finally:
            self.data.calls.update(others)


class SortsByTool(MemoryStore):
    def calls(self, workflow_id: str, **asked: Any) -> list[CallRow]:
        return sorted(super().calls(workflow_id, **asked), key=lambda row: row.identity.tool_name)


class MatchesPatterns(MemoryStore):
    def runs(self, *, prefix: str = "", limit: int | None = None, **asked: Any) -> list[RunRecord]:
        found = [run for run in super().runs(**asked) if fnmatch(run.workflow_id, prefix + "*")]
        return found[:limit]


class IgnoresCase(MemoryStore):
    def load_run(self, workflow_id: str) -> RunRecord | None:
        names = {run.workflow_id.lower(): run for run in self.runs()}
        return names.get(workflow_id.lower())

    def commit(self, commit: Commit) -> None:
        known = self.load_run(commit.workflow_id)
        if commit.claim is not None and known not in (None, commit.claim.run):
            if commit.claim.after_epoch is None:
                raise Outdated("there is such a run")
        super().commit(commit)


class DeliversEventsTwice(MemoryStore):
    def commit(self, commit: Commit) -> None:
        super().commit(commit)
        for write in commit.events:
            self.data.events[(commit.workflow_id, write.event.event_id)] = write.event


class LetsEventsBeStolen(MemoryStore):
    def commit(self, commit: Commit) -> None:
        for write in commit.events:
            where = (commit.workflow_id, write.event.event_id)
            if where in self.data.events and write.event.received_by is not None:
                self.data.events[where] = replace(write.event, received_by=None)
        super().commit(commit)


class KeepsDroppedCheckpoints(MemoryStore):
    def commit(self, commit: Commit) -> None:
        super().commit(replace(commit, dropped=()))


class ForgetsSnapshots(MemoryStore):
    def checkpoint_chain(
        self, workflow_id: str, version: int | None = None
    ) -> list[CheckpointRecord]:
        return super().checkpoint_chain(workflow_id, version)[-1:]


class MixesVisits(MemoryStore):
    def calls_under(
        self, workflow_id: str, node_id: str, *, visit: str | None = None
    ) -> list[CallRow]:
        return super().calls_under(workflow_id, node_id)


class SeesEarlierVersionsOnly(MemoryStore):
    def checkpoint_chain(
        self, workflow_id: str, version: int | None = None
    ) -> list[CheckpointRecord]:
        chain = super().checkpoint_chain(workflow_id, version)
        return [one for one in chain if version is None or one.version <= version]


class ReplacesGraphs(MemoryStore):
    def commit(self, commit: Commit) -> None:
        super().commit(commit)
        if commit.graph is not None:
            self.data.graphs[commit.graph.graph_id] = commit.graph

    def graphs(self) -> list[GraphRecord]:
        return super().graphs()[:1]


class TidiesJson(MemoryStore):
    def load_call(self, identity: Any) -> CallRow | None:
        row = super().load_call(identity)
        return None if row is None else row._replace(args_json=_tidy(row.args_json))

    def calls(self, workflow_id: str, **asked: Any) -> list[CallRow]:
        found = super().calls(workflow_id, **asked)
        return [row._replace(args_json=_tidy(row.args_json)) for row in found]


def _tidy(text: str) -> str:
    with contextlib.suppress(Exception):
        return values.canonical(values.decode(text)).decode()
    return text


class ForgetsWaits(MemoryStore):
    def commit(self, commit: Commit) -> None:
        run = commit.run
        super().commit(replace(commit, run=None if run is None else replace(run, waits=())))


class LosesChildren(MemoryStore):
    def commit(self, commit: Commit) -> None:
        wanted = commit.claim
        if wanted is not None:
            orphan = Claim(replace(wanted.run, parent_id=None), wanted.after_epoch)
            commit = replace(commit, claim=orphan)
        super().commit(commit)


class OverhearsEvents(MemoryStore):
    def ready_runs(self, **asked: Any) -> list[RunRecord]:
        found = super().ready_runs(**asked)
        return [run for run in found if not any(wait.kind is WaitKind.EVENT for wait in run.waits)]


class ServesTheLastFirst(MemoryStore):
    def ready_runs(self, **asked: Any) -> list[RunRecord]:
        return super().ready_runs(**asked)[::-1]


class RemovesWhatIsOpen(MemoryStore):
    def commit(self, commit: Commit) -> None:
        removal = commit.removal
        if removal is None:
            super().commit(commit)
            return
        known = self.data.runs.get(removal.run.workflow_id)
        if known is None or known.epoch not in (removal.after_epoch, removal.run.epoch):
            raise Outdated("another epoch")
        apply(self.data, commit)


class RemovesOtherRuns(MemoryStore):
    def commit(self, commit: Commit) -> None:
        super().commit(commit)
        if commit.removal is not None and commit.removal.rest:
            self.data.reviews.clear()


class StartsRemovedRunsAgain(MemoryStore):
    def commit(self, commit: Commit) -> None:
        wanted = commit.claim
        if wanted is not None:
            known = self.data.runs.get(wanted.run.workflow_id)
            if known is not None and known.status is RunStatus.REMOVED:
                self.data.runs.pop(wanted.run.workflow_id)
                commit = replace(commit, claim=Claim(wanted.run))
        super().commit(commit)


class ForgetsHolders(MemoryStore):
    def runs_held_by(self, holder_id: str) -> list[RunRecord]:
        alive = self.life_of(holder_id) is Life.ALIVE
        return super().runs_held_by(holder_id) if alive else []


class NeverDies(MemoryStore):
    def life_of(self, holder_id: str) -> Life:
        return Life.ALIVE


class CallsTheLivingDead(MemoryStore):
    def life_of(self, holder_id: str) -> Life:
        return Life.DEAD


class AnswersTooEarly(MemoryStore):
    def commit_soon(self, commit: Commit) -> Future[None]:
        future: Future[None] = Future()
        future.set_result(None)
        return future


class SwallowsRefusals(MemoryStore):
    def commit_soon(self, commit: Commit) -> Future[None]:
        future: Future[None] = Future()
        with contextlib.suppress(OwnershipLost, Outdated):
            self.commit(commit)
        future.set_result(None)
        return future


class ShortensText(MemoryStore):
    def commit(self, commit: Commit) -> None:
        cut = [replace(entry, why=entry.why[:65_535]) for entry in commit.audit]
        super().commit(replace(commit, audit=tuple(cut)))


class GivesANoticeToTwo(MemoryStore):
    def take_notices(self, *, lease_seconds: float, **asked: Any) -> list[NoticeRecord]:
        return super().take_notices(lease_seconds=0.0, **asked)


class KeepsNoticesOfTheDead(MemoryStore):
    def take_notices(self, *, lease_seconds: float, **asked: Any) -> list[NoticeRecord]:
        return super().take_notices(lease_seconds=lease_seconds + 1e9, **asked)


class SendsWhatWasAcknowledged(MemoryStore):
    def settle_notices(self, ids: Any, **asked: Any) -> list[str]:
        super().settle_notices(ids, **{**asked, "retry_seconds": 0.0})
        return list(ids)


class RemembersWorkers(MemoryStore):
    def forget_workers(self, ids: Any) -> None:
        pass


class AnnouncesAWorkerAnew(MemoryStore):
    def announce(self, worker: WorkerRecord) -> None:
        super().announce(replace(worker, started_at=worker.seen_at))


class DoesNotSayHowItReads(MemoryStore):
    reads_can_block: Any = None


BROKEN = {
    ForgetsSteps: "test_a_commit_makes_everything_in_it_visible_at_once",
    WritesHalf: "test_a_commit_that_is_refused_for_any_reason_writes_nothing_at_all",
    ChecksCallsAfterCheckpoints: (
        "test_a_result_and_the_checkpoint_that_follows_are_one_transaction"
    ),
    IgnoresFences: "test_only_the_holder_of_this_epoch_writes",
    LetsEverybodyClaim: "test_a_claim_names_the_epoch_it_saw",
    TakesLikenessForEquality: "test_two_claims_that_look_alike_are_not_one",
    OverwritesReceipts: ("test_a_receipt_is_not_overwritten_by_another_result_of_the_same_attempt"),
    RefusesToRepeat: "test_repeating_a_commit_changes_nothing",
    ForgetsWhatIsIdentity: "test_what_identifies_a_stored_call_is_never_changed",
    IgnoresReviews: "test_a_commit_can_be_refused_while_a_review_is_open",
    BlocksForOtherRuns: ("test_an_accepted_drift_and_the_reviews_of_other_runs_block_nothing"),
    DecidesTwice: "test_of_several_decisions_at_the_same_moment_one_counts",
    IgnoresKeysOfOtherRuns: "test_one_key_with_two_different_arguments_is_refused",
    SortsByTool: ("test_calls_come_oldest_first_and_then_in_the_order_they_were_recorded"),
    MatchesPatterns: "test_a_prefix_of_a_run_id_is_matched_literally",
    IgnoresCase: "test_any_text_is_an_id_like_any_other",
    DeliversEventsTwice: "test_an_event_is_taken_once",
    LetsEventsBeStolen: "test_an_event_is_taken_once",
    KeepsDroppedCheckpoints: "test_a_version_that_is_removed_is_gone_and_the_others_stay",
    ForgetsSnapshots: "test_a_version_is_rebuilt_from_its_snapshot_and_what_followed",
    MixesVisits: "test_a_visit_of_a_node_is_not_another_visit",
    SeesEarlierVersionsOnly: "test_a_version_may_come_to_rest_on_a_later_one",
    ReplacesGraphs: "test_a_graph_never_changes_under_its_id",
    TidiesJson: "test_stored_json_comes_back_letter_by_letter",
    ForgetsWaits: "test_a_status_does_not_give_the_run_up",
    LosesChildren: "test_the_children_of_a_run_come_oldest_first",
    OverhearsEvents: "test_a_decision_or_an_event_while_a_run_is_released_is_not_missed",
    ServesTheLastFirst: "test_new_runs_come_in_their_turn_and_no_more_than_asked_for",
    RemovesWhatIsOpen: "test_only_a_run_that_is_over_and_as_it_was_seen_is_removed",
    RemovesOtherRuns: "test_what_is_removed_is_gone_and_the_rest_stays",
    StartsRemovedRunsAgain: "test_a_removed_run_is_never_claimed_again",
    ForgetsHolders: "test_holders_of_runs_of_graphs_are_known_even_if_they_are_dead",
    NeverDies: "test_a_killed_holder_is_never_called_alive_and_its_commits_stay",
    CallsTheLivingDead: "test_a_live_holder_elsewhere_is_alive_and_known",
    AnswersTooEarly: "test_commit_soon_is_durable_when_its_future_has_a_result",
    SwallowsRefusals: "test_commit_soon_brings_the_same_refusals",
    GivesANoticeToTwo: "test_a_notice_has_one_taker_while_its_lease_lasts",
    KeepsNoticesOfTheDead: "test_a_lease_that_ran_out_lets_the_next_taker_have_it",
    SendsWhatWasAcknowledged: "test_what_is_acknowledged_is_not_taken_again",
    RemembersWorkers: "test_workers_are_on_record_until_they_are_forgotten",
    AnnouncesAWorkerAnew: "test_a_worker_that_is_heard_from_again_is_the_same_worker",
    DoesNotSayHowItReads: "test_it_says_whether_its_reads_can_block",
    ShortensText: "test_a_record_of_a_megabyte_is_kept_whole",
}


@pytest.mark.parametrize("store", BROKEN, ids=lambda store: store.__name__)
def test_a_store_that_is_broken_on_purpose_is_noticed(store: type[MemoryStore]) -> None:
    class Author(InMemory):
        kind = store

    (broken,) = check_store(Author, claims=[BROKEN[store]])
    assert broken.claim == BROKEN[store]
    # A claim, or a commit that a store must accept; never an accident of the suite.
    assert broken.reason.startswith((NotConforming.__name__, "Outdated", "Blocked"))


def test_what_is_wrong_is_said_with_both_sides_and_not_at_length() -> None:
    class Author(InMemory):
        kind = ForgetsSteps

    (broken,) = check_store(Author, claims=["test_a_commit_makes_everything_in_it_visible_at_once"])
    assert "The store shows: []" in broken.reason
    assert "It must show:    [StepRecord(" in broken.reason
    assert len(broken.reason) < 5_000


def test_the_broken_stores_are_only_a_little_broken() -> None:
    """Each does what it should in the plainest case, so that it is the claim that finds it."""
    for kind in BROKEN:
        store = kind()
        claim(store)
        assert store.load_run("run") is not None
