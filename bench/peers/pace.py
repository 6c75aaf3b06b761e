"""How long does the last step of a long loop take, and what do the steps of such a loop change?

The loop stops after a minute, however far it has come.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

AROUND = 60
"""How many steps before the last one are measured."""
LIMIT_SECONDS = 60.0

Change = Callable[[int, Mapping[str, Any]], dict[str, Any]]
"""What a step returns, given its number and the state."""


class Pace:
    """Records when each step of one loop starts."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._began: list[float] = []
        self._work_before: list[float] = []

    def step(self, number: int) -> bool:
        """Record that step ``number`` starts. Return whether another one follows."""
        self._began.append(time.perf_counter())
        self._work_before.append(time.process_time())
        return number < self._steps and self._began[-1] - self._began[0] < LIMIT_SECONDS

    def found(self) -> dict[str, Any]:
        """Return time and CPU time of the last steps, and how many steps there were."""
        seconds, cpu_seconds = (
            statistics.median([later - earlier for earlier, later in pairwise(each)][-AROUND:])
            for each in (self._began, self._work_before)
        )
        return {"seconds": seconds, "cpu_seconds": cpu_seconds, "step": len(self._began)}


def given(records: int) -> dict[str, Any]:
    """Return the state that a loop starts with."""
    return {"number": 0, "notes": [], "table": {str(at): record(at) for at in range(records)}}


def grow(number: int, state: Mapping[str, Any]) -> dict[str, Any]:
    """Add a note to a list."""
    return {"number": number, "notes": [*state["notes"], note(number)]}


def count(number: int, state: Mapping[str, Any]) -> dict[str, Any]:
    """Change one number beside the records."""
    return {"number": number}


def replace(number: int, state: Mapping[str, Any]) -> dict[str, Any]:
    """Change one of the records."""
    return {"number": number, "table": {**state["table"], str(number % 100): record(-number)}}


CHANGES: dict[str, Change] = {"grow": grow, "count": count, "replace": replace}


def record(number: int) -> dict[str, Any]:
    """About 500 bytes with some structure."""
    return {"number": number, "text": note(number)}


def note(number: int) -> str:
    """About 500 bytes."""
    return f"{number:06d} " + "x" * 490
