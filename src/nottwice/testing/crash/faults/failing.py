"""A failing disk: every call that concerns the ledger's files fails, once or from then on.

strace makes the n-th write, sync, truncation, rename, removal or opening of a ledger's file fail
with EIO or ENOSPC. The child is otherwise left alone. It may notice, try again, stop, or end as if
nothing had happened. Then the disk works again, another child starts, and everything must be true
that is true after any other crash. Two levels are full disks: a disk that is too small, and a limit
to the size of files. A write then stops in the middle, and nothing that follows fits.
"""

from __future__ import annotations

import itertools
import resource
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from nottwice.model.data.records import frozen_record
from nottwice.testing.crash.course import Lab, Moment
from nottwice.testing.crash.faults.recording import Recording, record, watched
from nottwice.testing.crash.faults.small_disk import SmallDisk, can_mount
from nottwice.testing.crash.faults.tracing import Tracer, why_no_tracing
from nottwice.testing.crash.inside.child import LEDGERS, ChildErrand
from nottwice.testing.crash.inside.link import ChildLink
from nottwice.testing.crash.inside.scratch import why_no_files
from nottwice.testing.crash.invariants import CrashCase, Violation
from nottwice.testing.crash.levels import (
    CrashPlan,
    Examined,
    Numbers,
    examine_moment,
    reported_is_kept,
)
from nottwice.testing.crash.scenario import CrashTestRefused
from nottwice.testing.crash.stage import Begin, Child, Examining, Until

CALLS = (
    ("pwrite64",),
    ("write",),
    ("fsync",),
    ("fdatasync",),
    ("ftruncate",),
    ("fallocate",),
    ("rename", "renameat", "renameat2"),
    ("unlink", "unlinkat"),
    ("mkdir", "mkdirat"),
    ("open", "openat"),
)
"""What can fail. Different names of the same call are grouped."""
ERRORS = ("EIO", "ENOSPC")
STEP_BYTES = 4096
BUSY_SECONDS = 0.5
"""Short, because there is no other process to wait for."""


@frozen_record(frozen=True, slots=True)
class Failing:
    """One way in which calls fail."""

    names: tuple[str, ...]
    error: str
    from_then_on: bool

    def injection(self, number: int) -> str:
        """Return the fault as an option for strace."""
        names = ",".join(f"?{name}" for name in self.names)
        return f"inject={names}:error={self.error}:when={number}{'+' * self.from_then_on}"

    def text(self, number: int) -> str:
        how_long = ", and all that follow" if self.from_then_on else ""
        return f"{self.names[0]} number {number}{how_long}: {self.error}"


WAYS = tuple(itertools.starmap(Failing, itertools.product(CALLS, ERRORS, (False, True))))
LIMITED = len(WAYS) + 1
"""The number of another way: no file can be longer than a limit."""
FULL = LIMITED + 1
"""The number of another way: the disk has limited space. It needs root."""


