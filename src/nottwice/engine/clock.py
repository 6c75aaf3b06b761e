"""The only source of time and randomness. Tests replace it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Protocol

from nottwice import lazy
from nottwice.engine.later import Later

_later = Later(time.monotonic)


class Clock(Protocol):
    """The engine's view of time. Durations are in seconds."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""

    def pause(self, seconds: float) -> None: ...

    async def pause_async(self, seconds: float) -> None: ...

    def random_unit(self) -> float:
        """Return a random number from 0 to 1, for jitter."""

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call a function in another thread after about ``seconds``, or sooner if the process
        exits."""


class SystemClock:
    """The real clock."""

    # This is called twice in every call, so it is the function itself without a wrapper.
    now = staticmethod(time.time)

    def __repr__(self) -> str:
        return "SystemClock()"

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def pause_async(self, seconds: float) -> None:
        await lazy.asyncio.sleep(seconds)

    def random_unit(self) -> float:
        return random.random()

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        _later.after(seconds, call)
