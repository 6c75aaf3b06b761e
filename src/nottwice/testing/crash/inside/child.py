"""One errand in a forked child: read what is durable, apply decisions, do the work, read again.

The child never returns. It ends here, by its own exit, or by the signal of its fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import inspect
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from nottwice.engine import events
from nottwice.engine.clock import Clock, SystemClock
from nottwice.engine.host import Host
from nottwice.errors import NottwiceError
from nottwice.graphs.outcome import Outcome
from nottwice.guard.ledger import send
from nottwice.guard.registry import declared_tools, find_tool
from nottwice.guard.stand_ins import stand_in_everywhere
from nottwice.model import values
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Verb
from nottwice.reviews.decide import decide
from nottwice.store.interface import Store
from nottwice.store.machine.whereabouts import Whereabouts, tell
from nottwice.testing.crash import view
from nottwice.testing.crash.inside.instruments import Redirect, StillClock
from nottwice.testing.crash.inside.link import ChildLink
from nottwice.testing.crash.inside.points import CrashFault, PointKind, Points
from nottwice.testing.crash.inside.scratch import server_in
from nottwice.testing.crash.inside.stubs import StubDriver
from nottwice.testing.crash.inside.third_party import Stores
from nottwice.testing.crash.repeating import CallsOver
from nottwice.testing.crash.scenario import Scenario

OUTPUT = "output.txt"
LEDGERS = "ledgers"


@frozen_record(frozen=True, slots=True)
class ChildRuling:
    """A decision about one review."""

    review_id: str
    verb: Verb
    result_json: str | None = None


@frozen_record(frozen=True, slots=True)
class ChildMessage:
    """An event to send to a run."""

    run_id: str
    name: str
    payload_json: str


@frozen_record(frozen=True, slots=True, kw_only=True)
class ChildErrand:
    """What one child does, and the fault that it meets."""

    folder: Path
    """The folder of the examination, with its ledgers and the output of the last child."""
    fault: CrashFault | None = None
    counts: PointKind = PointKind.BOUNDARY
    passed: int = 0
    """Points that earlier children of the same life have passed. Numbering continues from there."""
    rulings: tuple[ChildRuling, ...] = ()
    messages: tuple[ChildMessage, ...] = ()
    elsewhere: bool = False
    """Nothing can be proven about other processes, as on another machine."""
    ahead_seconds: float = 0.0
    """How far its clock is ahead of the world's clock."""
    busy_seconds: float | None = None
    """How long to wait for another process that is stopped while it writes. None: the default."""
    prepare: Callable[[ChildLink], None] | None = None
    """Called in the child before everything else. A level may attach a tracer here."""
    before_work: Callable[[ChildLink], None] | None = None
    """Called right before the work, after the state was read and decisions were applied."""
    after_work: Callable[[], None] | None = None
    """Called when the work has ended, in whatever way."""
    looks_after: bool = True
    """False: its disk fails, so it cannot read the state. Another child will."""


def run_errand(
    errand: ChildErrand, scenario: Scenario, link: ChildLink, *, now: float, limit: float
) -> NoReturn:
    """Run the errand and end this process."""
    try:
        _quieten(errand.folder, limit)
        if errand.prepare is not None:
            errand.prepare(link)
        points = Points(link, errand.counts, errand.fault, passed=errand.passed)
        examined = _Examined(errand, scenario, link, points, now=now)
        _lead_elsewhere(errand, link)
        stand_in_everywhere(examined)
        stubs, theirs = examined.stubs, examined.stores
        _look(errand, theirs, link, "before", now)
        # The program's own listeners would report what only happens in this child.
        events.forget_listeners()
        events.listen(CallsOver(link))
        _let_people_act(errand, examined, now)
        if errand.before_work is not None:
            errand.before_work(link)
        ending = _work(scenario, points)
        if errand.after_work is not None:
            errand.after_work()
        if errand.looks_after:
            _look(errand, theirs, link, "after", now)
        link.tell(
            "ended",
            **ending,
            passed=points.passed,
            names=points.boundaries,
            used=sorted(stubs.used),
            declared=[tool.tool.name for tool in declared_tools()],  # type: ignore[attr-defined]
        )
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(70)


