"""Can every saved version of a run be listed, loaded, compared and removed, and by whom?"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine.upkeep.history import SavedVersion, compare, history, load, prune
from nottwice.errors import LedgerCorrupt, RunBusy, StoreError, UnknownRun, UsageError
from nottwice.model.failure import Failure, FailureClass
from nottwice.model.run import Fence, RunRecord, RunStatus, Wait, WaitKind
from nottwice.model.saving.checkpoint import Saved, save
from nottwice.store.interface import Claim, Commit, RunUpdate, Store
from nottwice.store.memory import MemoryData, MemoryStore
from nottwice.store.sqlite.store import SqliteStore

NOW = 1_700_000_000.0
RUN = "ticket-7"


class Place:
    """Where a ledger is: every process that opens it finds what the last one left."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind = kind
        self._path = folder / "ledger.db"
        self._data = MemoryData()
        self.opened: list[Store] = []

    def open(self) -> Store:
        store: Store
        if self._kind == "memory":
            store = MemoryStore(self._data, now=NOW)
        else:
            store = SqliteStore(self._path, now=NOW)
        self.opened.append(store)
        return store


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    place = Place(request.param, tmp_path)
    yield place
    for store in place.opened:
        store.close()


def claim(store: Store, *, run_id: str = RUN) -> Fence:
    run = store.load_run(run_id)
    holder_id = store.holder().holder_id
    if run is None:
        claimed = RunRecord(run_id, RunStatus.RUNNING, 1, holder_id, NOW, NOW, NOW)
        store.commit(Commit(workflow_id=run_id, claim=Claim(claimed)))
    else:
        claimed = replace(run, epoch=run.epoch + 1, holder_id=holder_id)
        store.commit(Commit(workflow_id=run_id, claim=Claim(claimed, run.epoch)))
    return Fence(holder_id, claimed.epoch)


def leave(store: Store, fence: Fence, *, status: RunStatus = RunStatus.COMPLETED) -> None:
    release = RunUpdate(status, NOW + 5, release=True)
    store.commit(Commit(workflow_id=RUN, fence=fence, run=release))


