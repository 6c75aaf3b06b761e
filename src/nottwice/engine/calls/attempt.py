"""One attempt: record the intent durably, invoke the tool, record the outcome (L2).

Promises kept here: P11 (no effect without a durable intent that names attempt and holder, for every
attempt), P12 (an outcome that was seen is recorded or kept as evidence, never dropped), P13 (a
failure is classified before anything is retried).

In steady state an effectful call costs two durable commits: the intent and the result. Pending
writes (steps, pure results) are part of these commits and durable before the effect.
"""

from __future__ import annotations

import shlex

from nottwice.engine import events
from nottwice.engine.asks import Doing, Fire, Invoked, Read, Write
from nottwice.engine.calls.in_flight import InFlight, living
from nottwice.engine.calls.invocation import Invocation
from nottwice.engine.doubts import blocking
from nottwice.engine.drivers import drive
from nottwice.engine.hiding import classify, hide, kept
from nottwice.engine.session import Session
from nottwice.errors import LedgerCorrupt, OwnershipLost
from nottwice.model.call import CallRow, CallStatus
from nottwice.model.data.records import light_record
from nottwice.model.decision import Action
from nottwice.model.failure import Failure, FailureClass, is_interruption
from nottwice.model.review import Evidence, ReviewKind
from nottwice.model.run import RunStatus
from nottwice.model.tool import Tool
from nottwice.store.interface import (
    CallWrite,
    ChargeWrite,
    Commit,
    Outdated,
    ReviewWrite,
    RunUpdate,
)


@light_record(frozen=True, slots=True)
class Attempted:
    """A row after an attempt, with the live outcome that produced it."""

    row: CallRow
    outcome: Invoked


class StillRunning(Exception):
    """An attempt outlives its time limit. It leaves the session when it ends."""

    def __init__(self, blocked: BaseException) -> None:
        super().__init__(str(blocked))
        self.blocked = blocked


def attempt(
    session: Session,
    tool: Tool,
    intent: CallRow,
    mine: InFlight,
    *,
    before: CallRow | None,
    invocation: Invocation,
    reviews: tuple[ReviewWrite, ...] = (),
    charges: tuple[ChargeWrite, ...] = (),
    expected: bool = False,
    past_doubts: bool = False,
) -> Doing[Attempted]:
    """Record ``intent``, invoke the tool, record the outcome.

    ``expected``: the call was not looked up and is only expected to be new. The commit of the
    intent decides, and the decision is logged here. ``past_doubts``: doubts about other calls do
    not hold it back (P241). Durable: the intent before the tool is invoked; the outcome before this
    returns.
    """
    session.in_flight.begin(mine)
    is_late = False
    try:
        yield from session.commit(
            calls=(CallWrite(intent, before.state if before else None),),
            reviews=reviews,
            run=RunUpdate(RunStatus.RUNNING, intent.started_at) if reviews else None,
            # Another attempt at a call in doubt is no new effect, so its review does not block it.
            unless_blocked=not past_doubts and (before is None or not before.status.in_doubt),
            charges=charges,
        )
        mine.row = intent
        if expected:
            session.say(Action.RECORD_AND_RUN, intent)

        def record_late(outcome: Invoked) -> None:
            drive(_record_late(session, tool, intent, outcome, mine, began=began), session.host)

        living.add(intent.attempt_id)
        began = session.clock.now()
        outcome: Invoked = yield Fire(tool, *invocation, mine, record_late)
        if outcome.still_running:
            what = f"passed its time limit of {tool.time_limit_seconds:g} s"
            if outcome.interrupt is not None:
                what = f"is no longer waited for ({type(outcome.interrupt).__name__})"
            reason = f"attempt {intent.attempt} {what}, cannot be stopped, and is still running"
            blocked = yield from blocking.open_review(session, intent, reason)
            is_late = True
            raise StillRunning(outcome.interrupt or blocked)
        row = _after(session, tool, intent, outcome, mine)
        ends_doubt = intent.ambiguous and row.status is CallStatus.DONE
        closes_as = "a new attempt" if ends_doubt else None
        yield from _record(session, intent, row, outcome, closes_as=closes_as)
        mine.row = row
        if row.failure is not None or events.listeners:
            session.tell_attempt(row, began=began)
        if outcome.interrupt is not None:
            raise outcome.interrupt
        if outcome.error is not None and is_interruption(outcome.error):
            raise outcome.error
        return Attempted(row, outcome)
    finally:
        if not is_late:
            session.in_flight.rest(mine)


