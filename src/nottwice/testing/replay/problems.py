"""What can be wrong with a replay, each cause with its name."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Any

from nottwice.model.data.records import frozen_record
from nottwice.model.saving.changes import changes

_MOST_CHANGES = 8


class Cause(enum.Enum):
    """Why a recorded checkpoint is not resumed as it was."""

    UNREADABLE = "file cannot be read"
    VERSION_MISSING = "graph version missing"
    NOT_MIGRATED = "migration refused"
    NODE_RENAMED = "node renamed without mapping"
    NODE_REMOVED = "node removed"
    ROUTE_CHANGED = "route changed"
    TOOL_MISSING = "tool missing"
    TOOL_RECLASSIFIED = "tool reclassified"
    STATE = "state no longer loads"
    RESULT = "result no longer loads"
    ARGUMENTS_CHANGED = "arguments changed"
    NEW_EFFECT = "new effect"
    EFFECT_GONE = "effect no longer asked for"
    REORDERED = "effects reordered"
    NEW_PURE_CALL = "new pure call"
    QUESTION_CHANGED = "question changed"
    NEW_WAIT = "new wait"
    NODE_RAISES = "node raises"
    NOT_OPENED = "run not opened"
    REACHES_OUT = "network outside of a tool"
    HANGS = "does not end"
    CHANGED_IN_PLACE = "graph changed in place"


@frozen_record(frozen=True, slots=True)
class Problem:
    """One problem, where it is, and the smallest difference that shows it."""

    cause: Cause
    text: str
    node: str | None = None
    diff: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return the text for people."""
        where = f" in {self.node}" if self.node is not None else ""
        return [f"{self.cause.value}{where}: {self.text}", *(f"  {line}" for line in self.diff)]

    def to_plain(self) -> dict[str, Any]:
        return {
            "cause": self.cause.value,
            "node": self.node,
            "text": self.text,
            "diff": list(self.diff),
        }


def difference(old: Any, new: Any, *, root: str) -> tuple[str, ...]:
    """Return the places at which two values differ, one line each, up to a limit."""
    found = [str(change) for change in changes(old, new, root=root)]
    if len(found) > _MOST_CHANGES:
        return (*found[:_MOST_CHANGES], f"and {len(found) - _MOST_CHANGES} more")
    return tuple(found)


def nearest(value: Any, others: Sequence[Any]) -> int:
    """Return the index of the value that differs from this one in the fewest places."""
    return min(range(len(others)), key=lambda place: len(changes(others[place], value)))


def distinct(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return each problem once, in the order in which they were found."""
    kept: dict[tuple[Cause, str | None, str], Problem] = {}
    for problem in problems:
        kept.setdefault((problem.cause, problem.node, problem.text), problem)
    return tuple(kept.values())
