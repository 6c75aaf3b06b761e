"""The work behind the demo's output: it kills agents, starts them again, and counts.

Every agent is its own process, and so is the shop that counts what reaches it. Every number that
leaves this file was counted at the shop or read from a ledger that the agents wrote.
"""

from __future__ import annotations

import enum
import itertools
import json
import os
import queue
import signal
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, replace
from pathlib import Path

from nottwice.engine.clock import SystemClock
from nottwice.errors import NottwiceError
from nottwice.model.call import CallRow
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Verb
from nottwice.reviews.decide import decide
from nottwice.reviews.queue import Case, open_cases
from nottwice.store.sqlite.store import SqliteStore
from nottwice.testing.nursery import Ended, Nursery
from nottwice.testing.world import Effect, World

WAITS_FOR_A_PERSON = 3
"""The exit code of an agent whose run waits for a decision."""
CHILD_LIMIT_SECONDS = 120.0
MOST_RESUMES = 4


class ShowcaseBroken(NottwiceError):
    """A process of the demo did not do its part, so there is nothing to show."""


class Way(enum.StrEnum):
    """How an agent is written."""

    NO_STATE = "no state"
    CHECKPOINT = "checkpoint"
    NOTTWICE = "nottwice"


@frozen_record(frozen=True, slots=True, kw_only=True)
class ShowcaseErrand:
    """The task of one agent process, and where it dies on the way."""

    way: Way
    order_id: int
    shop_url: str
    script: str
    ledger: str
    checkpoint: str
    die_at: str | None = None
    intents: bool = True

    @property
    def ticket(self) -> str:
        return f"ticket-{self.order_id}"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ShowcaseErrand:
        plain = json.loads(text)
        return cls(**{**plain, "way": Way(plain["way"])})


@frozen_record(frozen=True, slots=True, kw_only=True)
class Shown:
    """One ticket whose agent was killed once, and started again until it was done."""

    errand: ShowcaseErrand
    pids: tuple[int, ...]
    refunds: int
    mails: int
    reviews: int

    @property
    def done_twice(self) -> int:
        return max(0, self.refunds - 1) + max(0, self.mails - 1)

    @property
    def lost(self) -> int:
        return (self.refunds == 0) + (self.mails == 0)


@frozen_record(frozen=True, slots=True)
class ShowcaseVerdict:
    """A decision of the person on call, and why."""

    verb: Verb
    by: str
    why: str


OnCall = Callable[[Case, Sequence[Effect]], ShowcaseVerdict]
"""Receives a case and what the shop has received of its call. Returns the decision."""


def look_at_the_shop(case: Case, received: Sequence[Effect]) -> ShowcaseVerdict:
    """Decide like a person on call who always looks first."""
    verb = Verb.HAPPENED if received else Verb.DID_NOT_HAPPEN
    return ShowcaseVerdict(verb, "nottwice demo", f"the shop has received {len(received)} of them")


Sweep = Generator[Shown, None, None]
"""Tickets in the order in which they finish. Closing it ends the others."""


