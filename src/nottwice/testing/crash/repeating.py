"""What did a fault cost? Finds the calls that were repeated but are made once without it. (P160)

Every invocation of a tool is counted by the id of its call, over the killed process and all that
resume it. There are two kinds. Effects and recorded model calls are durable before they return, so
a kill repeats only those that were in progress. The result of any other pure tool waits up to
100 ms for a commit. Time does not advance in a crash test, so that commit never comes. The count of
such calls is the most that a process can lose in those 100 ms.
"""

from __future__ import annotations

from collections import Counter

from nottwice.engine import events
from nottwice.engine.asks import Fire
from nottwice.model.data.records import frozen_record
from nottwice.model.tool import OWN_PREFIX
from nottwice.testing.crash.inside.link import ChildLink
from nottwice.testing.crash.upstream import CountingUpstream

MODEL = f"{OWN_PREFIX}model"
"""How an agent's question to its model is recorded (``agent/requests/asking.py``)."""


@frozen_record(frozen=True, slots=True)
class Repeated:
    """Calls that were repeated, by tool."""

    kept: Counter[str]
    """Of tools whose results are durable before they are returned."""
    waiting: Counter[str]
    """Of tools whose results wait for a commit."""

    @property
    def every(self) -> Counter[str]:
        return self.kept + self.waiting


def tell_invoking(ask: Fire, link: ChildLink) -> None:
    """Tell the parent about a pure call of this process. The parent answers effects itself."""
    if ask.tool.replay_class.effectful:
        return
    name, call_id = ask.tool.name, ask.in_flight.identity.call_id
    kept = ask.tool.durable or name == MODEL
    # Times, ids and random numbers cost nothing.
    if kept or not name.startswith(OWN_PREFIX):
        link.tell("invoking", call_id=call_id, tool=name, kept=kept)


class CallsOver:
    """Tells the parent which calls are over: their callers have got an answer.

    An agent gets the reply of its model only after a commit of its own. Until that commit, which
    the parent sees, or until the next call in the run, the request is in progress.
    """

    def __init__(self, link: ChildLink) -> None:
        self._link = link
        self._replies: dict[str, str] = {}
        """The last call that has a reply, by run."""

    def __call__(self, event: events.Event) -> None:
        # A call that is reissued while its run is opened has no caller to return to.
        if not isinstance(event, events.CallEnded | events.AttemptEnded):
            return
        reply = self._replies.pop(event.run_id, event.call_id)
        if reply != event.call_id:
            self._link.note("over", call_id=reply)
        if event.tool == MODEL and event.outcome == "done":
            self._replies[event.run_id] = event.call_id
        else:
            self._link.note("over", call_id=event.call_id)


def repeated(found: CountingUpstream, expected: CountingUpstream) -> Repeated:
    """Return what was done more often than in the uninterrupted run."""
    usual = Counter(one.call_id for one in expected.invoked)
    kept: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for one, count in Counter(found.invoked).items():
        more = count - usual[one.call_id]
        if more > 0:
            (kept if one.kept else waiting)[one.tool] += more
    return Repeated(kept, waiting)


def excess(
    found: CountingUpstream, expected: CountingUpstream, *, at_most: int | None
) -> str | None:
    """Return what is wrong with the repeated calls, or None.

    ``at_most`` is how many calls of any tool one fault may cost. None: those that were in progress.
    Results that wait for a commit are then not judged.
    """
    again = repeated(found, expected)
    judged = again.kept if at_most is None else again.every
    each = max(1, found.widest, expected.widest) if at_most is None else at_most
    allowed = each * max(1, found.faults)
    if judged.total() <= allowed:
        return None
    tools = ", ".join(f"{tool} ×{count}" for tool, count in sorted(judged.items()))
    return f"{judged.total()} calls were repeated ({tools}), but at most {allowed} may be"