def image(number: int) -> Any:
    """A state that grows, changes and shrinks now and then."""
    messages = [{"number": each, "text": "x" * 90} for each in range(number // 20 * 5, number)]
    return {
        "state": {"count": number, "messages": messages, "last": str(number) * 40},
        "position": {"node": f"node {number % 3}"},
    }


def save_versions(store: Store, fence: Fence, count: int) -> None:
    saved: Saved | None = None
    old: Any = None
    for number in range(count):
        new = image(number)
        record, saved = save(
            saved,
            workflow_id=RUN,
            node_id="/" if number == 0 else f"node {number % 3}",
            old=old,
            new=new,
            now=NOW + number,
        )
        store.commit(Commit(workflow_id=RUN, fence=fence, checkpoints=(record,)))
        old = new


def finished(place: Place, count: int = 60) -> Store:
    """A store with a completed run of this many versions."""
    store = place.open()
    fence = claim(store)
    save_versions(store, fence, count)
    leave(store, fence)
    return store


def assert_holds(store: Store, versions: set[int]) -> None:
    assert [each.version for each in history(store, RUN)] == sorted(versions)
    for version in versions:
        assert load(store, RUN, version) == image(version)


# Reading


def test_every_version_is_listed_and_loads_as_it_was_saved(place: Place) -> None:
    store = finished(place)
    assert history(store, RUN)[:2] == [
        SavedVersion(0, "/", NOW),
        SavedVersion(1, "node 1", NOW + 1),
    ]
    assert len({one.snapshot for one in store.checkpoints(RUN)}) > 5
    assert_holds(store, set(range(60)))
    assert load(store, RUN) == image(59)


def test_two_versions_are_compared_in_their_state(place: Place) -> None:
    store = finished(place, 9)
    told = [str(change) for change in compare(store, RUN, 6, 7)]
    assert told[0] == "~ state.count: 6 → 7"
    assert told[1].startswith('+ state.messages[6]: {"number":6,')
    assert len(told) == 3
    assert compare(store, RUN, 6, 6) == []
    back = [str(change) for change in compare(store, RUN, 7, 6)]
    assert back[0] == "~ state.count: 7 → 6"
    assert back[1].startswith("- state.messages[6]:")


def test_a_run_or_version_that_is_not_there_is_said_to_be_missing(place: Place) -> None:
    store = finished(place, 4)
    with pytest.raises(UsageError, match=r"has no version 4.*It has 4, from 0 to 3"):
        load(store, RUN, 4)
    for ask in (load, history):
        with pytest.raises(UnknownRun, match="nottwice runs"):
            ask(store, "nobody")
    claim(store, run_id="bare")
    assert history(store, "bare") == []
    with pytest.raises(UsageError, match="has saved no versions"):
        load(store, "bare")


def test_versions_without_a_state_are_not_compared(place: Place) -> None:
    store = place.open()
    fence = claim(store)
    record, _ = save(None, workflow_id=RUN, node_id="/", old=None, new=[1], now=NOW)
    store.commit(Commit(workflow_id=RUN, fence=fence, checkpoints=(record,)))
    with pytest.raises(LedgerCorrupt, match="holds no state"):
        compare(store, RUN, 0, 0)


# Removing


@pytest.mark.parametrize("order", ["in order", "at random"])
def test_every_middle_version_can_be_removed_one_after_the_other(place: Place, order: str) -> None:
    store = finished(place)
    versions, left = list(range(1, 59)), set(range(60))
    if order == "at random":
        random.Random(3).shuffle(versions)
    for number, version in enumerate(versions):
        prune(store, RUN, versions=[version])
        left.remove(version)
        if number % 7 == 0:
            assert_holds(store, left)
    assert_holds(store, {0, 59})


def test_many_versions_are_removed_at_once_across_chains(place: Place) -> None:
    store = finished(place)
    drop = set(range(0, 59, 2)) | set(range(20, 40))
    prune(store, RUN, versions=drop)
    assert_holds(place.open(), set(range(60)) - drop)


def test_the_run_is_given_back_as_it_was(place: Place) -> None:
    store = place.open()
    fence = claim(store)
    save_versions(store, fence, 8)
    waits = (Wait(WaitKind.TIMER, "later", "node 1", NOW + 60),)
    failure = Failure(FailureClass.PERMANENT, "ValueError", "no such account")
    update = RunUpdate(RunStatus.WAITING, NOW + 5, failure, release=True, waits=waits)
    store.commit(Commit(workflow_id=RUN, fence=fence, run=update))
    before = store.load_run(RUN)
    assert before is not None
    prune(store, RUN, versions=[3])
    assert store.load_run(RUN) == replace(before, epoch=before.epoch + 1)


def test_the_newest_version_is_never_removed(place: Place) -> None:
    store = finished(place, 8)
    with pytest.raises(UsageError, match=r"Version 7 .* is the newest"):
        prune(store, RUN, versions=[2, 7])
    with pytest.raises(UsageError, match="has no version 9"):
        prune(store, RUN, versions=[2, 9])
    with pytest.raises(UnknownRun):
        prune(store, "nobody", versions=[0])
    prune(store, RUN, versions=[])
    assert_holds(store, set(range(8)))


def test_nothing_is_removed_while_a_process_drives_the_run(place: Place) -> None:
    first = place.open()
    fence = claim(first)
    save_versions(first, fence, 8)
    for store in (first, place.open()):
        with pytest.raises(RunBusy, match=r"driven by pid .* No version was removed"):
            prune(store, RUN, versions=[3])
    assert_holds(first, set(range(8)))
    first.commit(Commit(workflow_id=RUN, fence=fence))


def test_a_run_that_was_interrupted_can_lose_versions() -> None:
    data = MemoryData()
    dead = MemoryStore(data)
    save_versions(dead, claim(dead), 8)
    dead.close()
    store = MemoryStore(data)
    prune(store, RUN, versions=[3])
    assert_holds(store, set(range(8)) - {3})
    run = store.load_run(RUN)
    assert run is not None
    assert run.status is RunStatus.RUNNING
    assert run.holder_id is None


class Interfering(MemoryStore):
    """A store in which something happens just before its n-th commit."""

    def __init__(self, data: MemoryData, *, at: int, error: Exception | None = None) -> None:
        super().__init__(data)
        self._left = at
        self._error = error

    def commit(self, commit: Commit) -> None:
        self._left -= 1
        if self._left == 0:
            if self._error is not None:
                raise self._error
            claim(MemoryStore(self.data))
        super().commit(commit)


@pytest.mark.parametrize("at", [1, 2])
def test_a_process_that_takes_the_run_meanwhile_keeps_it_and_nothing_is_removed(at: int) -> None:
    data = MemoryData()
    store = MemoryStore(data)
    fence = claim(store)
    save_versions(store, fence, 8)
    leave(store, fence)
    with pytest.raises(RunBusy, match="No version was removed"):
        prune(Interfering(data, at=at), RUN, versions=[3])
    assert_holds(store, set(range(8)))


@pytest.mark.parametrize("at", [1, 2])
def test_a_store_that_fails_midway_leaves_the_run_to_others(at: int) -> None:
    data = MemoryData()
    store = MemoryStore(data)
    fence = claim(store)
    save_versions(store, fence, 8)
    leave(store, fence)
    with pytest.raises(StoreError, match="disk full"):
        prune(Interfering(data, at=at, error=StoreError("disk full")), RUN, versions=[3])
    prune(store, RUN, versions=[3])
    assert_holds(store, set(range(8)) - {3})


# Size


def test_every_one_of_ten_thousand_versions_loads_equally_well(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ledger.db", now=NOW)
    fence = claim(store)
    saved: Saved | None = None
    messages: list[Any] = []
    old: Any = None
    batch = []
    for number in range(10_000):
        new = {"state": {"messages": messages}, "position": {"node": "a", "visit": number}}
        record, saved = save(
            saved, workflow_id=RUN, node_id="a", old=old, new=new, now=NOW + number
        )
        batch.append(record)
        if len(batch) == 500:
            store.commit(Commit(workflow_id=RUN, fence=fence, checkpoints=tuple(batch)))
            batch = []
        old, messages = new, [*messages, f"message {number} {'x' * 480}"]
    began = time.perf_counter()
    for version in (0, 1, 4_321, 9_998):
        loaded = load(store, RUN, version)
        assert loaded["position"]["visit"] == version
        assert loaded["state"]["messages"] == old["state"]["messages"][:version]
    assert load(store, RUN) == old
    # Twenty megabytes are read here; a version that was rebuilt by copying would take minutes.
    assert time.perf_counter() - began < 20
    leave(store, fence)
    prune(store, RUN, versions=range(1, 9_990))
    assert [each.version for each in history(store, RUN)] == [0, *range(9_990, 10_000)]
    assert load(store, RUN, 9_995)["state"]["messages"] == old["state"]["messages"][:9_995]
    store.close()


@pytest.mark.parametrize("place", ["ledger.db", "file:runs"])
def test_versions_that_were_packed_are_sealed_loaded_and_removed_like_all_others(
    tmp_path: Path, place: str
) -> None:
    flow = nt.Graph("growing", version="1.0.0", append=("log",), checkpoints="every_step")

    @flow.node(then={"more": "step", "done": nt.END}, most=1_000)
    def step(state: dict[str, Any]) -> Any:
        number = state["number"] + 1
        to = "done" if number == 90 else "more"
        return nt.goto(to, {"number": number, "log": ["x" * 3_000 + str(number)]})

    scheme, _, name = place.rpartition(":")
    where = f"{scheme}:{tmp_path / name}" if scheme else tmp_path / name
    ledger = nt.Ledger(where, key=bytes(range(32)))
    assert flow.run("r", {"number": 0, "log": []}, store=ledger).status == "completed"
    store = ledger.store
    assert sum(record.is_turned for record in store.checkpoints("r")) > 50

    def check(versions: Collection[int]) -> None:
        assert [one.version for one in history(store, "r")] == sorted(versions)
        assert store.flaws("r", thorough=True) == []
        for version in versions:
            log = ["x" * 3_000 + str(number) for number in range(1, version + 1)]
            assert load(store, "r", version)["state"] == {"number": version, "log": log}

    check(range(91))
    for kept in ({*range(91)} - {44}, {5, 40, 41, 60, 61, 62, 90}, {90}):
        gone = {one.version for one in history(store, "r")} - kept
        prune(store, "r", versions=gone)
        check(kept)
    ledger.close()
