"""Does the ledger in memory behave like the durable ones?

What is true of every store is in `test_conformance.py`.
"""

from __future__ import annotations

import os
import threading
from dataclasses import replace

import pytest

from nottwice.errors import OwnershipLost
from nottwice.model.run import Life
from nottwice.store.interface import Outdated
from nottwice.store.memory import MemoryData, MemoryStore
from tests.store.samples import NOW, RESULT, claim, follow, intent, note, noted, pending


def test_a_second_store_on_the_same_data_is_the_next_process() -> None:
    data = MemoryData()
    first, second = MemoryStore(data), MemoryStore(data)
    assert first.holder().holder_id != second.holder().holder_id
    fence = claim(first)
    first.commit(intent(pending(), fence))
    assert second.calls("run") == [pending()]
    claim(second, after=second.load_run("run"))
    with pytest.raises(OwnershipLost):
        first.commit(follow(pending().done(RESULT, now=NOW), pending(), fence))


def test_a_store_of_its_own_shares_nothing() -> None:
    first, second = MemoryStore(), MemoryStore()
    first.commit(note(1))
    assert noted(first) == [1]
    assert noted(second) == []


def test_a_closed_store_is_a_dead_holder_and_its_data_stay() -> None:
    data = MemoryData()
    store, witness = MemoryStore(data), MemoryStore(data)
    holder = store.holder().holder_id
    assert witness.life_of(holder) is Life.ALIVE
    store.commit(note(1))
    store.close()
    assert witness.life_of(holder) is Life.DEAD
    assert noted(witness) == [1]


def test_a_store_that_was_never_a_holder_is_not_proven_dead() -> None:
    data = MemoryData()
    store = MemoryStore(data)
    store.close()
    assert MemoryStore(data).life_of(store._holder.holder_id) is Life.NOT_PROVEN


def test_its_holder_is_this_process() -> None:
    holder = MemoryStore(now=NOW).holder()
    assert (holder.pid, holder.since) == (os.getpid(), NOW)


def test_commit_soon_never_raises_itself() -> None:
    store = MemoryStore()
    fence = claim(store)
    lost = store.commit_soon(intent(pending(), replace(fence, epoch=9)))
    assert isinstance(lost.exception(), OwnershipLost)
    gone = store.commit_soon(follow(pending(), pending(), fence))
    assert isinstance(gone.exception(), Outdated)


def test_it_says_where_it_is() -> None:
    assert MemoryStore().location == ":memory:"


def test_readers_are_not_disturbed_by_writers() -> None:
    store = MemoryStore()
    over = threading.Event()

    def write() -> None:
        for number in range(2_000):
            store.commit(note(number))
        over.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not over.is_set():
        numbers = noted(store)
        assert numbers == list(range(len(numbers)))
    writer.join()