class _Examined:
    """Replaces the store, the clock and the driver of every ledger in this process."""

    def __init__(
        self,
        errand: ChildErrand,
        scenario: Scenario,
        link: ChildLink,
        points: Points,
        *,
        now: float,
    ) -> None:
        self.stubs = StubDriver(scenario, link, points)
        self.stores = Stores(
            errand.folder / LEDGERS, scenario.store, link, points, elsewhere=errand.elsewhere
        )
        self.still = StillClock(link, now=now, ahead_seconds=errand.ahead_seconds)

    def opened(self, given: str | Path | None) -> Store | None:
        return None

    def host(self, named: Host) -> Host:
        clock = self.still if isinstance(named.clock, SystemClock) else named.clock
        counted: Store = self.stores.counted(named.store)
        return replace(named, store=counted, clock=clock, driver=self.stubs)


def _lead_elsewhere(errand: ChildErrand, link: ChildLink) -> None:
    """Redirect every ledger that is opened from now on into the folder of the examination."""
    folder = errand.folder / LEDGERS
    # Another process that still exists is only stopped, and waited for briefly.
    alone = errand.busy_seconds is None
    tell(
        Whereabouts(
            path_of=Redirect(folder).path_of,
            server_of=server_in(folder, link, alone=alone),
            busy_seconds=errand.busy_seconds,
        )
    )


def _quieten(folder: Path, limit: float) -> None:
    """Redirect the output to a file, which keeps only the last child's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.excepthook = sys.__excepthook__
    output = os.open(folder / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    faulthandler.dump_traceback_later(limit, file=output)


def _look(errand: ChildErrand, theirs: Stores, link: ChildLink, moment: str, now: float) -> None:
    with theirs.opened() as stores:
        seen = view.look(errand.folder / LEDGERS, now=now, also=stores)
    link.note("seen", moment=moment, view=view.to_plain(seen))


def _work(scenario: Scenario, points: Points) -> dict[str, Any]:
    """Run the work and return how it ended: what it returned, or what it raised."""
    try:
        with points.counted():
            value = scenario.work()
            if inspect.iscoroutine(value):
                value = asyncio.run(value)
    except BaseException as error:
        known = isinstance(error, NottwiceError)
        return {
            "error": type(error).__name__,
            "text": str(error),
            "ours": known,
            "expected": scenario.expects(error),
        }
    return {"returned": _shown(value)}


def _shown(value: Any) -> str:
    """Return a value in a form that can be compared, without addresses and times."""
    if values.is_plain(value):
        return values.encode(value)
    if isinstance(value, Outcome):
        return f"{value.run_id} is {value.status} with {_shown(value.state)}"
    return re.sub(r" at 0x[0-9a-f]+", "", f"{type(value).__name__}")


def _let_people_act(errand: ChildErrand, examined: _Examined, now: float) -> None:
    if not errand.rulings and not errand.messages:
        return
    with examined.stores.opened() as their_stores:
        stores = _open_stores(errand.folder / LEDGERS, now)
        _act(errand, [*stores, *their_stores], examined.still)
        for store in stores:
            with contextlib.suppress(NottwiceError):
                store.close()


def _act(errand: ChildErrand, stores: list[Store], clock: Clock) -> None:
    for ruling in errand.rulings:
        store = next(one for one in stores if one.load_review(ruling.review_id) is not None)
        _rule(store, ruling, clock)
    for message in errand.messages:
        store = next(one for one in stores if one.load_run(message.run_id) is not None)
        send(message.run_id, message.name, values.decode(message.payload_json), store=store)


def _open_stores(folder: Path, now: float) -> list[Store]:
    return [view.open_store(path, now=now) for path in view.ledgers_in(folder)]


def _rule(store: Store, ruling: ChildRuling, clock: Clock) -> None:
    review = store.load_review(ruling.review_id)
    assert review is not None
    decide(
        store,
        clock,
        ruling.review_id,
        ruling.verb,
        by="the crash test",
        why="the world's log says so",
        result=None if ruling.result_json is None else values.decode(ruling.result_json),
        has_result=ruling.result_json is not None,
        tool=find_tool(review.identity.tool_name),
    )
