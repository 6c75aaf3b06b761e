"""Does a call wait for exactly the checkpoints that led to it, and never forever? (P256)"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nottwice.errors import StoreError, UsageError
from nottwice.langchain import durable as durable_module
from nottwice.langchain.durable import Durable, durable_at
from nottwice.langchain.rows import CheckpointKey

KEY = CheckpointKey("thread", "", "1")
OTHER = CheckpointKey("thread", "sub:1", "2")
LONG = 60.0


class Ledger:
    """What other processes have saved, and a signal that a waiter has looked."""

    def __init__(self, *saved: CheckpointKey) -> None:
        self.saved = set(saved)
        self.looked = threading.Event()

    def look(self, key: CheckpointKey) -> bool:
        self.looked.set()
        return key in self.saved


def test_a_call_waits_until_the_checkpoint_that_led_to_it_is_saved() -> None:
    ledger = Ledger()
    durable = Durable(ledger.look)
    order: list[str] = []

    def call() -> None:
        durable.wait([KEY, OTHER], wait_seconds=LONG)
        order.append("intent")

    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(call)
        assert ledger.looked.wait(LONG)
        order.append("first")
        durable.saved(KEY)
        order.append("second")
        durable.saved(OTHER)
        called.result(LONG)
    assert order == ["first", "second", "intent"]
    assert not durable._waiting


def test_a_checkpoint_that_was_saved_before_or_elsewhere_is_not_waited_for() -> None:
    ledger = Ledger(OTHER)
    durable = Durable(ledger.look)
    durable.saved(KEY)
    durable.wait([KEY], wait_seconds=LONG)
    assert not ledger.looked.is_set(), "this process knew it"
    durable.wait([KEY, OTHER], wait_seconds=LONG)


def test_a_checkpoint_that_is_never_saved_fails_the_call_in_time() -> None:
    durable = Durable(Ledger(KEY).look)
    with pytest.raises(StoreError, match=r"2 of thread 'thread', subgraph 'sub:1', is not durable"):
        durable.wait([KEY, OTHER], wait_seconds=0.01)
    assert not durable._waiting


def test_a_checkpoint_that_could_not_be_saved_fails_the_calls_of_its_graph_immediately() -> None:
    ledger = Ledger()
    durable = Durable(ledger.look)
    earlier, elsewhere = KEY._replace(checkpoint_id="0"), KEY._replace(thread_id="another")
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(durable.wait, [KEY], wait_seconds=LONG)
        assert ledger.looked.wait(LONG)
        # LangGraph saves in order: if one is not saved, it does not even try the next one.
        durable.failed(earlier, OSError("the disk is full"))
        with pytest.raises(StoreError, match=r"could not be saved \(the disk is full\)\. The call"):
            called.result(LONG)
    with pytest.raises(StoreError, match="could not be saved"):
        durable.wait([KEY], wait_seconds=LONG)
    with pytest.raises(StoreError, match="is not durable"):
        durable.wait([elsewhere], wait_seconds=0)
    durable.begins("thread", "")
    with pytest.raises(StoreError, match="is not durable"):
        durable.wait([KEY], wait_seconds=0)
    durable.failed(earlier, OSError("the disk is full"))
    durable.saved(KEY)
    durable.wait([KEY], wait_seconds=LONG)
    assert not durable._waiting


def test_calls_of_an_event_loop_wait_without_blocking_it() -> None:
    durable = Durable(Ledger().look)

    async def both() -> list[str]:
        order: list[str] = []

        async def call(name: str) -> None:
            await durable.wait_in_loop([KEY], wait_seconds=LONG)
            order.append(name)

        calls = [asyncio.create_task(call(f"intent {number}")) for number in range(40)]
        await asyncio.sleep(0)
        order.append("saving")
        await asyncio.to_thread(durable.saved, KEY)
        await asyncio.gather(*calls)
        return order

    order = asyncio.run(both())
    assert order[0] == "saving"
    assert len(order) == 41


def test_a_waiting_task_that_is_cancelled_leaves_nothing_behind() -> None:
    durable = Durable(Ledger().look)

    async def cancelled() -> None:
        task = asyncio.create_task(durable.wait_in_loop([KEY], wait_seconds=LONG))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not durable._waiting
        durable.saved(KEY)
        await durable.wait_in_loop([KEY], wait_seconds=LONG)

    asyncio.run(cancelled())


def test_an_event_loop_that_would_wait_for_itself_is_refused() -> None:
    durable = Durable(Ledger(OTHER).look)

    async def blocked() -> None:
        durable.wait([OTHER], wait_seconds=LONG)
        with pytest.raises(UsageError, match=r"await saver\.await_until_durable"):
            durable.wait([KEY], wait_seconds=LONG)

    asyncio.run(blocked())
    assert not durable._waiting


def test_what_is_known_is_bounded_and_forgotten_when_checkpoints_are_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(durable_module, "MOST_REMEMBERED", 2)
    durable = Durable(Ledger().look)
    for number in range(4):
        durable.saved(CheckpointKey("thread", "", str(number)))
    durable.wait([CheckpointKey("thread", "", "3")], wait_seconds=0)
    with pytest.raises(StoreError):
        durable.wait([CheckpointKey("thread", "", "0")], wait_seconds=0)
    durable.forget()
    with pytest.raises(StoreError):
        durable.wait([CheckpointKey("thread", "", "3")], wait_seconds=0)


def test_the_savers_of_one_ledger_know_the_same() -> None:
    saving = durable_at("agent.db", Ledger().look)
    waiting = durable_at("agent.db", Ledger().look)
    saving.saved(KEY)
    waiting.wait([KEY], wait_seconds=0)
    with pytest.raises(StoreError):
        durable_at("other.db", Ledger().look).wait([KEY], wait_seconds=0)
