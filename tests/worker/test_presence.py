"""Does a worker say that it is there, and does it work on if it cannot say so? (P380)"""

from __future__ import annotations

import threading
from collections.abc import Collection

import pytest

import nottwice as nt
from nottwice.errors import StoreError
from nottwice.guard.ledger import Ledger
from nottwice.model.run import RunStatus
from nottwice.model.runs.workers import (
    FORGOTTEN_SECONDS,
    HEARTBEAT_SECONDS,
    SILENT_SECONDS,
    WorkerRecord,
    WorkerState,
)
from nottwice.store.memory import MemoryStore
from nottwice.worker.presence import Presence
from tests.fakes import Host
from tests.worker.test_worker import enqueue, one_node, work

SECONDS = 30.0


def presence(ledger: Ledger) -> Presence:
    return Presence(ledger, ["refund@1.0.0", "mail@2.0.0"], concurrency=8)


def states(host: Host) -> list[WorkerState]:
    """What an operator would see now."""
    reader = MemoryStore(host.data)
    now = host.clock.now()
    return [one.state(reader.life_of(one.holder_id), now=now) for one in reader.workers(now=now)]


class Counting(MemoryStore):
    """A store that counts what is written about workers, and can be full."""

    written = 0
    is_full = False

    def announce(self, worker: WorkerRecord) -> None:
        self.written += 1
        if self.is_full:
            raise StoreError("The disk is full.")
        super().announce(worker)

    def forget_workers(self, ids: Collection[str]) -> None:
        if self.is_full:
            raise StoreError("The disk is full.")
        super().forget_workers(ids)


def test_a_worker_is_alive_then_silent_and_gone_when_it_leaves(host: Host) -> None:
    with host.process() as ledger:
        worker = presence(ledger)
        worker.renew()
        (record,) = host.data.workers.values()
        assert record.graphs == ("mail@2.0.0", "refund@1.0.0")
        assert (record.concurrency, record.started_at) == (8, host.clock.now())
        for _ in range(5):
            host.clock.advance(HEARTBEAT_SECONDS)
            worker.renew()
            assert states(host) == [WorkerState.ALIVE]
        host.clock.advance(SILENT_SECONDS + 1)
        assert states(host) == [WorkerState.SILENT]
        worker.renew()
        assert states(host) == [WorkerState.ALIVE]
        worker.leave()
        assert states(host) == []


def test_a_heartbeat_is_one_write_and_between_two_there_is_none(host: Host) -> None:
    store = Counting(host.data)
    worker = presence(Ledger(store, clock=host.clock))
    for _ in range(5 * 60):
        # An idle worker looks five times a second.
        worker.renew()
        host.clock.advance(0.2)
    assert store.written == 60 / HEARTBEAT_SECONDS
    host.clock.advance(-3600.0)
    worker.renew()
    assert store.written == 60 / HEARTBEAT_SECONDS + 1


def test_a_worker_that_starts_removes_what_the_dead_have_left(host: Host) -> None:
    with host.process() as ledger:
        presence(ledger).renew()
    assert states(host) == [WorkerState.DEAD]
    with host.process() as silent, host.process() as ledger:
        presence(silent).renew()
        assert states(host) == [WorkerState.ALIVE]
        host.clock.advance(FORGOTTEN_SECONDS - 1)
        presence(ledger).renew()
        assert states(host) == [WorkerState.SILENT, WorkerState.ALIVE]
        host.clock.advance(2)
        presence(ledger).renew()
        assert states(host) == [WorkerState.ALIVE, WorkerState.ALIVE]


def test_a_worker_that_cannot_say_so_logs_it_once_and_tries_again(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    store = Counting(host.data)
    store.is_full = True
    worker = presence(Ledger(store, clock=host.clock))
    for _ in range(3):
        worker.renew()
        host.clock.advance(HEARTBEAT_SECONDS)
    assert store.written == 3
    assert caplog.text.count("operators cannot see this worker, which keeps working") == 1
    store.is_full = False
    worker.renew()
    assert states(host) == [WorkerState.ALIVE]
    store.is_full = True
    worker.leave()
    assert "operators may still see this worker: The disk is full." in caplog.text


def test_a_worker_on_a_ledger_that_cannot_be_announced_to_does_its_work(host: Host) -> None:
    flow = one_node(lambda state: {"done": True})
    enqueue(host, flow, "r")
    store = Counting(host.data)
    store.is_full = True
    app = nt.App(graphs=[flow], store=Ledger(store, clock=host.clock))
    assert nt.Worker(app).run(until_idle=True).completed == 1
    assert store.written == 1


def test_a_worker_is_seen_while_it_works_and_while_it_drains(host: Host) -> None:
    started, ends, seen = threading.Event(), threading.Event(), []

    def node(state: object) -> None:
        started.set()
        assert ends.wait(SECONDS)

    flow = one_node(node)
    enqueue(host, flow, "r")

    class Watched(MemoryStore):
        def announce(self, worker: WorkerRecord) -> None:
            super().announce(worker)
            seen.append(worker.seen_at)
            if len(seen) == 1:
                assert started.wait(SECONDS)
                # The next heartbeat is due while the worker drains.
                host.clock.advance(HEARTBEAT_SECONDS)
                made.stop()
            else:
                ends.set()

    app = nt.App(graphs=[flow], store=Ledger(Watched(host.data), clock=host.clock))
    made = nt.Worker(app)
    assert made.run().taken == 1
    assert seen[1] - seen[0] == HEARTBEAT_SECONDS
    assert host.data.workers == {}


def test_a_worker_that_finds_nothing_to_do_and_ends_leaves_no_trace(host: Host) -> None:
    flow = one_node(lambda state: None)
    store = Counting(host.data)
    nt.Worker(nt.App(graphs=[flow], store=Ledger(store, clock=host.clock))).run(until_idle=True)
    assert store.written == 0
    enqueue(host, flow, "r")
    work(host, flow)
    assert host.data.runs["r"].status is RunStatus.COMPLETED
    assert host.data.workers == {}
