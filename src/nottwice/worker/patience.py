"""When is a run tried again after it could not be advanced? After a delay that doubles each time.

Kept in memory only: a restarted worker may try each run once.
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
    """The runs that are postponed, each with its own delay."""

    def __init__(self) -> None:
        self._delays: dict[str, _Delay] = {}

    def put_off(self, run_id: str, *, now: float, longer: bool = True) -> float:
        """Postpone a run, for twice as long as last time if ``longer``. Return the delay.

        Not longer if nothing is wrong with the run, because another process was merely faster.
        """
        known = self._delays.get(run_id) if longer else None
        seconds = FIRST_SECONDS if known is None else min(known.seconds * 2, MOST_SECONDS)
        self._delays[run_id] = _Delay(now + seconds, seconds)
        return seconds

    def forget(self, run_id: str) -> None:
        """Reset the delay of a run that made progress."""
        self._delays.pop(run_id, None)

    def is_put_off(self, run_id: str, *, now: float) -> bool:
        """Whether a run is postponed now. A clock that jumps back does not extend the delay."""
        delay = self._delays.get(run_id)
        return delay is not None and now < delay.until <= now + delay.seconds

    def put_off_ids(self, *, now: float) -> list[str]:
        """Return the runs that are postponed now."""
        return [run_id for run_id in self._delays if self.is_put_off(run_id, now=now)]

    def count(self, *, now: float) -> int:
        """Return how many runs are postponed now. Old entries are dropped."""
        for run_id, delay in list(self._delays.items()):
            if now > delay.until + delay.seconds + MOST_SECONDS:
                del self._delays[run_id]
        return sum(self.is_put_off(run_id, now=now) for run_id in self._delays)
