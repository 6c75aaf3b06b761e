"""Where are the faults? One class per level, and all of them in ``LEVELS``.

A level plans its points and examines one point at a time. To add a level, write a class with the
five members of :class:`CrashLevel` and add it to ``LEVELS``. Use :class:`Lab`:
``new_moment``, ``copy``, ``live`` (with or without a fault). Use ``examine_moment`` from here,
which recovers what a fault left behind and checks every invariant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nottwice.model.data.records import frozen_record
from nottwice.testing.crash.course import Lab, Lived, Moment
from nottwice.testing.crash.inside.points import CrashFault, PointKind
from nottwice.testing.crash.invariants import (
    CrashCase,
    Violation,
    check_after_crash,
    check_after_resume,
    same_ledger,
)
from nottwice.testing.crash.repeating import repeated
from nottwice.testing.crash.stage import Examining

LEAST_CRASHES = 4
Numbers = tuple[int, ...]
"""A point of a level: the number of a boundary or line, and for a second fault its number too."""


@frozen_record(frozen=True, slots=True)
class Examined:
    """The result of one point."""

    level: str
    numbers: Numbers
    met: bool
    """False: the work ended before it reached this point."""
    where: str = ""
    violations: tuple[Violation, ...] = ()


@frozen_record(frozen=True, slots=True)
class CrashPlan:
    """The points of a level."""

    points: Sequence[Numbers]
    whole: bool = True
    """False: there are more, but the budget did not allow finding them all."""
    counts_up: bool = False
    """Whether the points are 1, 2, 3 and so on, so that more can be searched for."""


class CrashLevel(Protocol):
    """One kind of fault."""

    @property
    def name(self) -> str: ...

    @property
    def sentence(self) -> str:
        """Describe the level, for people who choose one."""

    def why_not(self) -> str | None:
        """Return why it cannot be examined on this machine, or None if it can."""

    def plan(self, lab: Lab) -> CrashPlan:
        """Return all its points. It may perform on the lab's stage to find them, but for no more
        than about half of the time until ``lab.deadline``."""

    def examine(self, lab: Lab, numbers: Numbers) -> Examining[Examined]:
        """Let the fault happen at one point, recover, and check."""


def examine_moment(lab: Lab, moment: Moment) -> Examining[tuple[Lived, tuple[Violation, ...]]]:
    """Recover from what a fault left, without further faults. Check before and after."""
    baseline = lab.baseline
    assert baseline is not None
    crashed = moment.upstream.copy()
    lived = yield from lab.live(moment)
    found = check_after_crash(CrashCase(lived.before, crashed, baseline))
    tolerated = lab.scenario.at_most_repeated
    found += check_after_resume(CrashCase(lived.after, moment.upstream, baseline, lived, tolerated))
    lab.note_repeated(repeated(moment.upstream, baseline.upstream))
    return lived, tuple(found)


def reported_is_kept(case: CrashCase) -> tuple[Violation, ...]:
    """Check that everything still exists that the work did before it reported its end (P10)."""
    return tuple(
        Violation("what was reported is kept", "P10", text, "after the crash")
        for text in same_ledger(case)
    )


@dataclass(slots=True)
class Boundaries:
    """Killed before and after everything durable, every effect and every ``verify``."""

    name: str = "boundaries"
    sentence: str = "killed before and after every commit, effect and verify"

    def why_not(self) -> str | None:
        return None

    def plan(self, lab: Lab) -> CrashPlan:
        assert lab.baseline is not None
        count = lab.baseline.lived.passed
        return CrashPlan([(number,) for number in range(1, count + 1)], counts_up=True)

    def examine(self, lab: Lab, numbers: Numbers) -> Examining[Examined]:
        return (yield from _killed_once(lab, self.name, numbers, PointKind.BOUNDARY))


@dataclass(slots=True)
class Lines:
    """Killed at every executed line of nottwice itself."""

    name: str = "lines"
    sentence: str = "killed at every line of nottwice that the work executes"

    def why_not(self) -> str | None:
        return None

    def plan(self, lab: Lab) -> CrashPlan:
        count = count_lines(lab)
        return CrashPlan([(number,) for number in range(1, count + 1)], counts_up=True)

    def examine(self, lab: Lab, numbers: Numbers) -> Examining[Examined]:
        return (yield from _killed_once(lab, self.name, numbers, PointKind.LINE))


@dataclass(slots=True)
class Double:
    """Killed once, and again at every boundary of the recovery."""

    name: str = "double"
    sentence: str = "killed at a boundary, and again at every boundary of the recovery"
    crashes: dict[int, FirstCrash] = field(default_factory=dict)

    def why_not(self) -> str | None:
        return None

    def plan(self, lab: Lab) -> CrashPlan:
        assert lab.baseline is not None
        firsts = list(range(1, lab.baseline.lived.passed + 1))
        lab.chance.shuffle(firsts)
        half = lab.seconds_left() / 2
        source = (
            first_crash(lab, number)
            for index, number in enumerate(firsts)
            # However small the budget, there must be something to examine.
            if index < LEAST_CRASHES or lab.seconds_left() >= half
        )
        for crash in lab.stage.perform(source):
            if crash is not None:
                self.crashes[crash.number] = crash
        points = [
            (crash.number, second)
            for crash in sorted(self.crashes.values(), key=lambda one: one.number)
            for second in range(1, crash.recovery + 1)
        ]
        return CrashPlan(points, whole=len(self.crashes) == len(firsts))

    def examine(self, lab: Lab, numbers: Numbers) -> Examining[Examined]:
        first, second = numbers
        if first not in self.crashes:
            crash = yield from first_crash(lab, first)
            if crash is None:
                return Examined(self.name, numbers, met=False)
            self.crashes[first] = crash
        moment = lab.copy(self.crashes[first].moment)
        lived = yield from lab.live(moment, fault=CrashFault(second))
        if lived.met is None:
            lab.discard(moment)
            return Examined(self.name, numbers, met=False)
        _, found = yield from examine_moment(lab, moment)
        lab.discard(moment)
        where = f"{self.crashes[first].where}, then {lived.met}"
        return Examined(self.name, numbers, True, where, found)


@frozen_record(frozen=True, slots=True)
class FirstCrash:
    """What a first crash left, and how many points its recovery has."""

    number: int
    where: str
    moment: Moment
    recovery: int


def first_crash(lab: Lab, number: int) -> Examining[FirstCrash | None]:
    """Crash once, keep what is left, and recover from a copy of it to count its points."""
    moment = lab.new_moment()
    lived = yield from lab.live(moment, fault=CrashFault(number))
    if lived.met is None:
        lab.discard(moment)
        return None
    probe = lab.copy(moment)
    recovered = yield from lab.live(probe)
    lab.discard(probe)
    return FirstCrash(number, lived.met, moment, recovered.passed)


def count_lines(lab: Lab) -> int:
    """Return how many lines of nottwice an uninterrupted run executes."""
    moment = lab.new_moment()
    lived = lab.stage.perform_one(lab.live(moment, counts=PointKind.LINE))
    lab.discard(moment)
    return lived.passed


def _killed_once(lab: Lab, level: str, numbers: Numbers, kind: PointKind) -> Examining[Examined]:
    moment = lab.new_moment()
    (number,) = numbers
    lived = yield from lab.live(moment, fault=CrashFault(number), counts=kind)
    if lived.met is None:
        lab.discard(moment)
        trouble = () if lived.trouble is None else (_trouble(lived.trouble),)
        return Examined(level, numbers, bool(trouble), "", trouble)
    _, found = yield from examine_moment(lab, moment)
    lab.discard(moment)
    return Examined(level, numbers, True, lived.met, found)


def _trouble(text: str) -> Violation:
    return Violation("every run ends", "P36", text, "before the crash")
