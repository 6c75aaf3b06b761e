"""How long does a new effect wait for other tasks to ask for what is outstanding? (D7, D15)

Plain ``asyncio.gather`` and threads finish in one order and resume in another. A task that gets to
its new effect first must not take the receipts of slower tasks for drift, so its effect is held
back until they have asked for them. It is not held if no other task or thread can be at work, and
not for ever: a program that really has drifted never asks.

Two bounds end the wait. ``QUIET_SECONDS`` passes only while no tool of another task is running, and
begins again whenever something outstanding was asked for; so it bounds how long a task may work
between two calls. ``LONGEST_SECONDS`` bounds everything, because a tool can wait for the task that
is held. Promise kept here: P137.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

from nottwice.engine.asks import Doing, Pause
from nottwice.engine.session import Scope, Session, was_left
from nottwice.model.call import CallIdentity, CallRow

QUIET_SECONDS = 10.0
LONGEST_SECONDS = 300.0
_FIRST_LOOK_SECONDS = 0.002
_LAST_LOOK_SECONDS = 0.1
# Threads of nottwice that never run code of the user.
_OWN_THREADS = (
    "nottwice-commit",
    "nottwice-figures",
    "nottwice-later",
    "nottwice-lease",
    "nottwice-read",
)

InTheWay = Callable[[Scope, CallIdentity], Iterator[CallRow]]


def hold_back(scope: Scope, identity: CallIdentity, in_the_way: InTheWay) -> Doing[None]:
    """Return when nothing is in the way of a new effect any more, or when it is no use to wait."""
    session = scope.session
    if not _others_may_ask(session):
        return
    mine = session.in_flight.find(identity)
    session.say("hold back until other tasks have asked", identity)
    with session.in_flight.held_back(mine):
        quiet = total = 0.0
        look, left = _FIRST_LOOK_SECONDS, _count(scope)
        while quiet < QUIET_SECONDS and total < LONGEST_SECONDS:
            if next(in_the_way(scope, identity), None) is None:
                break
            yield Pause(look)
            # The run may have been left, or have come to wait for a person, in the meantime.
            if session.was_left:
                raise was_left(session)
            scope.session.stops.raise_if_stopped(scope.node_id, but=identity)
            total += look
            now = _count(scope)
            quiet = 0.0 if now < left or session.in_flight.others_are_busy(mine) else quiet + look
            look, left = min(look * 2, _LAST_LOOK_SECONDS), now


def _count(scope: Scope) -> int:
    return sum(len(state.outstanding) for state in scope.steps) - len(scope.session.drift.asked_for)


def _others_may_ask(session: Session) -> bool:
    """Whether code of the run can be under way beside the caller. If in doubt, yes.

    Python does not tell in which contexts threads and tasks run, so all of them count: a sync
    program without threads and an async one with a single task are sure to be alone.
    """
    here = threading.current_thread()
    for thread in threading.enumerate():
        if thread is not here and not thread.name.startswith(_OWN_THREADS):
            return True
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return False
    # Each call is a task of its own, and somebody awaits this one.
    calls = session.in_flight.tasks
    waiters = [task for task in tasks if task not in calls]
    return len(waiters) > 1 or len(calls) > 1
