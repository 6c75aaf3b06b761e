"""All points of all levels, within a budget: the crash test as users call it.

First, the work runs twice without any fault. If the two runs differ, nothing after a crash could be
judged. Then every level is examined, point by point, two at a time. If the points do not fit into
the budget, they are sampled, with a seed that is printed.
"""

from __future__ import annotations

import itertools
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from nottwice.errors import UsageError
from nottwice.model.data.records import frozen_record
from nottwice.testing.crash.course import Baseline, Lab, Lived
from nottwice.testing.crash.determinism import check_deterministic, order_varies
from nottwice.testing.crash.faults.failing import FailingDisk
from nottwice.testing.crash.faults.power import Power
from nottwice.testing.crash.faults.takeover import TakeOver
from nottwice.testing.crash.inside.scratch import Scratch, scratch_url
from nottwice.testing.crash.levels import (
    Boundaries,
    CrashLevel,
    CrashPlan,
    Double,
    Examined,
    Lines,
    Numbers,
)
from nottwice.testing.crash.scenario import CrashTestRefused, LevelsUnavailable, Scenario
from nottwice.testing.crash.stage import Examining, Stage
from nottwice.testing.crash.upstream import CountingUpstream
from nottwice.testing.crash.verdict import SweepFailure, Swept, Verdict

LEVELS: tuple[Callable[[], CrashLevel], ...] = (
    Boundaries,
    Double,
    Lines,
    TakeOver,
    FailingDisk,
    Power,
)
"""Every level, in the order in which they are examined."""
LEAST_POINTS = 10
MOST_FAILURES = 20
"""After this many failing points, a level stops."""


@frozen_record(frozen=True, slots=True)
class SweepProgress:
    """The progress of a sweep."""

    level: str
    done: int
    total: int
    failed: int


@frozen_record(frozen=True, slots=True, kw_only=True)
class Orders:
    """What to examine, and for how long."""

    levels: tuple[str, ...] = ("boundaries",)
    budget_seconds: float | None = None
    points: tuple[Numbers, ...] = ()
    """Only these points, of the one level that is named."""
    seed: int | None = None
    side_by_side: int = 2
    least_points: int = LEAST_POINTS
    """The minimum, however small the budget: a test of nothing must not pass."""
    report: Callable[[SweepProgress], None] = lambda progress: None
    reproduce: Callable[[str, Numbers], str] = lambda level, numbers: (
        f"--level {level} --points {','.join(map(str, numbers))}"
    )


def level_names() -> list[str]:
    """Return the levels that exist, in their order."""
    return [make().name for make in LEVELS]


def sweep(scenario: Scenario, orders: Orders) -> Verdict:
    """Examine a scenario and return the verdict."""
    levels = _levels(orders)
    root = Path(tempfile.mkdtemp(prefix="nottwice-crash-", dir=fast_folder()))
    url = scratch_url()
    scratch = None if url is None else Scratch(url)
    try:
        stage = Stage(scenario, side_by_side=orders.side_by_side)
        lab = Lab(scenario, stage, root, scratch=scratch)
        began = time.monotonic()
        lab.baseline = baseline_of(lab)
        swept = [
            _sweep_level(lab, level, orders, _deadline(orders, began, index, len(levels)))
            for index, level in enumerate(levels)
        ]
        _check_examined(scenario, orders, swept)
        return Verdict(
            name=scenario.name,
            levels=tuple(swept),
            effects=tuple(effect.what for effect in lab.baseline.upstream.effects),
            ending=_ending(lab.baseline),
            seconds=time.monotonic() - began,
            varies=lab.baseline.varies,
        )
    finally:
        shutil.rmtree(root, ignore_errors=True)
        if scratch is not None:
            scratch.close()


def fast_folder() -> str | None:
    """Return a folder in memory if there is one: surviving a kill needs no disk."""
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() else None


def _levels(orders: Orders) -> list[CrashLevel]:
    known = {make().name: make for make in LEVELS}
    for name in orders.levels:
        if name not in known:
            raise UsageError(
                f"There is no level {name!r}. Nothing was run. Choose from: {', '.join(known)}."
            )
    if orders.points and len(orders.levels) != 1:
        raise UsageError("Points belong to one level. Nothing was run. Name it with --level.")
    return [make() for name, make in known.items() if name in orders.levels]


def baseline_of(lab: Lab) -> Baseline:
    """Run twice without a fault. The first run is what all others are compared with."""
    (first, second) = lab.stage.perform(_uninterrupted(lab) for _ in range(2))
    check_deterministic(lab.scenario, first, second)
    return replace(first, varies=order_varies(first, second))


