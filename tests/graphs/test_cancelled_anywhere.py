"""Wherever a driver in an event loop is cancelled, the run is free for other processes (P381).

Each test cancels while one ask of the engine is being answered, and then while the next one is.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine.drivers import drive_async
from nottwice.graphs.running import load
from nottwice.model.run import RunStatus
from nottwice.store.interface import Commit
from nottwice.store.memory import MemoryStore
from tests.fakes import Host
from tests.graphs.cancelling import CancellingDriver, drive_until_cancelled
from tests.graphs.effects import Effects, graph


def flow_of(effects: Effects) -> nt.Graph[Any]:
    """A graph whose first node may fail, with a question open, and whose second one acts."""
    flow = graph()

    @flow.node
    async def first(state: dict[str, Any]) -> Any:
        with contextlib.suppress(nt.RunBlocked):
            if "first" in effects.broken:
                nt.ask("Shall it fail?")
        effects.visit("first")
        return {"first": effects.look("it")}

    @flow.node
    async def second(state: dict[str, Any]) -> Any:
        return {"second": effects.act("it")}

    return flow


@pytest.mark.parametrize("how", ["during", "after"])
@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
@pytest.mark.parametrize("what", ["new", "enqueued", "failing"])
def test_the_run_is_free_wherever_its_driver_is_cancelled(
    effects: Effects, what: str, times: int, how: str
) -> None:
    flow = flow_of(effects)

    async def work(ledger: nt.Ledger) -> Any:
        if what == "new":
            return await flow.arun("r", {}, store=ledger)
        return await nt.App(graphs=[flow], store=ledger).aadvance("r")

    for number in itertools.count(1):
        host = Host()
        if what != "new":
            with host.process() as ledger:
                nt.App(graphs=[flow], store=ledger).enqueue("flow", "r")
        effects.done.clear()
        effects.broken = {"first"} if what == "failing" else set()
        chosen = tuple(range(number, number + times))
        driver = CancellingDriver(**{how: chosen})
        with host.process() as ledger:
            drive_until_cancelled(ledger, driver, work)
        effects.broken = set()
        with host.process() as ledger:
            app = nt.App(graphs=[flow], store=ledger)
            app.run("flow", "r", {} if "r" not in host.data.runs else None)
        assert host.data.runs["r"].status is RunStatus.COMPLETED
        assert effects.done == ["it"]
        if driver.asks < number:
            # Nothing was cancelled any more.
            assert number > 5
            return


@pytest.mark.parametrize("how", ["during", "after"])
@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_a_cancelled_driver_leaves_its_place_under_a_limit(
    effects: Effects, tmp_path: Path, times: int, how: str
) -> None:
    flow, limit = flow_of(effects), nt.Limit(graph="flow", concurrency=1)

    async def work(ledger: nt.Ledger) -> Any:
        return await nt.App(graphs=[flow], store=ledger, limits=[limit]).aadvance("r")

    for number in itertools.count(1):
        with nt.Ledger(tmp_path / f"{number}.db") as ledger:
            app = nt.App(graphs=[flow], store=ledger, limits=[limit])
            app.enqueue("flow", "r")
            driver = CancellingDriver(**{how: tuple(range(number, number + times))})
            drive_until_cancelled(ledger, driver, work)
            assert app.run("flow", "another", {}).status == "completed"
        if driver.asks < number:
            assert number > 5
            return


class SlowStore(MemoryStore):
    """A store whose commits become durable when the test says so."""

    def __init__(self, host: Host) -> None:
        super().__init__(host.data)
        self.waiting: list[tuple[Commit, Future[None]]] = []

    def commit_soon(self, commit: Commit) -> Future[None]:
        soon: Future[None] = Future()
        soon.set_running_or_notify_cancel()
        self.waiting.append((commit, soon))
        return soon

    def catch_up(self) -> None:
        while self.waiting:
            commit, soon = self.waiting.pop(0)
            try:
                self.commit(commit)
            except BaseException as error:
                soon.set_exception(error)
            else:
                soon.set_result(None)


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_a_commit_that_has_begun_ends_before_its_waiter_is_cancelled(
    host: Host, effects: Effects, times: int
) -> None:
    """The release must not overtake the claim: that would be refused, and the claim would stay."""
    flow, store = flow_of(effects), SlowStore(host)
    ledger = nt.Ledger(store, clock=host.clock)

    async def work() -> None:
        running = asyncio.ensure_future(flow.arun("r", {}, store=ledger))
        while not store.waiting:
            await asyncio.sleep(0)
        for _ in range(times):
            running.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert not running.done()
        while not running.done():
            # The claim, and after it the release.
            assert len(store.waiting) <= 1
            store.catch_up()
            await asyncio.sleep(0)
        assert running.cancelled()
        left = await drive_async(_loaded(), ledger.host)
        assert (left.status, left.holder_id) == (RunStatus.RUNNING, None)

    asyncio.run(work())
    assert effects.visited == []


def _loaded() -> Any:
    return (yield load("r"))
