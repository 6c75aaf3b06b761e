"""Thirty tasks typical of agents: straight, loops, parallel, with people, children, retries.

A task is a list of beats. Every way of keeping state runs the same beats in the same order.
"""

from __future__ import annotations

import enum

from nottwice.model.data.records import frozen_record

TOOLS = ("pay", "note", "mail")
"""One with a key, one that can be verified, and one that only a person can check."""
SIZES = range(3, 8)


class TaskKind(enum.Enum):
    """What happens in a beat."""

    ACT = "act"
    TOGETHER = "several acts at once"
    ASK = "ask a person"
    CHILD = "a child run"
    FLAKY = "an act that fails at first"


@frozen_record(frozen=True, slots=True)
class Beat:
    """One beat of a task."""

    kind: TaskKind
    tool: str = "mail"
    width: int = 1
    """How many acts run at the same time."""
    beats: tuple[Beat, ...] = ()
    """The beats of a child run."""


@frozen_record(frozen=True, slots=True)
class ComparedTask:
    """Something for an agent to do."""

    name: str
    family: str
    beats: tuple[Beat, ...]


def suite() -> tuple[ComparedTask, ...]:
    """Return all thirty: six families, each in five sizes."""
    return tuple(
        ComparedTask(f"{family}-{size}", family, make(size))
        for family, make in _FAMILIES.items()
        for size in SIZES
    )


def task_named(name: str) -> ComparedTask:
    return next(task for task in suite() if task.name == name)


def _straight(size: int) -> tuple[Beat, ...]:
    return tuple(Beat(TaskKind.ACT, TOOLS[place % 3]) for place in range(size))


def _loop(size: int) -> tuple[Beat, ...]:
    return (Beat(TaskKind.ACT, TOOLS[size % 3]),) * size


def _parallel(size: int) -> tuple[Beat, ...]:
    together = Beat(TaskKind.TOGETHER, TOOLS[size % 3], width=size - 1)
    return (Beat(TaskKind.ACT), together, Beat(TaskKind.ACT, "pay"))


def _people(size: int) -> tuple[Beat, ...]:
    return (*_straight(size - 2), Beat(TaskKind.ASK), Beat(TaskKind.ACT))


def _children(size: int) -> tuple[Beat, ...]:
    return (
        Beat(TaskKind.ACT),
        Beat(TaskKind.CHILD, beats=_straight(size - 1)),
        Beat(TaskKind.ACT, "pay"),
    )


def _retries(size: int) -> tuple[Beat, ...]:
    return tuple(Beat(TaskKind.FLAKY, TOOLS[place % 3]) for place in range(size - 1))


_FAMILIES = {
    "straight": _straight,
    "loop": _loop,
    "parallel": _parallel,
    "people": _people,
    "children": _children,
    "retries": _retries,
}
