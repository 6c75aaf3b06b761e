"""How does a call that waits hear that its host has cancelled it? Each pause asks (P304).

A host that cancels a workflow cannot stop a thread. So the clock of the call asks the host before
every second of a pause. What a tool does is no pause, and is never interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from nottwice.engine.clock import Clock

LOOK_SECONDS = 1.0
Look: TypeAlias = Callable[[], BaseException | None]
"""Asks the host. It returns what to raise, or None if the call may wait on."""


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
            if (ended := self._look()) is not None:
                raise ended
            self._clock.pause(min(left, LOOK_SECONDS))

    async def pause_async(self, seconds: float) -> None:
        ends = self.now() + seconds
        while (left := ends - self.now()) > 0:
            # The host may have to ask its database.
            if (ended := await asyncio.to_thread(self._look)) is not None:
                raise ended
            await self._clock.pause_async(min(left, LOOK_SECONDS))
