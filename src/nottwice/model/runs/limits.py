"""What may happen at the same time, and how often, in all processes together? (P311)

``nt.Limit(tool="charge", concurrency=4)``, ``nt.Limit(graph="refund", rate="100/h")``. A limit is
for a tool, a graph or a tag. What it counts has a name, its *meter*: two apps that declare a limit
for the same thing share it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nottwice.durations import read_duration
from nottwice.errors import UsageError
from nottwice.model.data.records import frozen_record
from nottwice.model.runs.labels import Tags

_RATE = re.compile(r"\s*([0-9]{1,9})\s*/\s*([0-9]*(?:\.[0-9]+)?\s*(?:ms|s|min|m|h|d|w))\s*")
_NOTHING = "Nothing was started."


@frozen_record(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit for one tool, graph or tag, which all workers of a ledger keep together.

    ``tool``: the name of a tool. Its calls are counted. ``graph``: the name of a graph, and
    ``tag``: a tag, ``"customer=acme"``, or a name, ``"customer"``, for each of its values. Their
    runs are counted. ``concurrency``: how many calls, or runs, may be in progress at the same time.
    ``rate``: how many may begin in a time, ``"10/s"`` or ``"100/15m"``.
    """

    tool: str | None = None
    graph: str | None = None
    tag: str | None = None
    concurrency: int | None = None
    rate: str | None = None

    def __post_init__(self) -> None:
        named = [one for one in (self.tool, self.graph, self.tag) if one is not None]
        if len(named) != 1 or not isinstance(named[0], str) or not named[0]:
            raise UsageError(
                f"A limit is for one thing: tool=, graph= or tag=, each by its name. {_NOTHING}"
            )
        whole = isinstance(self.concurrency, int) and not isinstance(self.concurrency, bool)
        if self.concurrency is not None and not (whole and self.concurrency >= 1):
            raise UsageError(
                f"concurrency={self.concurrency!r} is not a number from 1 on. {_NOTHING}"
            )
        if self.concurrency is None and self.rate is None:
            raise UsageError(f"{self.text} needs concurrency= or rate=. {_NOTHING}")
        if self.rate is not None and self.pace is None:
            raise UsageError(
                f"rate={self.rate!r} is not a number per time. {_NOTHING} Write it like "
                '"10/s" or "100/15m".'
            )

    @property
    def pace(self) -> tuple[int, float] | None:
        """How many may begin in how many seconds. None: there is no such limit."""
        found = _RATE.fullmatch(self.rate) if isinstance(self.rate, str) else None
        if found is None:
            return None
        unit = found[2].strip()
        seconds = read_duration(unit if unit[0].isdigit() else f"1{unit}")
        number = int(found[1])
        return (number, seconds) if number and seconds else None

    @property
    def text(self) -> str:
        """The limit in words, as it is shown where a run waits for it."""
        kind = "tool" if self.tool else "graph" if self.graph else "tag"
        bounds = [f"{self.concurrency} at a time"] if self.concurrency is not None else []
        bounds += [self.rate] if self.rate is not None else []
        return f"limit of {kind} {self.tool or self.graph or self.tag} ({', '.join(bounds)})"


@frozen_record(frozen=True, slots=True)
class Meter:
    """What a limit counts: its name, and what it allows."""

    name: str
    limit: Limit


def meters_of_call(limits: Iterable[Limit], tool_name: str) -> list[Meter]:
    """Return what a call of a tool is counted by."""
    return [Meter(f"tool {tool_name}", one) for one in limits if one.tool == tool_name]


def meters_of_run(limits: Sequence[Limit], graph_name: str, tags: Tags) -> list[Meter]:
    """Return what a run of a graph is counted by."""
    found = [Meter(f"graph {graph_name}", one) for one in limits if one.graph == graph_name]
    for one in limits:
        if one.tag is None:
            continue
        for name, value in tags:
            if one.tag in (name, f"{name}={value}"):
                found.append(Meter(f"tag {name}={value}", one))
    return found


@frozen_record(frozen=True, slots=True)
class LimitUse:
    """A call or a run that is about to begin, and what counts it."""

    use_id: str
    holder_id: str
    meters: Sequence[Meter]
    begins: bool = True
    """Whether it counts as a beginning. A run that is resumed has begun before."""
