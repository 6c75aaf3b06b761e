"""Who may drive a run: claim it, release it, refuse a second driver (D9, B1).

A live holder is never overtaken, even if it is stopped. A holder that is proven dead is overtaken
immediately. If neither can be proven, the run is taken, but its calls in doubt are treated as if
the old holder might wake up and fire. Promises kept here: P6, P8, P86, P126.
"""

from __future__ import annotations

import contextlib
import gc
import logging
from collections.abc import Sequence
from dataclasses import replace

from nottwice.engine import events, said
from nottwice.engine.asks import Apart, Doing, Pause, Read, Write
from nottwice.engine.calls.in_flight import InFlight
from nottwice.engine.doubts import reconcile, restored, tampered
from nottwice.engine.driven import (
    Driving,
    Preclaimed,
    drive_here,
    give_back,
    stop_driving_here,
    store_trace,
)
from nottwice.engine.drivers import drive
from nottwice.engine.hiding import classify
from nottwice.engine.host import Host
from nottwice.engine.opening import Opening
from nottwice.engine.plain_version import check_version
from nottwice.engine.session import Session
from nottwice.engine.waits import cancelled, stops
from nottwice.engine.waits.cancelled import stop_if_cancelled, stop_if_parent_was_cancelled
from nottwice.engine.watch import heed_variable
from nottwice.errors import (
    LedgerTampered,
    OwnershipLost,
    RunAborted,
    RunBlocked,
    RunBusy,
    UsageError,
)
from nottwice.model.call import check_id
from nottwice.model.data.calendar import utc
from nottwice.model.failure import Failure, was_interrupted
from nottwice.model.review import Review, ReviewStatus
from nottwice.model.run import (
    HolderRecord,
    Life,
    RunRecord,
    RunStatus,
    Standing,
    Wait,
    plain_input,
)
from nottwice.model.runs.labels import check_group
from nottwice.model.runs.openings import OpeningEnd
from nottwice.store.interface import (
    Blocked,
    Claim,
    Commit,
    Outdated,
    ReviewWrite,
    RunUpdate,
    check_not_removed,
)

log = logging.getLogger("nottwice")
POLL_SECONDS = 0.05
BUSY_SECONDS = 1.0
"""When a run is worth another look if another process drives it and has no lease."""
_ENDS = (RunStatus.COMPLETED, RunStatus.FAILED)


class Rebound(Exception):
    """The run is now bound to another graph. Internal: callers look again."""


def claim(opening: Opening) -> Doing[Session]:
    """Become the holder of a run, creating it if necessary, and reconcile what is in doubt.

    Durable: the claim, when this returns. Raises RunBusy, RunAborted, or RunBlocked if a doubt
    remains; the run is then released again.
    """
    session = yield from take(opening)
    try:
        yield from look_around(session, opening.claimed)
        yield from stop_if_cancelled(session)
        yield from stop_if_parent_was_cancelled(session)
        yield from tampered.look_at_seals(session)
        yield from restored.hold_if_copied(session)
        yield from reconcile.reconcile_all(session, for_all=not opening.joins)
    except LedgerTampered as found:
        try:
            raise (yield from tampered.hold(session, found, release=True)) from None
        finally:
            let_go(session)
    except RunBlocked as blocked:
        yield from leave(session, blocked, None)
        raise
    except BaseException:
        yield from leave(session, None, None, status=RunStatus.RUNNING)
        raise
    return session