def _uninterrupted(lab: Lab) -> Examining[Baseline]:
    moment = lab.new_moment()
    lived: Lived = yield from lab.live(moment)
    lab.discard(moment)
    upstream: CountingUpstream = moment.upstream
    return Baseline(lived, upstream)


def _check_examined(scenario: Scenario, orders: Orders, swept: list[Swept]) -> None:
    """Refuse to pass if nothing was killed (P145)."""
    if any(level.examined or level.failures for level in swept):
        return
    skipped = [f"{level.level}: {level.skipped}" for level in swept if level.skipped is not None]
    if skipped:
        raise LevelsUnavailable(
            f"This machine cannot examine the chosen levels ({'; '.join(skipped)}). Nothing was "
            "examined. Choose other levels: boundaries, double, lines or takeover."
        )
    if orders.points:
        points = "; ".join(",".join(map(str, numbers)) for numbers in orders.points)
        raise CrashTestRefused(
            f"{scenario.name} ended without reaching the chosen point ({points}). Nothing was "
            "examined. Run the crash test without it to see which points exist."
        )
    raise CrashTestRefused(
        f"No point of {scenario.name} was reached at the chosen levels. Nothing was examined. Use "
        "boundaries, the default."
    )


def _ending(baseline: Baseline) -> str:
    ending = baseline.lived.ending
    if ending is None:
        return "did not end"
    return ending.shown if ending.error is None else f"{ending.shown} ({ending.text})"


def _deadline(orders: Orders, began: float, index: int, count: int) -> float | None:
    """Return when a level must stop. The levels to come share the rest of the budget."""
    if orders.budget_seconds is None:
        return None
    left = began + orders.budget_seconds - time.monotonic()
    return time.monotonic() + max(0.0, left) / (count - index)


def _sweep_level(lab: Lab, level: CrashLevel, orders: Orders, deadline: float | None) -> Swept:
    why_not = level.why_not()
    if why_not is not None:
        return Swept(level.name, level.sentence, skipped=why_not)
    seed = orders.seed if orders.seed is not None else random.randrange(10**6)
    lab.chance, lab.deadline = random.Random(seed), deadline
    lab.repeated_kept = lab.repeated_waiting = 0
    plan = CrashPlan(orders.points) if orders.points else level.plan(lab)
    points = plan.points
    if deadline is not None and not orders.points:
        # Whatever the budget allows is then a fair sample of all points.
        points = lab.chance.sample(list(points), len(points))
    done, failures = 0, []
    examinations = (level.examine(lab, numbers) for numbers in points)
    source = _until_deadline(lab, examinations, least=orders.least_points)
    for examined in itertools.chain(lab.stage.perform(source), _beyond(lab, level, plan)):
        done += examined.met
        if examined.violations:
            failures.append(_failure(examined, orders))
        orders.report(SweepProgress(level.name, done, len(points), len(failures)))
        if len(failures) >= MOST_FAILURES:
            break
    return Swept(
        level.name,
        level.sentence,
        examined=done,
        total=max(done, len(points)),
        whole=plan.whole,
        seed=None if orders.points or (plan.whole and done >= len(points)) else seed,
        failures=tuple(failures),
        repeated=lab.repeated_kept,
        repeated_waiting=lab.repeated_waiting,
    )


def _beyond(lab: Lab, level: CrashLevel, plan: CrashPlan) -> Iterator[Examined]:
    """Count up past the last known point, until no fault is met any more.

    The known number was counted without a fault. Only this shows that no point was missed.
    """
    if not plan.counts_up or lab.seconds_left() <= 0:
        return
    for number in itertools.count(len(plan.points) + 1):
        examined = lab.stage.perform_one(level.examine(lab, (number,)))
        if not examined.met:
            return
        yield examined


def _until_deadline(
    lab: Lab, examinations: Iterator[Examining[Examined]], *, least: int
) -> Iterator[Examining[Examined]]:
    """Yield as many as the time allows, and a few in any case."""
    for number, examination in enumerate(examinations):
        if number >= least and lab.seconds_left() <= 0:
            return
        yield examination


def _failure(examined: Examined, orders: Orders) -> SweepFailure:
    return SweepFailure(
        level=examined.level,
        numbers=examined.numbers,
        where=examined.where,
        violations=examined.violations,
        reproduce=orders.reproduce(examined.level, examined.numbers),
    )
