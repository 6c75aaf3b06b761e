"""Does the crash test catch an engine that is broken on purpose, and where does it?

A control breaks one thing in the children of an examination, after the fork, so nothing of it leaks
into the process that runs the tests. What the broken engine does is compared with what the sound
one does: first without a crash, then at the very point that fails. Whatever the sound engine gets
wrong there, too, proves nothing and does not count.
"""

from __future__ import annotations

import random
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nottwice.testing.crash.course import Lab
from nottwice.testing.crash.invariants import Violation
from nottwice.testing.crash.levels import CrashLevel, Numbers
from nottwice.testing.crash.scenario import Scenario
from nottwice.testing.crash.stage import Stage
from nottwice.testing.crash.sweep import LEVELS, baseline_of, fast_folder
from tests.crash.scenarios import CANNED, Agent

SEED = 1
MOST_POINTS = 300
MOST_SECONDS = 40
FIRST_DOUBT = "after recording the intent"
IN_ORDER = ("boundaries", "double")
"""Levels whose points have names that stay; of the others, which follow lines, a sample is drawn"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """An engine that is broken in one place."""

    name: str
    """What is wrong with it, as a sentence."""
    breaks: Callable[[], None]
    """Breaks it; called in every child before the work."""
    agent: Agent
    level: str
    """The level that must catch it."""
    invariant: str
    """What must be found broken. Anything else would be a control that merely falls over."""
    second: int | None = None
    """Only points with this second number: by whom a run is taken, how the disk fails."""


@dataclass(frozen=True, slots=True)
class Caught:
    """Where a control was caught first."""

    control: Control
    where: str
    text: str
    examined: int


def swap(place: Any, name: str, broken: Any) -> None:
    """Put something broken in the place of what is there; only ever called in a child."""
    setattr(place, name, broken)


@dataclass(slots=True)
class _Switch:
    """Whether children are broken; the parent turns it, and every fork sees it as it is."""

    on: bool = False


def catch(control: Control) -> Caught | None:
    """Examine a control point by point until it is caught; None: it never was."""
    switch = _Switch()
    scenario = _scenario(control, switch)
    root = Path(tempfile.mkdtemp(prefix="nottwice-control-", dir=fast_folder()))
    try:
        lab = Lab(scenario, Stage(scenario, side_by_side=1), root, chance=random.Random(SEED))
        lab.baseline = baseline_of(lab)
        switch.on = True
        level = level_named(control.level)
        for examined, numbers in enumerate(_points(lab, level, control), 1):
            switch.on = True
            found = _examine(lab, level, numbers)
            if not found:
                continue
            switch.on = False
            # A new level: what one has prepared with the broken engine is of no use here.
            sound = _examine(lab, level_named(control.level), numbers)
            known = {violation.invariant for _, violation in sound}
            for where, violation in found:
                if violation.invariant == control.invariant and control.invariant not in known:
                    return Caught(control, _place(control, where), violation.text, examined)
        return None
    finally:
        shutil.rmtree(root, ignore_errors=True)


def level_named(name: str) -> CrashLevel:
    return next(level for level in (make() for make in LEVELS) if level.name == name)


def _scenario(control: Control, switch: _Switch) -> Scenario:
    agent = control.agent

    def work() -> object:
        if switch.on:
            control.breaks()
        return agent.work("agent.db")

    return Scenario(
        work=work, tools={**CANNED, **agent.tools}, answers=agent.answers, name=control.name
    )


def _points(lab: Lab, level: CrashLevel, control: Control) -> Sequence[Numbers]:
    if level.name == "double":
        return _after_the_first_intent(lab)
    points = list(level.plan(lab).points)
    if level.name in IN_ORDER:
        return points
    if level.name == "takeover":
        # The first half of the lines opens the ledger, where there is nothing to lose yet.
        half = points[-1][0] // 2
        points = [numbers for numbers in points if numbers[0] > half]
    if control.second is not None:
        points = [numbers for numbers in points if numbers[1] == control.second]
    return random.Random(SEED).sample(points, min(len(points), MOST_POINTS))


def _after_the_first_intent(lab: Lab) -> Sequence[Numbers]:
    """Of all pairs of crashes those that leave a doubt first: a page must not take hours."""
    assert lab.baseline is not None
    names = lab.baseline.lived.names
    first = next(place for place, name in enumerate(names, 1) if name.startswith(FIRST_DOUBT))
    return [(first, second) for second in range(1, MOST_SECONDS + 1)]


def _examine(lab: Lab, level: CrashLevel, numbers: Numbers) -> list[tuple[str, Violation]]:
    examined = lab.stage.perform_one(level.examine(lab, numbers))
    return [(examined.where, violation) for violation in examined.violations]


def _place(control: Control, where: str) -> str:
    """The point as a page can name it for longer than until the next change of a line."""
    if control.level in IN_ORDER:
        return re.sub(r"[0-9a-f]{12,}", "…", where)
    return "a sampled point"
