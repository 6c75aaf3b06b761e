"""How does a waiting call learn that its host has cancelled it? It asks every second (P304).

A host that cancels a workflow cannot stop a thread. So the clock of the call asks the host before
every second of a pause, and its driver does so while ``verify`` or a policy runs. Both only look,
so nottwice stops waiting for them and drops what they return later. A running tool is never
interrupted.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Any, TypeAlias

from nottwice.engine.asks import Ask, Rule, Verify
from nottwice.engine.clock import Clock
from nottwice.engine.host import Driver, Host
from nottwice.guard.ledger import Ledger

LOOK_SECONDS = 1.0
Look: TypeAlias = Callable[[], BaseException | None]
"""Asks the host. It returns what to raise, or None if the call may wait on."""


def watched(ledger: Ledger, look: Look) -> Ledger:
    """Return the same ledger for one call, whose waits end when the host has cancelled it."""
    driver, clock = WatchedDriver(ledger.host.driver, look), WatchedClock(ledger.clock, look)
    return ledger.driven_by(driver, clock)


class WatchedClock:
    """A clock whose pauses end when the host has cancelled the call."""

    def __init__(self, clock: Clock, look: Look) -> None:
        self._clock, self._look = clock, look

    def now(self) -> float:
        return self._clock.now()

    def random_unit(self) -> float:
        return self._clock.random_unit()

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self._clock.later(seconds, call)

    def pause(self, seconds: float) -> None:
        ends = self.now() + seconds
        while (left := ends - self.now()) > 0:
            _raise_if_ended(self._look())
            self._clock.pause(min(left, LOOK_SECONDS))

    async def pause_async(self, seconds: float) -> None:
        ends = self.now() + seconds
        while (left := ends - self.now()) > 0:
            # The host may have to ask its database.
            _raise_if_ended(await asyncio.to_thread(self._look))
            await self._clock.pause_async(min(left, LOOK_SECONDS))


class WatchedDriver:
    """A driver that leaves ``verify`` and policies when the host has cancelled the call."""

    def __init__(self, driver: Driver, look: Look, *, every: float = LOOK_SECONDS) -> None:
        self._driver, self._look, self._every = driver, look, every

    def answer(self, ask: Ask, host: Host) -> Any:
        if not isinstance(ask, Verify | Rule):
            return self._driver.answer(ask, host)
        answered: Future[Any] = Future()
        context = contextvars.copy_context()

        def work() -> None:
            try:
                answered.set_result(context.run(self._driver.answer, ask, host))
            except BaseException as error:
                answered.set_exception(error)

        threading.Thread(target=work, name="nottwice-watched", daemon=True).start()
        while not answered.done():
            _raise_if_ended(self._look())
            wait_for([answered], timeout=self._every)
        return answered.result()

    async def answer_async(self, ask: Ask, host: Host) -> Any:
        if not isinstance(ask, Verify | Rule):
            return await self._driver.answer_async(ask, host)
        answering = asyncio.ensure_future(self._driver.answer_async(ask, host))
        try:
            while not answering.done():
                _raise_if_ended(await asyncio.to_thread(self._look))
                await asyncio.wait([answering], timeout=self._every)
            return answering.result()
        finally:
            answering.cancel()
            answering.add_done_callback(_drop)


def _drop(answered: asyncio.Future[Any]) -> None:
    """Look at an error that came too late, or the event loop would log it."""
    if not answered.cancelled():
        answered.exception()


def _raise_if_ended(ended: BaseException | None) -> None:
    if ended is not None:
        raise ended
