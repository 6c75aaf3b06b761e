"""Cancels the driver of a run in an event loop, wherever a test wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import nottwice as nt
from nottwice.engine.asks import Ask
from nottwice.engine.drivers import UsualDriver
from nottwice.engine.host import Host
from tests.graphs.effects import Crash

Work = Callable[[nt.Ledger], Coroutine[Any, Any, Any]]


class CancellingDriver(UsualDriver):
    """Cancels the driver of a run while some asks are answered, or before it has the answer.

    A read or a commit on a server has its effect whether its waiter is still there or not.
    """

    def __init__(self, *, during: tuple[int, ...] = (), after: tuple[int, ...] = ()) -> None:
        self.asks = 0
        self.task: asyncio.Future[Any] | None = None
        self._during, self._after = during, after

    async def answer_async(self, ask: Ask, host: Host) -> Any:
        self.asks += 1
        mine = self.asks
        assert self.task is not None
        if mine in self._during:
            self.task.cancel()
        answer = await super().answer_async(ask, host)
        if mine in self._after:
            self.task.cancel()
            await asyncio.sleep(0)
        return answer


def drive_until_cancelled(
    ledger: nt.Ledger, driver: CancellingDriver, work: Work, *, run_id: str = "r"
) -> None:
    """Drive a run in a process that lives on after the cancellation: it must not hold the run."""

    async def cancelled() -> None:
        driver.task = asyncio.ensure_future(work(ledger.driven_by(driver, ledger.clock)))
        await asyncio.wait([driver.task])
        if not driver.task.cancelled() and driver.task.exception() is not None:
            assert isinstance(driver.task.exception(), Crash)

    asyncio.run(cancelled())
    run = ledger.store.load_run(run_id)
    assert run is None or run.holder_id is None
    assert [one for one in ledger.store.open_reviews() if not one.kind.asks_first] == []