def take(opening: Opening) -> Doing[Session]:
    """Become the holder of a run without reconciling: what is in doubt stays in doubt.

    Durable: the claim, when this returns.
    """
    check_id(opening.run_id, what="The run id")
    heed_variable()
    holder = yield Read(lambda store: store.holder())
    if opening.claimed is not None:
        one = opening.claimed.one
        assert one.run is not None
        run = one.run
        if events.listeners:
            traceparent = _tell_of_opening(opening, run)
            try:
                run = yield from store_trace(run, traceparent)
            except BaseException:
                _tell_lost(opening.host, run.workflow_id)
                raise
        return _session(opening, holder, one.found, run, opening.claimed.taken())
    deadline = opening.host.clock.now() + opening.acquire_seconds
    driving = drive_here(holder, opening.run_id)
    if driving is None:
        # A driver that was ended by an interrupt may still exist as garbage.
        gc.collect()
    while (driving := driving or drive_here(holder, opening.run_id)) is None:
        yield from _wait_or_refuse(opening, deadline, holder, since=None, here=True)
    try:
        return (yield from _claim_in_store(opening, holder, deadline, driving))
    except BaseException:
        stop_driving_here(holder, opening.run_id)
        raise


def _claim_in_store(
    opening: Opening, holder: HolderRecord, deadline: float, driving: Driving
) -> Doing[Session]:
    run_id = opening.run_id
    while True:
        run: RunRecord | None = yield Read(lambda store: store.load_run(run_id))
        if opening.plain and run is not None and run.graph_id is not None:
            raise UsageError(
                f"Run {run_id!r} is a run of graph {run.graph_id}, which nt.run cannot drive. "
                f"Nothing was done. Resume it with graph.run({run_id!r}), or choose another id."
            )
        if opening.plain and run is not None:
            check_not_removed(run, location=opening.host.store.location)
            check_version(run, opening.version, location=opening.host.store.location)
        if run is not None and opening.bound not in (None, run.graph_id):
            raise Rebound(f"run {run_id!r} is bound to {run.graph_id}")
        check_not_removed(run, location=opening.host.store.location)
        if run is not None and run.status is RunStatus.ABORTED:
            raise RunAborted(
                f"Run {run_id!r} was aborted. Nothing was sent. Start a run with another id if it "
                "should be done after all."
            )
        if run is not None:
            check_group(run_id, run.group, opening.labels.group)
        left = OpeningEnd.TAKEN_OVER
        if run is not None and run.holder_id is not None and run.holder_id != holder.holder_id:
            life: Life = yield _life_of(run.holder_id)
            left = OpeningEnd.KILLED if life is Life.DEAD else left
            if life is Life.ALIVE:
                other = yield _holder(run.holder_id)
                yield from _wait_or_refuse(
                    opening, deadline, other, since=run.claimed_at, here=False
                )
                continue
        now = opening.host.clock.now()
        claimed = _claimed(run, opening, holder, now)
        after = None if run is None else run.epoch
        graph = opening.graph if run is None else None
        traceparent = None
        if events.listeners:
            traceparent = _tell_of_opening(opening, claimed)
            claimed = replace(claimed, traceparent=traceparent or claimed.traceparent)
        claims = Claim(claimed, after, now, left, traceparent)
        unclaimed = claims if run is None and opening.is_single else None
        try:
            if unclaimed is None:
                yield Write(Commit(workflow_id=run_id, claim=claims, graph=graph))
        except BaseException as error:
            _tell_lost(opening.host, run_id)
            if isinstance(error, Outdated):
                continue
            if not isinstance(error, Exception | GeneratorExit):
                # The claim may be durable, and this process will not drive the run (P381).
                yield from give_back(opening.host, run, claimed)
            raise
        return _session(opening, holder, run, claimed, driving, unclaimed)


def _session(
    opening: Opening,
    holder: HolderRecord,
    found: RunRecord | None,
    claimed: RunRecord,
    driving: object | None,
    unclaimed: Claim | None = None,
) -> Session:
    return Session(
        opening, run=claimed, holder=holder, found=found, driving=driving, unclaimed=unclaimed
    )