@dataclass(slots=True)
class FailingDisk:
    """Calls that concern the ledger's files fail."""

    name: str = "io"
    sentence: str = "every system call on the ledger's files failed, once and from then on"
    recording: Recording | None = field(default=None)

    def why_not(self) -> str | None:
        return why_no_files() or why_no_tracing()

    def plan(self, lab: Lab) -> CrashPlan:
        """Points consist of the round, the way to fail, and the number of the call."""
        recording = self.recording = lab.stage.perform_one(record(lab, work_only=True))
        counted = Counter((step.round, step.call, step.thread) for step in recording.steps)
        points: list[Numbers] = []
        for rounds in range(1, recording.rounds + 1):
            for number, way in enumerate(WAYS, 1):
                # Each thread is counted separately.
                most = max(
                    count * (at == rounds and call in way.names)
                    for (at, call, _), count in counted.items()
                )
                points += [(rounds, number, at) for at in range(1, most + 1)]
        sizes = range(1, recording.largest_bytes // STEP_BYTES + 2)
        points += [(1, LIMITED, at) for at in sizes]
        if can_mount():
            # Also beyond the size of the largest file, because there are other files.
            points += [(1, FULL, at) for at in range(1, 2 * len(sizes) + 1)]
        return CrashPlan(points)

    def examine(self, lab: Lab, numbers: Numbers) -> Examining[Examined]:
        if len(numbers) != 3:
            raise CrashTestRefused(
                f"{','.join(map(str, numbers))} is not a point of the level io, which has three "
                "numbers: the round, the way to fail, the call. Nothing was made to fail."
            )
        rounds, way, at = numbers
        if self.recording is None:
            self.recording = yield from record(lab, work_only=True)
        moment = lab.new_moment()
        turn = yield from _live_until(lab, moment, rounds)
        if turn is None or way > FULL:
            return Examined(self.name, numbers, met=False)
        if way == LIMITED:
            where = f"no file longer than {(at - 1) * STEP_BYTES} bytes"
            child, met = yield from _limited(turn, moment, (at - 1) * STEP_BYTES)
        elif way == FULL:
            where = f"a disk of {at * STEP_BYTES} bytes"
            child, met = yield from _filled(turn, moment, at * STEP_BYTES)
        else:
            where = WAYS[way - 1].text(at)
            child, met = yield from self._failed(turn, moment, WAYS[way - 1], at)
        if child.broken is not None:
            trouble = Violation("every run ends", "P36", child.broken, "before the crash")
            return Examined(self.name, numbers, True, where, (trouble,))
        if not met and way < LIMITED:
            lab.discard(moment)
            return Examined(self.name, numbers, met=False)
        crashed = moment.upstream.copy()
        lived, found = yield from examine_moment(lab, moment)
        lab.discard(moment)
        assert lab.baseline is not None
        if rounds == self.recording.rounds and _ended_as_ever(lab, child):
            found += reported_is_kept(CrashCase(lived.before, crashed, lab.baseline))
        return Examined(self.name, numbers, met or bool(found), where, found)

    def _failed(
        self, errand: _Turn, moment: Moment, way: Failing, at: int
    ) -> Examining[tuple[Child, bool]]:
        assert self.recording is not None
        ledgers = moment.folder / LEDGERS
        tracer = Tracer(
            moment.folder,
            (
                *("-e", "trace=" + ",".join(f"?{name}" for name in (*way.names, "readlink"))),
                *("-e", way.injection(at), "-e", "signal=none"),
            ),
            paths=(ledgers, *(ledgers / path for path in sorted(self.recording.paths))),
        )
        child = yield from watched(errand(tracer.await_attached), moment.upstream, tracer)
        met = child.broken is None and any(call.injected for call in tracer.finish())
        return child, met


def _limited(errand: _Turn, moment: Moment, limit_bytes: int) -> Examining[tuple[Child, bool]]:
    def limit(link: ChildLink) -> None:
        # Python ignores the signal that comes with it, so the call fails like on a full disk.
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, resource.RLIM_INFINITY))

    child: Child = yield Begin(errand(limit), moment.upstream)
    yield Until(child)
    return child, _was_disturbed(child)


def _filled(errand: _Turn, moment: Moment, size_bytes: int) -> Examining[tuple[Child, bool]]:
    disk = SmallDisk(moment.folder / LEDGERS, size_bytes)
    mounted = replace(errand(lambda link: disk.mount()), after_work=disk.copy_out)
    child: Child = yield Begin(mounted, moment.upstream)
    yield Until(child)
    if child.broken is None:
        disk.take_over()
    return child, _was_disturbed(child)


def _was_disturbed(child: Child) -> bool:
    """Whether the work failed. If it did not, it had enough space: it is checked, not counted."""
    return child.ending is not None and child.ending.error is not None


_Turn = Callable[[Callable[[ChildLink], None]], ChildErrand]


def _live_until(lab: Lab, moment: Moment, rounds: int) -> Examining[_Turn | None]:
    """Run the rounds before the one that meets the fault. None: that round does not come."""
    turn = None
    for number in range(1, rounds + 1):
        decided = (() if turn is None else turn.rulings, () if turn is None else turn.messages)
        rulings, messages = decided
        if number == rounds:
            return lambda begin: ChildErrand(
                folder=moment.folder,
                rulings=rulings,
                messages=messages,
                before_work=begin,
                looks_after=False,
                busy_seconds=BUSY_SECONDS,
            )
        child: Child = yield Begin(
            ChildErrand(folder=moment.folder, rulings=rulings, messages=messages), moment.upstream
        )
        yield Until(child)
        if child.after is None:
            return None
        turn = lab.next_turn(child.after, moment.upstream)
        if turn.idle or turn.stuck:
            return None
    return None


def _ended_as_ever(lab: Lab, child: Child) -> bool:
    """Whether the work ended without reporting that its disk failed."""
    assert lab.baseline is not None
    expected = lab.baseline.lived.ending
    return None not in (child.ending, expected) and child.ending == expected