class Showcase:
    """The shop, the agents that are sent there, and the results."""

    def __init__(self, folder: Path, *, script: Path, command: Sequence[str]) -> None:
        """``script`` is the agent with nottwice. ``command`` starts nurseries that run errands."""
        self.folder = folder
        self.script = script
        self.world = World.start(folder / "shop")
        self.at_once = max(2, min(4, os.cpu_count() or 2))
        self._nurseries = [Nursery(command) for _ in range(self.at_once)]
        self._idle: queue.SimpleQueue[Nursery] = queue.SimpleQueue()
        for nursery in self._nurseries:
            self._idle.put(nursery)
        self._orders = itertools.count(7)

    def __enter__(self) -> Showcase:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stop()
        for nursery in self._nurseries:
            nursery.close()
        self.world.stop()

    def _stop(self) -> None:
        """End every agent that is still alive. Without nurseries no other can start."""
        for nursery in self._nurseries:
            nursery.stop()

    def errand(
        self, way: Way, *, die_at: str | None = None, intents: bool = True
    ) -> ShowcaseErrand:
        """Return an errand about a new order."""
        order_id = next(self._orders)
        return ShowcaseErrand(
            way=way,
            order_id=order_id,
            shop_url=self.world.url,
            script=str(self.script),
            # The broken ledger must not share a file with the sound one.
            ledger=str(self.folder / ("ledger.db" if intents else "ledger-without-intents.db")),
            checkpoint=str(self.folder / f"checkpoint-{order_id}.json"),
            die_at=die_at,
            intents=intents,
        )

    def points(self, way: Way) -> list[str]:
        """Return where an agent can die, found by running one without a kill."""
        ended = self._run(self.errand(way))
        if ended.returncode != 0:
            raise _broken("An agent that was not killed did not finish", ended)
        points: list[str] = json.loads(ended.output)
        if len(set(points)) < len(points):
            raise ShowcaseBroken(f"Two points of the agent have the same name: {points}.")
        return points

    def sweep(self, points: Sequence[str], way: Way, *, intents: bool = True) -> Sweep:
        """Kill one agent at every point and run each to its end, several at a time."""
        pool = ThreadPoolExecutor(max_workers=self.at_once)
        errands = [self.errand(way, die_at=point, intents=intents) for point in points]
        try:
            shown = [pool.submit(self.kill_and_resume, errand) for errand in errands]
            for one in as_completed(shown):
                yield one.result()
        except BaseException:
            self._stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def kill_and_resume(self, errand: ShowcaseErrand, on_call: OnCall = look_at_the_shop) -> Shown:
        """Run one ticket from the kill to the end."""
        killed = self.kill(errand)
        pids, reviews = [killed.pid], 0
        for _ in range(MOST_RESUMES):
            ended = self.start_again(errand)
            pids.append(ended.pid)
            if ended.returncode == 0:
                return self._shown(errand, pids, reviews)
            for case in self.cases(errand):
                self._decide(errand, case, on_call(case, self.received(errand, case)))
                reviews += 1
        raise _broken("An agent still waits although everything is decided", ended)

    def kill(self, errand: ShowcaseErrand) -> Ended:
        """Run an agent until it is killed at the point of its errand."""
        ended = self._run(errand)
        if ended.returncode != -signal.SIGKILL:
            raise _broken(f"An agent was not killed {errand.die_at}", ended)
        return ended

    def start_again(self, errand: ShowcaseErrand) -> Ended:
        """Run the agent of an errand again, without a kill."""
        ended = self._run(replace(errand, die_at=None))
        if ended.returncode not in (0, WAITS_FOR_A_PERSON):
            raise _broken("An agent that was started again failed", ended)
        return ended

    def cases(self, errand: ShowcaseErrand) -> list[Case]:
        """Return what an errand's run waits for."""
        store = self._open(errand)
        try:
            return open_cases(store, errand.ticket)
        finally:
            store.close()

    def calls(self, errand: ShowcaseErrand) -> list[CallRow]:
        """Return what the ledger has on an errand's run."""
        store = self._open(errand)
        try:
            return store.calls(errand.ticket)
        finally:
            store.close()

    def received(self, errand: ShowcaseErrand, case: Case) -> list[Effect]:
        """Return what the shop has received of the call of a case."""
        return self._effects(case.review.identity.tool_name, errand)

    def _effects(self, tool: str, errand: ShowcaseErrand) -> list[Effect]:
        effects = self.world.effects(tool)
        return [effect for effect in effects if effect.args["order_id"] == errand.order_id]

    def _shown(self, errand: ShowcaseErrand, pids: Sequence[int], reviews: int) -> Shown:
        return Shown(
            errand=errand,
            pids=tuple(pids),
            refunds=len(self._effects("refund", errand)),
            mails=len(self._effects("send_email", errand)),
            reviews=reviews,
        )

    def _decide(self, errand: ShowcaseErrand, case: Case, verdict: ShowcaseVerdict) -> None:
        """Record a decision like ``nottwice decide``. The result is null: the tools return None."""
        store = self._open(errand)
        try:
            decide(
                store,
                SystemClock(),
                case.review.review_id,
                verdict.verb,
                by=verdict.by,
                why=verdict.why,
                has_result=verdict.verb is Verb.HAPPENED,
                shown_version=case.review.version,
            )
        finally:
            store.close()

    def _open(self, errand: ShowcaseErrand) -> SqliteStore:
        return SqliteStore(errand.ledger, now=SystemClock().now(), create=False)

    def _run(self, errand: ShowcaseErrand) -> Ended:
        nursery = self._idle.get()
        try:
            return nursery.run(errand.to_json(), limit_seconds=CHILD_LIMIT_SECONDS)
        finally:
            self._idle.put(nursery)


def _broken(what: str, ended: Ended) -> ShowcaseBroken:
    said = ended.complaints.strip() or "nothing"
    return ShowcaseBroken(
        f"{what}: process {ended.pid} ended with {ended.returncode}. Its output: {said}"
    )