def _tell_of_opening(opening: Opening, claimed: RunRecord) -> str | None:
    """Report that a run is about to be claimed. Return the trace context of the opening."""
    carrier: dict[str, str] = {}
    events.tell(
        events.RunOpening(
            ledger=opening.host.store.location,
            run_id=claimed.workflow_id,
            epoch=claimed.epoch,
            graph=claimed.graph_id,
            is_agent=opening.lists_tools,
            caused_by=claimed.traceparent,
            carrier=carrier,
        ),
        opening.host.store,
    )
    return carrier.get("traceparent")


def _tell_lost(host: Host, run_id: str) -> None:
    if events.listeners:
        events.tell(events.RunLost(ledger=host.store.location, run_id=run_id), host.store)


def look_around(session: Session, claimed: Preclaimed | None = None) -> Doing[None]:
    """Find out what there is to reconcile. A run that this claim created has nothing.

    ``claimed``: a claim that has found it out itself.
    """
    now, words, standing = session.clock.now(), cancelled.words_left(), Standing()
    if claimed is not None:
        now, words = session.run.claimed_at or now, claimed.words
        standing = claimed.one.standing
    elif session.found is not None:
        standing = yield Read(lambda store: store.standing(session.run_id))
    session.stands(standing, looked_for_word=None if standing.events else (now, words))


def _life_of(holder_id: str) -> Read:
    return Read(lambda store: store.life_of(holder_id))


def _holder(holder_id: str) -> Read:
    return Read(lambda store: store.load_holder(holder_id))


def _claimed(
    run: RunRecord | None, opening: Opening, holder: HolderRecord, now: float
) -> RunRecord:
    if run is None:
        parent, graph, input_json = opening.parent, opening.graph, opening.input_json
        labels = opening.labels if parent is None else opening.labels.over(parent.labels)
        if opening.version is not None:
            input_json = plain_input(str(opening.version))
        return RunRecord(
            workflow_id=opening.run_id,
            status=RunStatus.RUNNING,
            epoch=1,
            holder_id=holder.holder_id,
            created_at=now,
            updated_at=now,
            claimed_at=now,
            graph_id=graph.graph_id if graph is not None else None,
            input_json=input_json,
            parent_id=parent.workflow_id if parent is not None else None,
            root_id=(parent.root_id or parent.workflow_id) if parent is not None else None,
            origin=opening.origin,
            tags=labels.tags,
            group=labels.group,
        )
    labels = opening.labels.over(run.labels)
    if opening.as_it_is:
        # If this process is killed now, the run stays as it was. Its dead holder blocks nothing.
        return replace(run, epoch=run.epoch + 1, holder_id=holder.holder_id)
    return replace(
        run,
        status=RunStatus.RUNNING,
        epoch=run.epoch + 1,
        holder_id=holder.holder_id,
        updated_at=now,
        claimed_at=now,
        failure=None,
        waits=(),
        tags=labels.tags,
        group=labels.group,
    )


def _wait_or_refuse(
    opening: Opening,
    deadline: float,
    other: HolderRecord | None,
    *,
    since: float | None,
    here: bool,
) -> Doing[None]:
    left = deadline - opening.host.clock.now()
    if left > 0:
        yield Pause(min(POLL_SECONDS, left))
        return
    if here:
        who = "this very process, in another thread, task or block"
    else:
        who = other.describe() if other else "a process that cannot be identified"
    lease = None
    if other is not None and not here:
        lease = yield Read(lambda store: store.lease_left(other.holder_id))
    when = ""
    if since is not None:
        when = f" since {utc(since):%Y-%m-%d %H:%M:%S} UTC"
    raise RunBusy(
        f"Run {opening.run_id!r} is driven by {who}{when}. Nothing was done. Wait for it with "
        "acquire_timeout=..., or stop that process: a dead holder is overtaken immediately.",
        run_id=opening.run_id,
        holder=other,
        since=since,
        # A holder that is alive renews its lease. One that has died can be overtaken then.
        retry_in=BUSY_SECONDS if lease is None else max(BUSY_SECONDS, lease),
    )


