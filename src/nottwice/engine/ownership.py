"""Who may drive a run: claiming it, giving it up, and refusing a second driver (D9, B1).

A live holder, even a stopped one, is never overtaken; a dead one is at once, with proof. Where
neither can be proven the run is taken, but its calls in doubt are treated as if the old holder
might wake up and fire. Promises kept here: P6, P8.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from nottwice.engine import reconcile
from nottwice.engine.asks import Doing, Pause, Read, Write
from nottwice.engine.clock import Clock
from nottwice.engine.drivers import drive
from nottwice.engine.session import FindTool, Session
from nottwice.errors import RunAborted, RunBlocked, RunBusy
from nottwice.model.call import check_id
from nottwice.model.failure import Failure
from nottwice.model.review import Review
from nottwice.model.run import HolderRecord, Life, RunRecord, RunStatus
from nottwice.store.interface import (
    Claim,
    Commit,
    Outdated,
    ReviewWrite,
    RunUpdate,
    Store,
)

log = logging.getLogger("nottwice")
POLL_SECONDS = 0.05
DRAIN_SECONDS = 60.0

_driven: dict[tuple[str, str], int] = {}
_driven_guard = threading.Lock()


def _renew_after_fork() -> None:
    """Another thread may have held the guard when this process was forked off."""
    global _driven_guard
    _driven_guard = threading.Lock()


os.register_at_fork(after_in_child=_renew_after_fork)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What is asked for when a run is opened."""

    store: Store
    clock: Clock
    run_id: str
    find_tool: FindTool
    wait_seconds: float = 0.0
    patience_seconds: float = 60.0


def claim(opening: Opening) -> Doing[Session]:
    """Become the holder of a run, creating it if need be, and reconcile what is in doubt.

    Durable: the claim, when it returns. Raises RunBusy, RunAborted, or RunBlocked if a doubt
    remains; the run is then given up again.
    """
    check_id(opening.run_id, what="The run id")
    holder = yield Read(lambda store: store.holder())
    deadline = opening.clock.now() + opening.wait_seconds
    while not _drive_here(holder, opening.run_id):
        yield from _wait_or_give_up(opening, deadline, holder, since=None, here=True)
    try:
        session = yield from _claim_in_store(opening, holder, deadline)
    except BaseException:
        _stop_driving_here(holder, opening.run_id)
        raise
    try:
        yield from reconcile.reconcile_all(session)
    except RunBlocked as blocked:
        yield from leave(session, blocked, None)
        raise
    except BaseException:
        yield from leave(session, None, None, status=RunStatus.RUNNING)
        raise
    return session


def _claim_in_store(opening: Opening, holder: HolderRecord, deadline: float) -> Doing[Session]:
    run_id = opening.run_id
    while True:
        run: RunRecord | None = yield Read(lambda store: store.load_run(run_id))
        if run is not None and run.status is RunStatus.ABORTED:
            raise RunAborted(
                f"Run {run_id!r} was aborted. Nothing was sent. Start a run with another id if it "
                "should be done after all."
            )
        if run is not None and run.holder_id is not None and run.holder_id != holder.holder_id:
            life, record = yield _other_holder(run.holder_id)
            if life is Life.ALIVE:
                yield from _wait_or_give_up(
                    opening, deadline, record, since=run.claimed_at, here=False
                )
                continue
        now = opening.clock.now()
        claimed = _claimed(run, run_id, holder, now)
        after = None if run is None else run.epoch
        try:
            yield Write(Commit(workflow_id=run_id, claim=Claim(claimed, after)))
        except Outdated:
            continue
        return Session(
            store=opening.store,
            clock=opening.clock,
            run=claimed,
            holder=holder,
            find_tool=opening.find_tool,
            patience_seconds=opening.patience_seconds,
        )


def _other_holder(holder_id: str) -> Read:
    return Read(lambda store: (store.life_of(holder_id), store.load_holder(holder_id)))


