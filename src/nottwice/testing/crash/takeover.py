"""Take-over: the holder of a run is stopped at every line while another process does the work.

Once the other process can see that the holder lives, and must keep its hands off; and twice it
can prove nothing, as on another machine, with a clock that is a day ahead or behind: it takes the
run, and the first one wakes up in the middle of what it was doing. People decide only after the
first one has ended, because nobody can say what a living process has not done.
"""

from __future__ import annotations

from dataclasses import dataclass

from nottwice.model.records import frozen_record
from nottwice.testing.crash.child import Errand
from nottwice.testing.crash.course import Lab
from nottwice.testing.crash.levels import Examined, Numbers, Plan, count_lines, examine_moment
from nottwice.testing.crash.points import Fault, PointKind
from nottwice.testing.crash.stage import Begin, Examining, Until, Wake

DAY_SECONDS = 86400.0
BUSY_SECONDS = 0.2
"""How long the other one waits for a process that was stopped while it wrote."""


@frozen_record(frozen=True, slots=True)
class Other:
    """The process that comes while the first one is stopped."""

    name: str
    elsewhere: bool
    ahead_seconds: float = 0.0


OTHERS = (
    Other("another process of this machine", elsewhere=False),
    Other("another machine, a day ahead", elsewhere=True, ahead_seconds=DAY_SECONDS),
    Other("another machine, a day behind", elsewhere=True, ahead_seconds=-DAY_SECONDS),
)


@dataclass(slots=True)
class TakeOver:
    """Stopped at a line, overtaken, and woken again."""

    name: str = "takeover"
    sentence: str = "stopped at every line while another process takes the run, then woken"

    def why_not(self) -> str | None:
        return None

    def plan(self, lab: Lab) -> Plan:
        lines = range(1, count_lines(lab) + 1)
        return Plan([(line, other) for line in lines for other in range(1, len(OTHERS) + 1)])

    def examine(self, lab: Lab, numbers: Numbers) -> Examining[Examined]:
        line, which = numbers
        other = OTHERS[which - 1]
        moment = lab.new_moment()
        fault = Fault(line, stops=True)
        lived = yield from lab.live(moment, fault=fault, counts=PointKind.LINE)
        first = lived.stopped
        if first is None:
            lab.discard(moment)
            return Examined(self.name, numbers, met=False)
        if other.ahead_seconds > 0:
            # A settle time is only as good as the clock that measures it (P2 assumes so): what is
            # still on its way has to have arrived by the time that this clock shows.
            moment.upstream.settle()
        second = yield Begin(
            Errand(
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
