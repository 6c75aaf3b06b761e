"""Takeover: the holder of a run is stopped at every line while another process does the work.

In one variant, the other process can see that the holder is alive and must leave the run alone. In
two variants it can prove nothing, as on another machine, with a clock that is a day ahead or
behind. It then takes the run, and the first process wakes up in the middle of its work. People
decide only after the first process has ended, because its effects cannot be known before.
"""

from __future__ import annotations

from dataclasses import dataclass

from nottwice.model.data.records import frozen_record
from nottwice.testing.crash.course import Lab
from nottwice.testing.crash.inside.child import ChildErrand
from nottwice.testing.crash.inside.points import CrashFault, PointKind
from nottwice.testing.crash.levels import CrashPlan, Examined, Numbers, count_lines, examine_moment
from nottwice.testing.crash.stage import Begin, Examining, Until, Wake

DAY_SECONDS = 86400.0
BUSY_SECONDS = 0.2
"""How long the other process waits for a process that was stopped while it wrote."""


@frozen_record(frozen=True, slots=True)
class Rival:
    """The process that starts while the first one is stopped."""

    name: str
    elsewhere: bool
    ahead_seconds: float = 0.0


OTHERS = (
    Rival("another process of this machine", elsewhere=False),
    Rival("another machine, a day ahead", elsewhere=True, ahead_seconds=DAY_SECONDS),
    Rival("another machine, a day behind", elsewhere=True, ahead_seconds=-DAY_SECONDS),
)


@dataclass(slots=True)
class TakeOver:
    """Stopped at a line, overtaken, and woken again."""

    name: str = "takeover"
    sentence: str = "stopped at every line while another process takes the run, then woken"

    def why_not(self) -> str | None:
        return None

    def plan(self, lab: Lab) -> CrashPlan:
        lines = range(1, count_lines(lab) + 1)
        return CrashPlan([(line, other) for line in lines for other in range(1, len(OTHERS) + 1)])

    def examine(self, lab: Lab, numbers: Numbers) -> Examining[Examined]:
        line, which = numbers
        other = OTHERS[which - 1]
        moment = lab.new_moment()
        fault = CrashFault(line, stops=True)
        lived = yield from lab.live(moment, fault=fault, counts=PointKind.LINE)
        first = lived.stopped
        if first is None:
            lab.discard(moment)
            return Examined(self.name, numbers, met=False)
        if other.ahead_seconds > 0:
            # A settle time is only as good as the clock that measures it (P2 assumes so). Whatever
            # is still on its way must have arrived by the time that this clock shows.
            moment.upstream.settle()
        second = yield Begin(
            ChildErrand(
                folder=moment.folder,
                elsewhere=other.elsewhere,
                ahead_seconds=other.ahead_seconds,
                busy_seconds=BUSY_SECONDS,
            ),
            moment.upstream,
        )
        yield Until(second)
        yield Wake(first)
        yield Until(first)
        _, found = yield from examine_moment(lab, moment)
        lab.discard(moment)
        where = f"{first.met_at}, while the run is taken by {other.name}"
        return Examined(self.name, numbers, True, where, found)