def _claimed(run: RunRecord | None, run_id: str, holder: HolderRecord, now: float) -> RunRecord:
    if run is None:
        return RunRecord(
            workflow_id=run_id,
            status=RunStatus.RUNNING,
            epoch=1,
            holder_id=holder.holder_id,
            created_at=now,
            updated_at=now,
            claimed_at=now,
        )
    return replace(
        run,
        status=RunStatus.RUNNING,
        epoch=run.epoch + 1,
        holder_id=holder.holder_id,
        updated_at=now,
        claimed_at=now,
        failure=None,
    )


def _wait_or_give_up(
    opening: Opening,
    deadline: float,
    other: HolderRecord | None,
    *,
    since: float | None,
    here: bool,
) -> Doing[None]:
    left = deadline - opening.clock.now()
    if left > 0:
        yield Pause(min(POLL_SECONDS, left))
        return
    if here:
        who = "this very process, in another thread, task or block"
    else:
        who = other.describe() if other else "a process that cannot be identified"
    when = ""
    if since is not None:
        when = f" since {datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M:%S} UTC"
    raise RunBusy(
        f"Run {opening.run_id!r} is driven by {who}{when}. Nothing was done. Wait for it with "
        "wait_seconds=..., or stop that process: a dead holder is overtaken at once.",
        run_id=opening.run_id,
        holder=other,
        since=since,
    )


def leave(
    session: Session,
    error: BaseException | None,
    failure: Failure | None,
    *,
    status: RunStatus | None = None,
) -> Doing[None]:
    """Leave a run: give it up now, or when the last attempt that still runs has ended.

    Durable: everything that rides, when it returns.
    """

    def give_up() -> Doing[None]:
        return release(session, error, status=status, failure=failure)

    session.closed = True
    with session.guard:
        stragglers = list(session.in_flight.values())
        if stragglers:
            session.when_idle = lambda: drive(give_up(), session)
    if not stragglers:
        yield from give_up()
        return
    names = ", ".join(one.identity.tool_name for one in stragglers)
    log.warning("run=%r is held until its last attempts have ended: %s", session.run_id, names)
    yield from session.commit()


def release(
    session: Session,
    error: BaseException | None,
    *,
    status: RunStatus | None = None,
    failure: Failure | None = None,
) -> Doing[None]:
    """Give the run up, with its last status and everything that rides.

    Durable: when it returns.
    """
    session.closed = True
    try:
        now = session.clock.now()
        unneeded: tuple[ReviewWrite, ...] = ()
        if isinstance(error, RunAborted):
            status = RunStatus.ABORTED
        elif status is None:
            reviews = yield Read(lambda store: store.open_reviews(session.run_id))
            status = _last_status(reviews, failure)
            if status is RunStatus.COMPLETED:
                # A drift that somebody accepted did not occur again: the code was put back.
                unneeded = tuple(
                    ReviewWrite(review.closed("a run without drift", now=now), review.version)
                    for review in reviews
                )
        yield from session.commit(
            calls=tuple(session.unrecorded.values()),
            run=RunUpdate(status, now, failure, release=True),
            reviews=unneeded,
        )
    finally:
        _stop_driving_here(session.holder, session.run_id)


def _last_status(reviews: Sequence[Review], failure: Failure | None) -> RunStatus:
    if any(review.blocks for review in reviews):
        return RunStatus.WAITING
    return RunStatus.COMPLETED if failure is None else RunStatus.FAILED


def _drive_here(holder: HolderRecord, run_id: str) -> bool:
    """Within one process the store cannot tell two drivers apart; this can."""
    with _driven_guard:
        key = (holder.holder_id, run_id)
        if key in _driven:
            return False
        _driven[key] = threading.get_ident()
        return True


def _stop_driving_here(holder: HolderRecord, run_id: str) -> None:
    with _driven_guard:
        _driven.pop((holder.holder_id, run_id), None)