def leave(
    session: Session,
    error: BaseException | None,
    failure: Failure | None,
    *,
    status: RunStatus | None = None,
) -> Doing[None]:
    """Leave a run: release it now, or when the last running attempt has ended.

    Durable: all pending writes, when this returns.
    """
    if isinstance(error, LedgerTampered) and error.review_id is None:
        # The code of the run has read the row outside of any call (P98).
        yield from tampered.hold(session, error, release=False)

    begun = False

    def release_now() -> Doing[None]:
        nonlocal begun
        if not begun:
            begun = True
            try:
                yield from release(session, error, status=status, failure=failure)
            except (Exception, GeneratorExit):
                raise
            except BaseException:
                begun = False
                raise

    def stop() -> list[InFlight]:
        session.close()
        session.in_flight.drop_what_was_interrupted()
        return session.in_flight.call_when_idle(lambda: drive(release_now(), session.host))

    try:
        stragglers = stop()
        if not stragglers:
            # A caller that is cancelled here must not keep the run (P381).
            yield Apart(release_now())
            return
    except (Exception, GeneratorExit):
        raise
    except BaseException:
        # An interrupt may have struck before the release was written (P118).
        if not stop():
            with contextlib.suppress(OwnershipLost):
                yield Apart(release_now())
        raise
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
    """Release the run with its last status and all pending writes.

    Durable: when this returns.
    """
    session.close()
    # The code may have swallowed that, or have been interrupted since.
    error = session.stops.aborted or error
    try:
        if status is not None and not isinstance(error, RunAborted):
            yield from _release(session, status, failure)
            return
        while (yield from _release_as_it_is(session, error, failure)) is None:
            continue
    except BaseException:
        _tell_lost(session.host, session.run_id)
        raise
    finally:
        stop_driving_here(session.holder, session.run_id, session.driving)


def put_back(session: Session) -> Doing[None]:
    """Release a run in which nothing was done, as it was before it was claimed.

    Durable: when this returns.
    """
    run = session.found or session.run
    back = RunUpdate(run.status, run.updated_at, run.failure, release=True, waits=run.waits)
    try:
        yield from session.commit(run=back)
    finally:
        let_go(session)


def wait_for(session: Session, wait: Wait) -> Doing[None]:
    """Release a run in which nothing was done, until a time.

    Durable: when this returns.
    """
    update = RunUpdate(RunStatus.WAITING, session.clock.now(), release=True, waits=(wait,))
    try:
        yield from session.commit(run=update)
    finally:
        let_go(session)


def let_go(session: Session) -> None:
    """Stop driving the run in this process. The ledger already has the rest."""
    session.close()
    stop_driving_here(session.holder, session.run_id)
    _tell_lost(session.host, session.run_id)


def _release(
    session: Session,
    status: RunStatus,
    failure: Failure | None,
    *,
    waits: tuple[Wait, ...] = (),
    reviews: tuple[ReviewWrite, ...] = (),
    unless_blocked: bool = False,
) -> Doing[None]:
    update = RunUpdate(status, session.clock.now(), failure, release=True, waits=waits)
    calls = tuple(session.unrecorded.values())
    yield from session.commit(
        calls=calls, run=update, reviews=reviews, unless_blocked=unless_blocked
    )
    if said.is_heard():
        head = yield Read(lambda store: store.load_head(session.run_id))
        said.say(said.about_run(session, status, waits, head=head), session.store)


