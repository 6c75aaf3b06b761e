"""The one seam for time and chance; tests bring their own."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Protocol

from nottwice.engine.later import Later


class Clock(Protocol):
    """What the engine knows of time. Durations are seconds."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""

    def pause(self, seconds: float) -> None: ...

    async def pause_async(self, seconds: float) -> None: ...

    def random_unit(self) -> float:
        """A random number from 0 to 1, for jitter."""

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Make a call in another thread in about so many seconds, if the process lives so long."""


class SystemClock:
    """The real time."""

    _later: Later | None = None

    # Asked twice in every call: the function itself, and none around it.
    now = staticmethod(time.time)

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def pause_async(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def random_unit(self) -> float:
        return random.random()

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        if self._later is None:
            self._later = Later(time.monotonic)
        self._later.after(seconds, call)
