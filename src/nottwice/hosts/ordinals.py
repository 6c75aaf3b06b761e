"""Which of several equal calls of one task is this? The n-th of its name, counted by the task.

A task that is replayed counts again from the beginning, and gets the same numbers. Numbers per name
are steadier than one number for all: a new call of another tool moves none of them.
"""

from __future__ import annotations

from collections import Counter


class Ordinals:
    """Counts the calls of one task, by name."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def next(self, name: str) -> str:
        """Return the name of the next call of this tool in the task: ``refund.1``, ``refund.2``."""
        self._counts[name] += 1
        return f"{name}.{self._counts[name]}"