def _after(
    session: Session,
    tool: Tool,
    intent: CallRow,
    outcome: Invoked,
    mine: InFlight,
    *,
    late: bool = False,
) -> CallRow:
    """Return the row for an outcome. ``late``: no caller is waiting that could retry."""
    now = session.clock.now()
    if outcome.error is None:
        return intent.done(kept(tool, outcome.value, mine.secrets), now=now)
    # A tool that was stopped did not choose its error, so its classifier is not asked.
    classifier = None if outcome.stopped else tool.classify
    failure = classify(outcome.error, effectful=True, tool=tool, classifier=classifier, now=now)
    if intent.ambiguous or failure.failure_class is FailureClass.AMBIGUOUS:
        # After an ambiguous attempt, only success, verify or a person ends the call (D4).
        return intent.unknown(failure, now=now, over=not outcome.stopped)
    if late:
        return intent.failed(failure, now=now)
    failed = intent.failed_attempts + 1
    return failed_once_more(session, tool, intent, failure, failed=failed, now=now)


def failed_once_more(
    session: Session, tool: Tool, intent: CallRow, failure: Failure, *, failed: int, now: float
) -> CallRow:
    """Return the row of an attempt without effect, with the time of the retry if one is due."""
    delay = tool.retry.delay_seconds(
        failure, failed_attempts=failed, random_unit=session.clock.random_unit()
    )
    return intent.failed(failure, now=now, retry_at=None if delay is None else now + delay)


def _record(
    session: Session,
    intent: CallRow,
    row: CallRow,
    outcome: Invoked,
    *,
    closes_as: str | None,
) -> Doing[None]:
    """Make an outcome durable. What cannot be written to the ledger is kept as evidence.

    ``closes_as``: what ended the doubt, if it ended. Open reviews of the call are then closed.
    """
    write = CallWrite(row, intent.state)
    closing: tuple[ReviewWrite, ...] = ()
    try:
        if closes_as is not None:
            closing = yield from blocking.closing_reviews(session, row, by=closes_as)
        ends = session.ends_with(row)
        running = RunUpdate(RunStatus.RUNNING, session.clock.now()) if closing else None
        yield from session.commit(calls=(write,), reviews=closing, run=ends or running)
        if ends is not None:
            session.end_is_written()
    except Outdated as error:
        if not closing:
            # Only the holder writes rows, so something else changed this one. Never look and rerun.
            yield from _leave_evidence(session, row, outcome)
            raise LedgerCorrupt(
                f"The row of {blocking.call_text(row)} changed while its attempt ran ({error}), "
                "but only this process may write it. The outcome was kept as evidence. "
                f"See: nottwice show {shlex.quote(session.run_id)}"
            ) from error
        # A person decided at this moment. The observed outcome is still a fact.
        yield from _record(session, intent, row, outcome, closes_as=closes_as)
    except OwnershipLost:
        yield from _leave_evidence(session, row, outcome)
        raise
    except BaseException:
        # Full disk or interrupt: the outcome is written later, at the latest when the run is left.
        session.keep_outcome(write)
        raise


def _record_late(
    session: Session,
    tool: Tool,
    intent: CallRow,
    outcome: Invoked,
    mine: InFlight,
    *,
    began: float,
) -> Doing[None]:
    """Record an attempt that ended after its caller stopped waiting."""
    try:
        row = _after(session, tool, intent, outcome, mine, late=True)
        session.say("record the late outcome", row)
        closes_as = None if row.status.in_doubt else "the late outcome"
        yield from _record(session, intent, row, outcome, closes_as=closes_as)
        session.tell_attempt(row, began=began)
    finally:
        session.in_flight.rest(mine)
        session.in_flight.leave(mine)


def _leave_evidence(session: Session, row: CallRow, outcome: Invoked) -> Doing[None]:
    """Keep what an overtaken holder learned: as evidence, never as a ledger row (D9).

    If a person has dealt with the call since, this opens a new review and takes back an unused
    licence.
    Durable: when this returns.
    """
    if outcome.error is None:
        text = "the overtaken holder reports: it happened"
    else:
        tool = session.host.find_tool(row.identity.tool_name)
        said = hide(f"{type(outcome.error).__name__}: {outcome.error}", tool)
        text = f"the overtaken holder reports: it raised {said}"
    now = session.clock.now()
    item = Evidence(
        workflow_id=session.run_id,
        call_id=row.call_id,
        attempt_id=row.attempt_id,
        at=now,
        source=f"holder {session.holder.describe()}",
        text=text.encode("utf-8", "replace").decode()[:2000],
        result=row.result,
    )
    reviews = yield Read(lambda store: store.reviews(session.run_id))
    about = [
        review
        for review in reviews
        # An approval says nothing about what happened.
        if review.identity == row.identity and not review.kind.asks_first
    ]
    writes = [ReviewWrite(one.undone(), one.version) for one in about if one.is_licence]
    if about and all(review.closed_at is not None for review in about):
        reason = f"{text}, after review {about[-1].review_id} was closed"
        writes = [ReviewWrite(blocking.new_review(row, ReviewKind.IN_DOUBT, reason, now=now))]
    session.say("leave evidence", row, f"text={text!r}")
    try:
        yield Write(Commit(workflow_id=session.run_id, evidence=(item,), reviews=tuple(writes)))
    except Outdated:
        # At this moment a person decided, or the licence was used.
        yield from _leave_evidence(session, row, outcome)