def _release_as_it_is(
    session: Session, error: BaseException | None, failure: Failure | None
) -> Doing[RunStatus | None]:
    """Find out how the run stands, and release it so. None: it changed in between, look again."""
    reviews: list[Review] = []
    if session.may_have_reviews:
        reviews = yield Read(lambda store: store.open_reviews(session.run_id))
    if error is None and session.stops.ended is not None:
        # A policy stopped the run. The code may have swallowed the exception.
        error = session.stops.ended
        failure = classify(error, effectful=False, now=session.clock.now())
    waits = _last_waits(session, reviews, error)
    interrupted = was_interrupted(error)
    if interrupted or (waits and stops.is_wait(error)):
        # Nothing failed. The run waits, its process is ending, or the ledger was unavailable.
        failure = None
    status = _last_status(waits, error, failure, interrupted=interrupted)
    if isinstance(error, RunAborted):
        status = RunStatus.ABORTED
    elif status is RunStatus.COMPLETED and (yield from _is_between_turns(session)):
        status = RunStatus.IDLE
    unneeded: tuple[ReviewWrite, ...] = ()
    if status is RunStatus.COMPLETED:
        unneeded = _unneeded(session, reviews, session.clock.now())
    elif status is RunStatus.ABORTED:
        waits = ()
        unneeded = _unanswerable(reviews, session.clock.now())
    # The claim found no review, so they were not read again. The commit notices one that another
    # process has opened since.
    careful = session.found is not None and not session.may_have_reviews and status in _ENDS
    try:
        yield from _release(
            session, status, failure, waits=waits, reviews=unneeded, unless_blocked=careful
        )
    except Blocked:
        session.note_review()
        return None
    except Outdated:
        if not unneeded:
            raise
        # At this moment a person decides a review that is no longer needed.
        return None
    return status


def _last_waits(
    session: Session, reviews: Sequence[Review], error: BaseException | None
) -> tuple[Wait, ...]:
    """Return every reason why the run waits, or none if the run is over.

    A doubt blocks a failed run too. A wait does not: the failure comes first, and the wait occurs
    again when the run is opened again.
    """
    blocking = [review for review in reviews if review.blocks]
    if error is not None and not stops.is_wait(error):
        return session.stops.waits(blocking) if blocking else ()
    if session.run.graph_id is None:
        # Code that resumes midway may not ask again for what an earlier turn asked.
        blocking += [
            review
            for review in reviews
            if review.kind.asks_first and review.status is ReviewStatus.OPEN
        ]
    return session.stops.waits(blocking)


def _last_status(
    waits: Sequence[Wait],
    error: BaseException | None,
    failure: Failure | None,
    *,
    interrupted: bool,
) -> RunStatus:
    if waits:
        return RunStatus.WAITING
    if failure is not None and not interrupted:
        return RunStatus.FAILED
    # What stopped it may be gone by now: then it can be resumed. Only its end completes a run.
    return RunStatus.COMPLETED if error is None and not interrupted else RunStatus.RUNNING


def _is_between_turns(session: Session) -> Doing[bool]:
    """Whether a run that ended without an error is only idle (P248).

    Parts of a program were attached to it, or a call of such a part is still in doubt: its caller
    has not come back yet. A completed run has no call in doubt.
    """
    if session.opening.joins or session.run.graph_id is not None:
        return session.opening.joins
    if not session.standing.in_doubt:
        return False
    return bool((yield Read(lambda store: store.calls_in_doubt(session.run_id))))


def _unneeded(session: Session, reviews: Sequence[Review], now: float) -> tuple[ReviewWrite, ...]:
    """Return the writes that close what a completed run did not need.

    An accepted drift did not occur again, because the code was restored. A graph that has reached
    its end asks nothing more. A plain run may be opened again for its next turn, so its decisions
    are kept for that.
    """
    is_graph = session.run.graph_id is not None
    closed = "a run without drift", "a run that ended without asking"
    return tuple(
        ReviewWrite(review.closed(closed[review.kind.asks_first], now=now), review.version)
        for review in reviews
        if is_graph or not review.kind.asks_first
    )


def _unanswerable(reviews: Sequence[Review], now: float) -> tuple[ReviewWrite, ...]:
    """Return the writes that close what an aborted run asked, because no code needs the answer.

    Doubts stay open, because people still want to know what happened.
    """
    return tuple(
        ReviewWrite(review.closed("a run that was aborted", now=now), review.version)
        for review in reviews
        if review.kind.asks_first
    )
