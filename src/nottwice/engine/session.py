"""One run while this process drives it: who holds it, what rides, what is in flight.

Nothing here is trusted after a crash; it is only what the holder knows on top of the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from nottwice.engine import events, said
from nottwice.engine.asks import Ask, Doing, Write
from nottwice.engine.hiding import hide
from nottwice.engine.host import Host, Policy
from nottwice.engine.in_flight import InFlight, check_no_circle
from nottwice.errors import Fenced, NotInRun, NottwiceError, RunDenied
from nottwice.model.cadence import AT_EFFECTS, Cadence
from nottwice.model.call import (
    FIRST_CHECKPOINT,
    ROOT_NODE,
    CallIdentity,
    CallRow,
)
from nottwice.model.decision import Action
from nottwice.model.keyring import Key
from nottwice.model.records import frozen_record
from nottwice.model.review import AuditEntry, Evidence, Review
from nottwice.model.run import (
    CheckpointRecord,
    Fence,
    HolderRecord,
    RunRecord,
    RunStatus,
    Standing,
    StepRecord,
    StepStatus,
    Wait,
)
from nottwice.model.tool import Tool
from nottwice.store.interface import (
    CallWrite,
    ChargeWrite,
    Commit,
    EventWrite,
    ReviewWrite,
    RunUpdate,
)

MOST_RIDING = 200
FindTool = Callable[[str], Tool | None]


@dataclass(slots=True, eq=False)
class StepState:
    """An open step: what the ledger held when it was opened, and what was asked for since."""

    record: StepRecord
    resumed: bool = False
    outstanding: dict[CallIdentity, CallRow] = field(default_factory=dict)
    later: dict[CallIdentity, CallRow] = field(default_factory=dict)
    inner: dict[str, list[CallIdentity]] = field(default_factory=dict)
    """What of the outstanding the body of a call made, by the id of that call."""
    around: dict[CallIdentity, tuple[str, ...]] = field(default_factory=dict)
    """The ids of the calls in whose bodies a later one was made."""
    abandoned: dict[str, tuple[CallRow, ...]] = field(default_factory=dict)
    """Effects of other visits of this step that earlier processes left in progress, by visit. All
    visits of the step share it, and each takes itself out when it is over."""
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    """How many timers, values and so on each of its branches has asked for since it was opened."""

    @property
    def finished(self) -> bool:
        return self.record.status is StepStatus.DONE

    @property
    def may_refuse(self) -> bool:
        """Whether a new effect in it needs a closer look."""
        return bool(self.finished or self.outstanding or self.later or self.abandoned)


@frozen_record(frozen=True, slots=True, eq=False)
class Scope:
    """Where code is: the run, and the step or branch in which a call means one call."""

    session: Session
    node_id: str = ROOT_NODE
    checkpoint_id: str = FIRST_CHECKPOINT
    steps: tuple[StepState, ...] = ()
    """Open steps, innermost first."""


current_scope: contextvars.ContextVar[Scope | None] = contextvars.ContextVar(
    "nottwice_scope", default=None
)
current_attempt: contextvars.ContextVar[InFlight | None] = contextvars.ContextVar(
    "nottwice_attempt", default=None
)


@frozen_record(frozen=True, slots=True)
class Stop:
    """A wait that somebody in this process ran into: nothing new happens behind it."""

    wait: Wait
    error: NottwiceError


class Riding:
    """Records that are not durable yet and go with the next commit of the run, of whatever kind.

    They leave only after COMMIT. Two commits at once may both carry them: repeating is harmless.
    """

    def __init__(self, when_boarded: Callable[[], None] = lambda: None) -> None:
        """``when_boarded`` is called after something came aboard where nothing was."""
        self._when_boarded = when_boarded
        self._guard = threading.Lock()
        self._calls: dict[CallIdentity, CallWrite] = {}
        self._steps: dict[tuple[str, str], StepRecord] = {}
        self._evidence: dict[Evidence, None] = {}
        self._checkpoints: dict[int, CheckpointRecord] = {}
        self._under_way = 0

    def add_call(self, write: CallWrite) -> None:
        """Take a row aboard; one that is aboard already gives up its seat, not what it follows."""
        identity = write.row.identity
        with self._guard:
            was_empty = not self
            aboard = self._calls.get(identity)
            self._calls[identity] = replace(write, after=aboard.after) if aboard else write
        if was_empty:
            self._when_boarded()

    def add_step(self, step: StepRecord) -> None:
        with self._guard:
            was_empty = not self
            self._steps[(step.node_id, step.checkpoint_id)] = step
        if was_empty:
            self._when_boarded()

    def add_evidence(self, item: Evidence) -> None:
        with self._guard:
            was_empty = not self
            self._evidence[item] = None
        if was_empty:
            self._when_boarded()

    def add_checkpoint(
        self, checkpoint: CheckpointRecord, *, ends: StepRecord | None = None
    ) -> None:
        """Take a checkpoint aboard together with the step that it ends, never one without it."""
        with self._guard:
            was_empty = not self
            self._checkpoints[checkpoint.version] = checkpoint
            if ends is not None:
                self._steps[(ends.node_id, ends.checkpoint_id)] = ends
        if was_empty:
            self._when_boarded()

    def rewrite(self, checkpoints: Iterable[CheckpointRecord]) -> bool:
        """Take checkpoints aboard that are written anew, all or none.

        None while a commit is under way: it may carry them as they were, and arrive after this.
        """
        with self._guard:
            if self._under_way:
                return False
            self._checkpoints.update((one.version, one) for one in checkpoints)
            return True

    def has_checkpoint(self, version: int) -> bool:
        return version in self._checkpoints

    def find_call(self, identity: CallIdentity) -> CallRow | None:
        write = self._calls.get(identity)
        return write.row if write else None

    def find_step(self, node_id: str, checkpoint_id: str) -> StepRecord | None:
        return self._steps.get((node_id, checkpoint_id))

    def __bool__(self) -> bool:
        return bool(self._calls or self._steps or self._evidence or self._checkpoints)

    def __len__(self) -> int:
        alone = len(self._evidence) + len(self._checkpoints)
        return len(self._calls) + len(self._steps) + alone

    @property
    def is_under_way(self) -> bool:
        """Whether a commit carries what was aboard when it left."""
        return self._under_way > 0

    def leave(self) -> Aboard:
        """What goes with a commit that leaves now; ``back`` when it is over, in whatever way."""
        with self._guard:
            self._under_way += 1
            return Aboard(
                tuple(self._calls.values()),
                tuple(self._steps.values()),
                tuple(self._evidence),
                tuple(self._checkpoints.values()),
            )

    def back(self) -> None:
        with self._guard:
            self._under_way -= 1

    def arrived(self, commit: Commit) -> None:
        """Forget what this commit made durable."""
        with self._guard:
            for write in commit.calls:
                identity = write.row.identity
                aboard = self._calls.get(identity)
                if aboard is write:
                    del self._calls[identity]
                elif aboard is not None:
                    self._calls[identity] = replace(aboard, after=write.row.state)
            for step in commit.steps:
                where = (step.node_id, step.checkpoint_id)
                if self._steps.get(where) is step:
                    del self._steps[where]
            for item in commit.evidence:
                self._evidence.pop(item, None)
            for checkpoint in commit.checkpoints:
                if self._checkpoints.get(checkpoint.version) is checkpoint:
                    del self._checkpoints[checkpoint.version]


class Aboard(NamedTuple):
    """Everything that rides at one moment."""

    calls: tuple[CallWrite, ...]
    steps: tuple[StepRecord, ...]
    evidence: tuple[Evidence, ...]
    checkpoints: tuple[CheckpointRecord, ...]


class Session:
    """One claimed run in this process."""

    # Not there before somebody has looked: whoever only takes a run does not go on with it.
    standing: Standing
    """What there was to look at when it was claimed."""
    ordinals: Iterator[int]
    """For the steps that begin here."""
    trouble: Exception | None = None
    """Why a commit of what rode failed; the next call raises it."""
    driving: object | None = None
    """What keeps other drivers of this process from the run; see ``ownership.py``."""
    when_idle: Callable[[], None] | None = None
    looked_for_word: tuple[float, int] | None
    """When it was last looked for word of somebody who cancelled the run, and how many words were
    left in this process by then; see cancelled.py."""

    def __init__(
        self,
        *,
        host: Host,
        run: RunRecord,
        holder: HolderRecord,
        find_tool: FindTool,
        patience_seconds: float,
        found: RunRecord | None = None,
        policies: tuple[Policy, ...] | None = None,
        cadence: Cadence = AT_EFFECTS,
        lists_tools: bool = False,
    ) -> None:
        self.store = host.store
        self.clock = host.clock
        self.driver = host.driver
        self.policies = host.policies if policies is None else policies
        self.keys = host.keys
        self.run = run
        self.found = found
        """The run as it was before it was claimed; None: it was not there."""
        self.may_have_reviews = found is not None
        """Whether people may have been asked something: before this claim, or since."""
        self.run_id = run.workflow_id
        self.holder = holder
        self.fence = Fence(holder.holder_id, run.epoch)
        self.find_tool = find_tool
        self.lists_tools = lists_tools
        """Whether a tool that is not declared is gone, and not only unknown to this process."""
        self.patience_seconds = patience_seconds
        self.cadence = cadence
        """When what rides gets a commit of its own."""
        self.steps_entered = itertools.count(1)
        self.secret_key: Key | None = None
        """The key of this run, once it has needed one; see ``secret_key.py``."""
        self.denied: RunDenied | None = None
        """What a policy stopped the whole run with: nothing new happens behind it."""
        self.riding = Riding(self._flush_soon)
        self.unrecorded: dict[CallIdentity, CallWrite] = {}
        """Outcomes that are known here but could not be written; tried again before doubting."""
        self.waivers: dict[CallIdentity, Review] = {}
        """Decisions that let effects stay unasked for; each is used once."""
        self.stops: dict[CallIdentity, Stop] = {}
        """What has stopped a part of the run, by what was asked for there; see ``stops.py``."""
        self.stopped: dict[tuple[str, bool], dict[CallIdentity, None]] = {}
        """The same by the branches that are behind it; written under ``guard``."""
        self.asked: dict[CallIdentity, Review] = {}
        """Questions and approvals that are not used yet, as this process last saw them."""
        self.guard = threading.Lock()
        self.in_flight: dict[CallIdentity, InFlight] = {}
        self.waiting: set[InFlight] = set()
        self.tasks: set[asyncio.Future[Any]] = set()
        """Calls of an event loop; the loop itself would not keep them alive."""
        self.expects_new = False
        """Whether the last call that was looked up was new: then the next one will be, too."""
        self.held: set[InFlight] = set()
        """New effects that wait for other tasks to ask for what is outstanding; see holding.py."""
        self.asked_for: set[str] = set()
        """Calls of steps that were asked for since a run was resumed, by their ids."""
        self.abandoned: dict[str, dict[str, tuple[CallRow, ...]]] = {}
        """What each step's visits in progress held when the run was resumed; see ``StepState``."""
        self._visited: set[tuple[str, str]] = set()
        self.told_to_stop: Callable[[], bool] = _never
        """Whether its driver wants to hand the run back between two nodes."""
        self._lot = os.urandom(12).hex()
        self._attempts = itertools.count()
        self.depth = 1
        self.pid = os.getpid()
        self.thread_id = threading.get_ident()
        self.closed = False

    def stands(self, standing: Standing, *, looked_for_word: tuple[float, int] | None) -> None:
        """Take note of what there is to look at; then the run can go on."""
        self.standing = standing
        self.ordinals = itertools.count(standing.last_ordinal + 1)
        self.looked_for_word = looked_for_word

    @property
    def is_first_drive(self) -> bool:
        """Whether nobody but this session has ever driven the run."""
        return self.found is None or self.found.epoch == 0

    def is_first_visit(self, node_id: str, checkpoint_id: str) -> bool:
        """Whether a step cannot be on record."""
        if not self.is_first_drive:
            return False
        visit = (node_id, checkpoint_id)
        seen = visit in self._visited
        self._visited.add(visit)
        return not seen

    # Attempts in flight

    def enter(self, identity: CallIdentity, parent: InFlight | None) -> tuple[InFlight, bool]:
        """Register a call. False: it is under way already, and a waiter for it is returned."""
        with self.guard:
            existing = self.in_flight.get(identity)
            if existing is None:
                mine = InFlight(identity, parent)
                self.in_flight[identity] = mine
                return mine, True
            if existing.over is None:
                existing.over = Future()
            check_no_circle(existing, parent, self.waiting)
            waiter = InFlight(identity, parent, waits_for=existing)
            if parent is not None:
                self.waiting.add(waiter)
            return waiter, False

    def stop_waiting(self, waiter: InFlight) -> None:
        """A waiter goes on, whether what it waited for is over or not."""
        with self.guard:
            self.waiting.discard(waiter)

    def leave(self, mine: InFlight) -> None:
        """A call is over in this process, whatever became of it."""
        with self.guard:
            if self.in_flight.get(mine.identity) is mine:
                del self.in_flight[mine.identity]
            over = mine.over
            idle = not self.in_flight
        if over is not None:
            over.set_result(None)
        if idle and self.when_idle is not None:
            self.when_idle()

    def under_way(self) -> list[InFlight]:
        """What is in flight, each with a future to wait for."""
        with self.guard:
            for one in self.in_flight.values():
                if one.over is None:
                    one.over = Future()
            return list(self.in_flight.values())

    # Commits

    def commit(
        self,
        *,
        run: RunUpdate | None = None,
        unless_blocked: bool = False,
        calls: tuple[CallWrite, ...] = (),
        reviews: tuple[ReviewWrite, ...] = (),
        evidence: tuple[Evidence, ...] = (),
        audit: tuple[AuditEntry, ...] = (),
        events: tuple[EventWrite, ...] = (),
        charges: tuple[ChargeWrite, ...] = (),
    ) -> Iterable[Ask]:
        """Write as the holder, with everything that rides: ``yield from session.commit(...)``.

        Durable: when that returns.
        """
        if self.pid != os.getpid():
            raise forked(self)
        if reviews:
            self.may_have_reviews = True
        commit = Commit(
            self.run_id,
            self.fence,
            None,
            run,
            unless_blocked,
            calls,
            reviews=reviews,
            evidence=evidence,
            audit=audit,
            events=events,
            charges=charges,
        )
        if not self.riding:
            # The usual case, twice in every call: nothing is left to do once it is durable, so the
            # ask goes without a generator around it.
            return (Write(commit),)
        return self._commit_riding(commit)

    def _commit_riding(self, alone: Commit) -> Doing[None]:
        aboard = self.riding.leave()
        try:
            commit = replace(
                alone,
                calls=aboard.calls + alone.calls,
                steps=aboard.steps,
                evidence=aboard.evidence + alone.evidence,
                checkpoints=aboard.checkpoints,
            )
            yield Write(commit)
            self.riding.arrived(commit)
        finally:
            self.riding.back()

    def commit_row(
        self, row: CallRow, *, after: CallRow, reviews: tuple[ReviewWrite, ...]
    ) -> Doing[None]:
        """Write one row that ends a doubt, with the reviews that end with it."""
        update = RunUpdate(RunStatus.RUNNING, self.clock.now()) if reviews else None
        yield from self.commit(calls=(CallWrite(row, after.state),), reviews=reviews, run=update)

    def flush_if_heavy(self) -> Doing[None]:
        """Bound what a crash can cost, and what riding records cost in memory."""
        if len(self.riding) >= MOST_RIDING:
            yield from self.commit()

    def flush_at_step(self) -> Doing[None]:
        """A step was entered: write what rides if that is what was asked for (P152).

        Durable: what rode, when it returns, if it was.
        """
        every = self.cadence.steps
        if every is not None and next(self.steps_entered) % every == 0 and self.riding:
            yield from self.commit()

    def _flush_soon(self) -> None:
        seconds = self.cadence.waits_seconds
        if seconds is not None and not self.closed:
            self.clock.later(seconds, self._flush)

    def _flush(self) -> None:
        """Give what still rides a commit of its own; in another thread, and never run a tool.

        Durable: what rode, when it returns without trouble.
        """
        if self.closed or self.pid != os.getpid():
            return
        if self.riding.is_under_way:
            # A commit is about to take it along, or most of it.
            self._flush_soon()
            return
        if not self.riding:
            return
        try:
            with contextlib.closing(self._commit_riding(Commit(self.run_id, self.fence))) as asks:
                for ask in asks:
                    assert isinstance(ask, Write)
                    self.store.commit(ask.commit)
        except Exception as error:
            # An overtaken holder hears of it before it asks for anything more. What it had is not
            # evidence: it says nothing about the world, and the new holder asks for itself (P153).
            self.trouble = error
            return
        if self.riding:
            self._flush_soon()

    def new_attempt_id(self) -> str:
        """Unlike any other: drawn by lot for this session, and counted in it."""
        return f"{self._lot}{next(self._attempts):08x}"

    def tell_attempt(self, row: CallRow) -> None:
        """Tell what came of an attempt that was made here."""
        seconds = max(0.0, (row.finished_at or self.clock.now()) - row.started_at)
        ended = events.attempt_ended(self.store.location, row, seconds=seconds)
        if ended.error is not None:
            again = "" if ended.retry_in is None else f" again in {ended.retry_in:.3g} s"
            detail = f"after {seconds:.3g} s error={ended.error!r}{again}"
            self.say(f"attempt {row.attempt} ended with an error", row, detail)
        if events.listeners:
            events.tell(ended, self.store)

    def say(
        self, decision: str | Action, row_or_identity: CallRow | CallIdentity, detail: str = ""
    ) -> None:
        """One log line about a call (O1)."""
        if said.is_heard():
            detail = hide(detail)
            words = decision.value if isinstance(decision, Action) else decision
            said.say(said.about_call(self, row_or_identity, words, detail), self.store)


def _never() -> bool:
    return False


def forked(session: Session) -> NotInRun:
    """What to tell a forked child that uses the run of its parent."""
    return NotInRun(
        f"Run {session.run_id!r} was opened by process {session.pid}, and this is process "
        f"{os.getpid()}, forked from it. Nothing was sent. Open a run of its own in the child."
    )


def check_usable(session: Session) -> None:
    """Refuse a session that was left, or that belongs to the parent of a forked process."""
    if session.pid != os.getpid():
        raise forked(session)
    if session.closed:
        raise was_left(session)
    trouble = session.trouble
    if trouble is not None:
        # A disk may have room again. A run that another process took does not come back.
        session.trouble = trouble if isinstance(trouble, Fenced) else None
        raise trouble


def was_left(session: Session) -> NotInRun:
    """What to tell code that is still at work in a run whose block has ended."""
    return NotInRun(
        f"Run {session.run_id!r} was left already. Nothing was sent. Call the tool inside "
        "the with-block, or open the run again."
    )
