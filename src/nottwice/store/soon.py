"""A commit that another thread makes: a future for threads, and an awaitable for event loops.

An event loop is woken once for all its commits that became durable together. A future of the
standard library would wake it for each, and each time compete with the waking thread for the
interpreter's lock.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Awaitable, Generator, Iterable
from concurrent.futures import Future
from typing import Any

from nottwice import lazy


class Soon(Future[None]):
    """The outcome of a commit. Await it only in the event loop in which it was created.

    Cancelling a waiter does not cancel the commit. The parts of a future that only threads need
    take longer to create than everything else, twice in every call of an event loop, which never
    uses them. So they are created when the first thread uses them.
    """

    def __init__(self) -> None:
        self.loop = lazy.running_loop()
        self._waiter = None if self.loop is None else self.loop.create_future()
        self._guard = threading.RLock()
        self._asked_by_threads = False
        self._told = False
        self._error: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        """Create the parts of the base class when it first uses one, which does not exist yet."""
        with self._guard:
            if not self._asked_by_threads:
                super().__init__()
                self.set_running_or_notify_cancel()
                self._asked_by_threads = True
                if self._told:
                    self._tell_threads()
        return object.__getattribute__(self, name)

    def __await__(self) -> Generator[Any, None, None]:
        assert self._waiter is not None, "made outside of any event loop"
        if not self._told:
            yield from self._waiter
        if self._error is not None:
            raise self._error

    def tell(self, error: BaseException | None) -> None:
        """Set the outcome. Threads see it immediately; ``wake`` informs the event loop."""
        with self._guard:
            self._error = error
            self._told = True
            asked = self._asked_by_threads
        if asked:
            self._tell_threads()

    def _tell_threads(self) -> None:
        if self._error is None:
            self.set_result(None)
        else:
            self.set_exception(self._error)

    def resume(self) -> None:
        """Continue the task that awaits this. Called in the thread of the event loop."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def awaitable(future: Future[None]) -> Awaitable[None]:
    """What an event loop awaits for the outcome of a commit, whichever store makes it."""
    return future if isinstance(future, Soon) else lazy.asyncio.wrap_future(future)


def wake(told: Iterable[Soon]) -> None:
    """Wake every event loop that waits for any of these, once each."""
    by_loop: dict[lazy.asyncio.AbstractEventLoop, list[Soon]] = {}
    for soon in told:
        if soon.loop is not None:
            by_loop.setdefault(soon.loop, []).append(soon)
    for loop, its_own in by_loop.items():
        # A closed loop has no waiting tasks.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_resume_all, its_own)
            # Twice, because an interrupt during the first callback would lose it.
            loop.call_soon_threadsafe(_resume_all, its_own)


def _resume_all(told: list[Soon]) -> None:
    for soon in told:
        soon.resume()
