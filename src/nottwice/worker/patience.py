"""When is a run tried again that could not be advanced? Later every time, and never all at once.

Only in memory: whoever starts afresh may try each of them once.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_SECONDS = 0.5
MOST_SECONDS = 60.0


@dataclass(slots=True)
class _Delay:
    until: float
    seconds: float


class Patience:
    """The runs that are left alone for a while, each with a delay of its own."""

    def __init__(self) -> None:
        self._delays: dict[str, _Delay] = {}

    def put_off(self, run_id: str, *, now: float, longer: bool = True) -> float:
        """Leave a run alone, for twice as long as the last time if ``longer``; return for how long.

        Not longer where nothing is wrong with it: somebody else was only faster.
        """
        known = self._delays.get(run_id) if longer else None
        seconds = FIRST_SECONDS if known is None else min(known.seconds * 2, MOST_SECONDS)
        self._delays[run_id] = _Delay(now + seconds, seconds)
        return seconds

    def forget(self, run_id: str) -> None:
        """It went on, so the next delay begins again from the shortest."""
        self._delays.pop(run_id, None)

    def is_put_off(self, run_id: str, *, now: float) -> bool:
        """Whether to leave it alone now. A clock that jumped back must not make anybody wait."""
        delay = self._delays.get(run_id)
        return delay is not None and now < delay.until <= now + delay.seconds

    def count(self, *, now: float) -> int:
        """How many runs are left alone now. What was not tried again for long is forgotten."""
        for run_id, delay in list(self._delays.items()):
            if now > delay.until + delay.seconds + MOST_SECONDS:
                del self._delays[run_id]
        return sum(self.is_put_off(run_id, now=now) for run_id in self._delays)
