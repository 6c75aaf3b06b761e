"""Power loss: every disk that may be found after a power failure at every step of the work.

One recording is enough, because it contains what was safe at every step. From it, this level builds
the disks that may be found. The work is resumed with each of them and the world of that step, and
everything must be true that is true after any other crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from nottwice.testing.crash.course import Lab, Moment
from nottwice.testing.crash.faults.disk import TEAR_NAMES, DiskState
from nottwice.testing.crash.faults.recording import Recording, Step, record
from nottwice.testing.crash.faults.tracing import why_no_tracing
from nottwice.testing.crash.inside.child import LEDGERS
from nottwice.testing.crash.inside.scratch import why_no_files
from nottwice.testing.crash.invariants import CrashCase
from nottwice.testing.crash.levels import (
    CrashPlan,
    Examined,
    Numbers,
    examine_moment,
    reported_is_kept,
)
from nottwice.testing.crash.stage import Examining

MOST_EXHAUSTED = 6
"""Up to this many unsafe changes, every subset is examined. With more, a sample."""
SAMPLED_SUBSETS = 24
LEAST_PLANNED = 40
"""At least this many disks are examined, however small the budget."""


@dataclass(slots=True)
class Power:
    """The power lost at every step, with every disk that may be left."""

    name: str = "power"
    sentence: str = "power lost at every step, with what a disk may have kept then"
    recording: Recording | None = field(default=None)

    def why_not(self) -> str | None:
        return why_no_files() or why_no_tracing()

    def plan(self, lab: Lab) -> CrashPlan:
        self.recording = lab.stage.perform_one(record(lab, work_only=False))
        seen: set[tuple[bytes, int, bool]] = set()
        points: list[Numbers] = []
        whole = True
        half = lab.seconds_left() / 2
        steps = list(_fullest(self.recording.steps))
        lab.chance.shuffle(steps)
        for number, step in steps:
            if len(points) >= LEAST_PLANNED and lab.seconds_left() < half:
                return CrashPlan(points, whole=False)
            whole &= len(step.disk.pending) <= MOST_EXHAUSTED
            for kept, tear in _choices(lab, step.disk):
                image = step.disk.image(kept, _tear(step.disk, tear))
                mark = (image.mark, id(step.world), step.reported)
                if mark not in seen:
                    seen.add(mark)
                    points.append((number, kept + 1, tear + 1))
        return CrashPlan(sorted(points), whole=whole)

    def examine(self, lab: Lab, numbers: Numbers) -> Examining[Examined]:
        if self.recording is None:
            self.recording = yield from record(lab, work_only=False)
        number, kept, tear = (one - 1 for one in (*numbers, 1, 1)[:3])
        steps = self.recording.steps
        if number >= len(steps) or tear > len(steps[number].disk.tears()):
            return Examined(self.name, numbers, met=False)
        step = steps[number]
        torn = _tear(step.disk, tear)
        moment = Moment(lab.new_moment().folder, step.world.copy())
        step.disk.image(kept, torn).write_into(moment.folder / LEDGERS)
        lived, found = yield from examine_moment(lab, moment)
        lab.discard(moment)
        if step.reported and lab.baseline is not None:
            found += reported_is_kept(CrashCase(lived.before, step.world, lab.baseline))
        return Examined(self.name, numbers, True, _where(step, kept, torn), found)


def _fullest(steps: Sequence[Step]) -> Iterator[tuple[int, Step]]:
    """Yield the steps with the most to lose. While nothing is synced and the world sees nothing,
    every disk of a step is also a disk of the next step."""
    for number, (step, after) in enumerate(zip_longest(steps, steps[1:]), 1):
        grows = after is not None and (
            after.disk.safe is step.disk.safe
            and after.world is step.world
            and after.reported == step.reported
        )
        if not grows:
            yield number, step


def _choices(lab: Lab, disk: DiskState) -> Iterator[tuple[int, int]]:
    """Yield which changes are kept, as bits, and which of these writes is torn (0: none)."""
    count = len(disk.pending)
    every = disk.images_differ_by() - 1
    if count <= MOST_EXHAUSTED:
        yield from ((kept, 0) for kept in range(every + 1))
    else:
        yield from (((1 << place) - 1, 0) for place in range(count + 1))
        yield from ((every & ~(1 << place), 0) for place in range(count))
        yield from ((lab.chance.getrandbits(count), 0) for _ in range(SAMPLED_SUBSETS))
    for number, (place, _) in enumerate(disk.tears(), 1):
        yield every, number
        if place == count - 1:
            yield 1 << place, number


def _tear(disk: DiskState, number: int) -> tuple[int, int] | None:
    return disk.tears()[number - 1] if number else None


def _where(step: Step, kept: int, torn: tuple[int, int] | None) -> str:
    pending = step.disk.pending
    text = f"power lost after {step.text}"
    if pending:
        text += f", {kept.bit_count()} of {len(pending)} unsynced changes kept"
    if torn is not None:
        text += f", of change {torn[0] + 1} {TEAR_NAMES[torn[1]]}"
    return text
