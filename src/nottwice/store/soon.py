"""A commit that somebody else makes: a future for threads, and something to await for event loops.

An event loop is woken once for all its commits that became durable together. A future of the
standard library would wake it for each, and each time fight with the waking thread over the
interpreter's lock.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Generator, Iterable
from concurrent.futures import Future
from typing import Any


class Soon(Future[None]):
    """What becomes of a commit. Await it only in the event loop in which it was made.

    A waiter that is cancelled does not cancel the commit.
    """

    def __init__(self) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()
        self.loop = running_loop()
        self._waiter = None if self.loop is None else self.loop.create_future()

    def __await__(self) -> Generator[Any, None, None]:
        assert self._waiter is not None, "made outside of any event loop"
        if not self.done():
            yield from self._waiter
        return self.result()

    def tell(self, error: BaseException | None) -> None:
        """Say what became of it. Threads hear it at once; ``wake`` tells the event loop."""
        if error is None:
            self.set_result(None)
        else:
            self.set_exception(error)

    def go_on(self) -> None:
        """In the thread of the event loop: whoever awaits this goes on."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def awaitable(future: Future[None]) -> Awaitable[None]:
    """What an event loop awaits to hear of a commit, whichever store makes it."""
    return future if isinstance(future, Soon) else asyncio.wrap_future(future)


def wake(told: Iterable[Soon]) -> None:
    """Let every event loop go on that waits for any of these: once each."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Soon]] = {}
    for soon in told:
        if soon.loop is not None:
            by_loop.setdefault(soon.loop, []).append(soon)
    for loop, its_own in by_loop.items():
        # A loop that is closed has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_all_go_on, its_own)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of the calling code, if it has one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _all_go_on(told: list[Soon]) -> None:
    for soon in told:
        soon.go_on()
