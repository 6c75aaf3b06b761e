"""How long does the last step of a long loop take, and how far does the loop get in its time?"""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import Any

AROUND = 60
"""How many steps before the last one are measured."""
LIMIT_SECONDS = 60.0


class Pace:
    """Records when each step of one loop starts."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._began: list[float] = []

    def step(self, number: int) -> bool:
        """Record that step ``number`` starts. Return whether another one follows."""
        self._began.append(time.perf_counter())
        return number < self._steps and self._began[-1] - self._began[0] < LIMIT_SECONDS

    def found(self) -> dict[str, Any]:
        """Return how long the last steps took, and how many steps there were."""
        took = [later - earlier for earlier, later in pairwise(self._began)]
        return {"seconds": statistics.median(took[-AROUND:]), "step": len(self._began)}


def note(number: int) -> str:
    """About 500 bytes."""
    return f"{number:06d} " + "x" * 490
