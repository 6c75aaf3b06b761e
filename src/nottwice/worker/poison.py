"""Does a run kill every worker that picks it up? (P312)

A run whose code ends the process (a crash of the interpreter, too much memory) leaves an opening
that was killed. If that happens again and again and the run makes no progress, workers pick it up
later each time. A worker drives only one such run at a time, so that runs which only shared its
process are told apart from it. After a number of kills the run is failed: no worker picks it up
until a person has enqueued it again. A run that makes progress between two kills is never failed.
"""

from __future__ import annotations

import itertools

from nottwice.engine import ownership
from nottwice.engine.drivers import drive
from nottwice.engine.opening import Opening
from nottwice.errors import RunBusy
from nottwice.guard.ledger import Ledger
from nottwice.model.failure import Failure, FailureClass
from nottwice.model.run import RunRecord, RunStatus
from nottwice.model.runs.openings import OpeningEnd
from nottwice.store.interface import Store

MOST_KILLS = 5
"""How many processes in a row may end while they drive a run that gets no further."""
FIRST_SECONDS = 1.0
_KILLED = (OpeningEnd.KILLED, OpeningEnd.TAKEN_OVER, None)


def kills_of(store: Store, run: RunRecord) -> int:
    """Return how many processes have ended in a row while they drove a run that is abandoned now,
    since it last got further."""
    ends = reversed(store.openings(run.workflow_id))
    killed = list(itertools.takewhile(lambda opening: opening.ended in _KILLED, ends))
    if len(killed) < 2:
        # A worker that dies nearly always interrupts runs that did nothing wrong.
        return len(killed)
    reached = _last_progress(store, run.workflow_id)
    return sum(opening.began_at > reached for opening in killed)


def _last_progress(store: Store, run_id: str) -> float:
    """When a call, a step or a checkpoint of a run, or of one that it spawned, was last new."""
    moments = [row.created_at for row in store.last_calls(run_id, limit=1)]
    moments += [saved.created_at for saved in store.checkpoints(run_id)[-1:]]
    moments += [visit.step.started_at for visit in store.last_visits(run_id)]
    moments += [_last_progress(store, child.workflow_id) for child in store.children(run_id)]
    return max(moments, default=0.0)


def delay_seconds(kills: int) -> float:
    """Return how long after its last claim such a run is picked up again. The first is free."""
    return 0.0 if kills < 2 else FIRST_SECONDS * 2.0 ** (kills - 2)


def is_put_off(run: RunRecord, kills: int, *, now: float) -> bool:
    """Whether it is too early to pick up a run. A clock that was set back puts nothing off."""
    return 0 <= now - (run.claimed_at or 0.0) < delay_seconds(kills)


def fail(ledger: Ledger, run: RunRecord, kills: int) -> bool:
    """Fail a run that has killed too many processes. False: another process has just taken it.

    Durable: when it returns.
    """
    opening = Opening(host=ledger.host, run_id=run.workflow_id)
    text = (
        f"{kills} processes in a row have ended while they drove this run, and it got no further. "
        "No worker takes it up any more. Find out what ends them (memory, a crash of a library), "
        "then enqueue it again with retry."
    )
    try:
        session = drive(ownership.take(opening), ledger.host)
    except RunBusy:
        return False
    failure = Failure(FailureClass.PERMANENT, "WorkerKilled", text)
    drive(ownership.release(session, None, status=RunStatus.FAILED, failure=failure), ledger.host)
    return True
