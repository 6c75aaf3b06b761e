"""How long does a new effect wait for other tasks to ask for what is outstanding? (D7, D15)

Plain ``asyncio.gather`` and threads may finish in one order and resume in another. If a task
reaches its new effect first, the receipts of slower tasks must not count as drift. So the effect is
held back until those tasks have asked for them. It is not held if no other task or thread can be
working, and not forever: a program that really has drifted never asks.

Two limits end the wait. ``QUIET_SECONDS`` counts only while no tool of another task is running, and
restarts whenever an outstanding call is asked for. So it limits how long a task may work between
two calls. ``LONGEST_SECONDS`` limits the whole wait, because a tool can wait for the task that is
held. Promise kept here: P137.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from nottwice import lazy
from nottwice.engine.asks import Doing, Pause
from nottwice.engine.session import Scope, Session, was_left
from nottwice.model.call import CallIdentity, CallRow

QUIET_SECONDS = 10.0
LONGEST_SECONDS = 300.0
_FIRST_LOOK_SECONDS = 0.002
_LAST_LOOK_SECONDS = 0.1
# Threads of nottwice that never run user code.
_OWN_THREADS = (
    "nottwice-commit",
    "nottwice-figures",
    "nottwice-later",
    "nottwice-lease",
    "nottwice-read",
)

InTheWay = Callable[[Scope, CallIdentity], Iterator[CallRow]]


def hold_back(scope: Scope, identity: CallIdentity, in_the_way: InTheWay) -> Doing[None]:
    """Return when nothing blocks a new effect any longer, or when waiting is pointless."""
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
            # In the meantime the run may have been left, or may have come to wait for a person.
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
    """Whether code of the run may be running besides the caller. If in doubt, yes.

    Python does not tell in which contexts threads and tasks run, so all of them count. Only a sync
    program without threads and an async program with a single task are certain to be alone.
    """
    here = threading.current_thread()
    for thread in threading.enumerate():
        if thread is not here and not thread.name.startswith(_OWN_THREADS):
            return True
    loop = lazy.running_loop()
    if loop is None:
        return False
    tasks = lazy.asyncio.all_tasks(loop)
    # Each call is a separate task, and another task awaits this one.
    calls = session.in_flight.tasks
    waiters = [task for task in tasks if task not in calls]
    return len(waiters) > 1 or len(calls) > 1
