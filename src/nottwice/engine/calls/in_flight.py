"""Calls in flight in this process, and which of them waits for which (D13)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nottwice import lazy
from nottwice.errors import NotInRun, SelfWait
from nottwice.model.call import Call, CallIdentity, CallRow, call_from_row
from nottwice.model.sealing.secrets import Known

if TYPE_CHECKING:
    import asyncio

DRAIN_SECONDS = 60.0
"""How long leaving a run waits for what is in flight."""

living: set[str] = set()
"""Ids of attempts whose body runs in this process, or is about to. A waiter can be interrupted or
cancelled at any moment, but the attempt is over only when its body has ended. A cancelled body
stays here until the process ends: a thread that it started may apply its effect at any time
(P125)."""


@dataclass(slots=True, eq=False)
class InFlight:
    """An attempt in flight in this process, or a caller that waits to make one."""

    identity: CallIdentity
    parent: InFlight | None
    row: CallRow | None = None
    begun: bool = False
    """The intent was recorded or is being recorded. From here on the effect may happen."""
    acting: bool = False
    """An attempt is being made, from its intent to its recorded outcome, or a child run."""
    is_left: bool = False
    """Its caller is gone while it was acting. It ends with the attempt."""
    waits_for: InFlight | None = None
    over: Future[None] | None = None
    scope: Any = None
    """Where the call was made, if it is being resolved elsewhere."""
    counts: dict[tuple[str, str], int] | None = None
    """How many recorded values each attempt has asked for; see ``guard/recorded.py``."""
    secrets: Known | None = None
    """The secrets it was given, which must not appear in its result."""
    thread_id: int = field(default_factory=threading.get_ident)
    """The thread of its caller."""

    @property
    def parent_call_id(self) -> str | None:
        """The call of the same run whose body makes this call; see ``CallRow``."""
        parent = self.parent
        if parent is None or parent.identity.workflow_id != self.identity.workflow_id:
            return None
        return parent.identity.call_id if parent.row is None else parent.row.call_id

    def body_ended(self) -> None:
        if self.row is not None:
            living.discard(self.row.attempt_id)

    @property
    def lives(self) -> bool:
        """Whether its body may still run in this process."""
        return self.row is not None and self.row.attempt_id in living

    @property
    def call(self) -> Call | None:
        """The call as its tool sees it. It is built on demand."""
        return call_from_row(self.row) if self.row is not None else None

    @property
    def is_part_of_effect(self) -> bool:
        """Whether it is acting itself, or was called from the body of a call that is."""
        return any(one.acting for one in self.chain())

    def chain(self) -> list[InFlight]:
        """Return this attempt and the attempts it was called from."""
        found = [self]
        while found[-1].parent is not None:
            found.append(found[-1].parent)
        return found


def check_no_circle(
    target: InFlight, parent: InFlight | None, waiting: Iterable[InFlight] = ()
) -> None:
    """Refuse to wait for a call that waits for this one, directly or indirectly (D13).

    ``waiting``: the existing waiters. The callers of a waiter wait with it.
    """
    ours = parent.chain() if parent is not None else []
    seen: set[InFlight] = set()
    pending = [target]
    while ours and pending:
        one = pending.pop()
        if one in ours:
            raise SelfWait(
                f"Tool {target.identity.tool_name!r} was called from inside the same call, and "
                "would wait for itself. The inner call was not made. Call it with other "
                "arguments, or repeat on purpose with .again('a label')."
            )
        if one not in seen:
            seen.add(one)
            waiters = (one, *(waiter for waiter in waiting if one in waiter.chain()))
            pending.extend(each.waits_for for each in waiters if each.waits_for is not None)


class InFlightCalls:
    """The calls of one run that are in flight in this process."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._calls: dict[CallIdentity, InFlight] = {}
        self._waiting: set[InFlight] = set()
        self._held: set[InFlight] = set()
        self._tasks: set[asyncio.Future[Any]] = set()
        self._when_idle: Callable[[], None] | None = None
        self.is_stopped = False
        """Whether nothing new may begin, because the driver of the run is leaving it."""

    def enter(self, identity: CallIdentity, parent: InFlight | None) -> tuple[InFlight, bool]:
        """Register a call. False: it is in flight already, and a waiter for it is returned.

        Raises NotInRun if the run is being left, unless it is a part of an effect in flight.
        """
        with self._guard:
            if self.is_stopped and (parent is None or not parent.is_part_of_effect):
                raise _is_being_left(identity)
            existing = self._calls.get(identity)
            if existing is None:
                mine = InFlight(identity, parent)
                self._calls[identity] = mine
                return mine, True
            if existing.over is None:
                existing.over = Future()
            check_no_circle(existing, parent, self._waiting)
            waiter = InFlight(identity, parent, waits_for=existing)
            if parent is not None:
                self._waiting.add(waiter)
            return waiter, False

    def stop_waiting(self, waiter: InFlight) -> None:
        """Remove a waiter that stops waiting, whether its call has ended or not."""
        with self._guard:
            self._waiting.discard(waiter)

    def begin(self, mine: InFlight) -> None:
        """Note that an attempt begins. Raises NotInRun if the run is being left."""
        with self._guard:
            if self.is_stopped and not mine.is_part_of_effect:
                raise _is_being_left(mine.identity)
            mine.begun = mine.acting = True

    def rest(self, mine: InFlight) -> None:
        """Note that an attempt has ended and its outcome is recorded. Its call may make another."""
        with self._guard:
            mine.acting = False
            is_over = mine.is_left or self.is_stopped
        if is_over:
            self.leave(mine)

    def leave(self, mine: InFlight) -> None:
        """Remove a call that has ended in this process, with any outcome.

        A call whose attempt is still being made is removed at the end of the attempt.
        """
        with self._guard:
            mine.is_left = True
            if mine.acting or self._calls.get(mine.identity) is not mine:
                return
            del self._calls[mine.identity]
            over = mine.over
            idle = not self._calls
        if over is not None:
            over.set_result(None)
        if idle and self._when_idle is not None:
            self._when_idle()

    def stop(self) -> None:
        """Let nothing new begin, and drop every call that is no part of an effect in flight (P304).

        What is dropped changes nothing any more: it runs on without the run, and its result is
        lost.
        """
        with self._guard:
            self.is_stopped = True
            dropped = [one for one in self._calls.values() if not one.is_part_of_effect]
        for one in dropped:
            self.leave(one)

    def drop_what_was_interrupted(self) -> None:
        """Remove the calls of this thread, which is leaving the run and so makes none (P118).

        Ctrl-C may have struck where a call was about to be removed, and the run would wait for it
        forever. A body that another thread still executes keeps its call. In an event loop, other
        tasks of this thread may make calls.
        """
        if lazy.running_loop() is not None:
            return
        here = threading.get_ident()
        with self._guard:
            ended = [one for one in self._calls.values() if one.thread_id == here and not one.lives]
            for one in ended:
                one.acting = False
        for one in ended:
            self.leave(one)

    def under_way(self) -> list[InFlight]:
        """Return the calls in flight, each with a future to wait for."""
        with self._guard:
            found = list(self._calls.values())
            for one in found:
                if one.over is None:
                    one.over = Future()
        return found

    def find(self, identity: CallIdentity) -> InFlight | None:
        """Return the call with this identity, if it is in flight."""
        return self._calls.get(identity)

    def call_when_idle(self, call: Callable[[], None]) -> list[InFlight]:
        """Call this when the last call has ended. If none is in flight, it is never called."""
        with self._guard:
            left = list(self._calls.values())
            if left:
                self._when_idle = call
            return left

    @contextlib.contextmanager
    def held_back(self, mine: InFlight | None) -> Iterator[None]:
        """Mark a call that waits for other tasks, so that two of them do not wait for each other.

        See ``holding.py``.
        """
        if mine is None:
            yield
            return
        with self._guard:
            self._held.add(mine)
        try:
            yield
        finally:
            with self._guard:
                self._held.discard(mine)

    def others_are_busy(self, mine: InFlight | None) -> bool:
        """Whether a tool is running that does not itself wait for a call that is held back."""
        with self._guard:
            stuck = {one for held in self._held for one in held.chain()}
            if mine is not None:
                stuck.update(mine.chain())
            return any(one not in stuck for one in self._calls.values())

    # Tasks of calls in an event loop. The loop alone would not keep them alive.

    @property
    def tasks(self) -> frozenset[asyncio.Future[Any]]:
        """The tasks that make calls of this run."""
        return frozenset(self._tasks)

    def keep(self, task: asyncio.Future[Any]) -> None:
        """Keep a task alive until it is dropped."""
        self._tasks.add(task)

    def drop(self, task: asyncio.Future[Any]) -> None:
        """Drop a task that has ended."""
        self._tasks.discard(task)


def _is_being_left(identity: CallIdentity) -> NotInRun:
    return NotInRun(
        f"Tool {identity.tool_name!r} was not run: this process is leaving run "
        f"{identity.workflow_id!r}, because it was cancelled. Nothing was sent. The next process "
        "that opens the run makes the call."
    )
