"""Waiting for people, time and events: questions, timers, named events (H1).

What the run waits for becomes a row like any other result. The commit that writes the row also uses
up the answer or the event. So a resume gets the same answer, and no event is delivered twice. Until
then the caller gets an exception, the wait is noted (``stops.py``) and the process may end. When
the run is opened again, its code asks again. Promises kept here: P24 (a question and its answer
count once), P26 (an event is delivered once), P27 (what was recorded is the same after a resume).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from nottwice.engine import events
from nottwice.engine.asks import Doing, Read
from nottwice.engine.calls.alone import enter_alone
from nottwice.engine.calls.failures import failure_error
from nottwice.engine.calls.in_flight import InFlight
from nottwice.engine.calls.requests import Request
from nottwice.engine.doubts import blocking
from nottwice.engine.doubts.aborting import abort_if_decided
from nottwice.engine.session import Session
from nottwice.engine.waits import questions, stops
from nottwice.engine.waits.stops import is_wait as is_wait
from nottwice.errors import EventTimeout, NottwiceError, ReplayDriftError, RunWaits
from nottwice.model import values
from nottwice.model.asking.asked import Question
from nottwice.model.call import CallIdentity, CallRow, CallStatus, ResultKind, StoredResult
from nottwice.model.data.calendar import utc
from nottwice.model.data.shapes import not_believed
from nottwice.model.failure import Failure, FailureClass
from nottwice.model.replay_class import ReplayClass
from nottwice.model.review import Evidence, Review, ReviewKind, ReviewStatus
from nottwice.model.run import EventRecord, RunStatus, Wait, WaitKind
from nottwice.store.interface import (
    CallWrite,
    ChargeWrite,
    EventWrite,
    Outdated,
    ReviewWrite,
    RunUpdate,
)

T = TypeVar("T")
_Charges = Callable[[Any], tuple[ChargeWrite, ...]]
DEADLINE = "nottwice.deadline"
MOST_SUMMARY_CHARACTERS = 200


def ask(
    request: Request,
    question: Question,
    parent: InFlight | None,
    charges: _Charges = lambda answer: (),
) -> Doing[Any]:
    """Return the answer to a question. Raises QuestionOpen while there is none.

    ``charges``: what the answer changes on meters, in the commit that uses it up. Durable: the
    question, before QuestionOpen is raised; the answer's row, before it is returned.
    """
    return (yield from _alone(request, parent, lambda: _ask(request, question, charges)))


def sleep(request: Request, seconds: float, parent: InFlight | None) -> Doing[None]:
    """Return when the time has come. Raises RunWaits until then.

    Durable: the due time, before the run waits for it. Later code cannot change it.
    """
    return (yield from _alone(request, parent, lambda: _sleep(request, seconds)))


def receive(
    request: Request, name: str, within_seconds: float | None, parent: InFlight | None
) -> Doing[Any]:
    """Return the oldest event of this name that was not taken. Raises RunWaits while there is none.

    Durable: that it was taken, together with its payload, before it is returned.
    """
    return (yield from _alone(request, parent, lambda: _receive(request, name, within_seconds)))


def _alone(request: Request, parent: InFlight | None, work: Callable[[], Doing[T]]) -> Doing[T]:
    """Do the work, one caller at a time."""
    session = request.scope.session
    mine = yield from enter_alone(session, request.identity, parent)
    try:
        return (yield from work())
    finally:
        session.in_flight.leave(mine)


# Questions


def _ask(request: Request, question: Question, charges: _Charges) -> Doing[Any]:
    session, identity = request.scope.session, request.identity
    unfit: NottwiceError | None = None
    while True:
        row = yield from _find(session, identity)
        if row is not None:
            return _hand_out(request, row)
        review = yield from questions.pending_review(session, identity)
        try:
            if review is None:
                _check_may_begin(request, "asks a new question")
                review = yield from _open_question(request, question)
            elif review.status is ReviewStatus.DECIDED:
                unfit = yield from _use(request, question, review, charges)
                continue
        except Outdated:
            # At this moment a person decided or took a decision back. Look again.
            continue
        request.scope.session.stops.raise_if_stopped(request.scope.node_id, but=identity)
        error = blocking.blocked_by(session, review)
        session.stops.note(identity, error, stops.wait_for(review))
        raise error from unfit


def _open_question(request: Request, question: Question) -> Doing[Review]:
    """Ask: write the question and the run's reason to wait in one commit."""
    session, identity, now = request.scope.session, request.identity, request.scope.session.clock
    text = question.text
    if len(text) > MOST_SUMMARY_CHARACTERS:
        text = text[: MOST_SUMMARY_CHARACTERS - 1] + "…"
    review = Review(
        review_id=secrets.token_hex(4),
        kind=question.kind,
        status=ReviewStatus.OPEN,
        identity=identity,
        call_id=identity.call_id,
        attempt_id="",
        summary=text,
        opened_at=now.now(),
        about=question.to_json(),
    )
    outdone = yield from _outdone(request, review)
    yield from session.commit(
        reviews=(*outdone, ReviewWrite(review)), run=waiting_update(session, stops.wait_for(review))
    )
    session.stops.ask(review)
    session.say("ask a person", identity, f"review={review.review_id}")
    return review


def _outdone(request: Request, review: Review) -> Doing[tuple[ReviewWrite, ...]]:
    """Return the writes that close earlier questions of this visit that are not asked now.

    A visit stops at its first open question. So another open question was asked by other code, or
    about other data. Outside steps, two questions of one run are simply two questions.
    """
    session, here = request.scope.session, request.identity[:3]
    if not request.scope.steps:
        return ()
    by, now = f"another question in its place: {review.review_id}", session.clock.now()
    writes: list[ReviewWrite] = []
    for identity, known in list(session.stops.asked.items()):
        if known.kind is not ReviewKind.APPROVAL and identity[:3] == here:
            found = yield from questions.pending_review(session, identity)
            if found is not None and found.status is ReviewStatus.OPEN:
                writes.append(ReviewWrite(found.closed(by, now=now), found.version))
    return tuple(writes)


def _use(
    request: Request, question: Question, review: Review, charges: _Charges
) -> Doing[NottwiceError | None]:
    """Record the answer as a row and mark it used, in one commit. An unfit answer is undone."""
    session, decision, now = request.scope.session, review.decision, request.scope.session.clock
    assert decision is not None
    if decision.verb is not question.verb:
        yield from abort_if_decided(session)
        raise Outdated(f"review {review.review_id} was decided otherwise")
    plain = values.decode(decision.result.json) if decision.result else None
    try:
        stored = _adopt(request, question, plain)
    except NottwiceError as error:
        text = f"the answer given by {decision.by} does not fit: {error}"[:2000]
        item = Evidence(session.run_id, review.call_id, "", now.now(), "engine", text)
        yield from session.commit(
            reviews=(ReviewWrite(review.undone(), review.version),), evidence=(item,)
        )
        return error
    row = recorded(request, stored, settled_by=f"decision by {decision.by}")
    used = ReviewWrite(review.used(now=now.now()), review.version)
    yield from session.commit(
        calls=(CallWrite(row),),
        reviews=(used,),
        run=waiting_update(session, None),
        charges=charges(plain),
    )
    session.stops.lift(request.identity)
    session.say("use the answer", row, f"review={review.review_id}")
    return None


def _adopt(request: Request, question: Question, plain: Any) -> StoredResult:
    if question.options and plain not in question.options:
        raise NottwiceError(f"{plain!r} is not one of the options {', '.join(question.options)}")
    return request.tool.adopt_result(plain)


# Timers


def _sleep(request: Request, seconds: float) -> Doing[None]:
    session, clock = request.scope.session, request.scope.session.clock
    row = yield from _find(session, request.identity)
    if row is None:
        _check_may_begin(request, "sets a new timer")
        row = recorded(request, _plain(clock.now() + seconds))
        due = _due(row)
        yield from session.commit(
            calls=(CallWrite(row),), run=waiting_update(session, _timer(request, due))
        )
    due = _due(row)
    if clock.now() >= due:
        session.stops.lift(request.identity)
        return
    raise _stopped(request, _timer(request, due), f"the timer {_label(request)}")


def until(request: Request, due: float, what: str) -> RunWaits:
    """Return the exception of a run that waits until a time that its caller has recorded."""
    return _stopped(request, Wait(WaitKind.TIMER, what, request.scope.node_id, due), what)


def _timer(request: Request, due: float) -> Wait:
    return Wait(WaitKind.TIMER, _label(request), request.scope.node_id, due)


def _due(row: CallRow) -> float:
    kept = row.kept_result()
    with not_believed(f"When a timer of run {row.identity.workflow_id!r} is due"):
        return float(values.decode(kept.json))


# Events


def _receive(request: Request, name: str, within_seconds: float | None) -> Doing[Any]:
    session, clock = request.scope.session, request.scope.session.clock
    while True:
        row = yield from _find(session, request.identity)
        if row is not None:
            return _hand_out(request, row)
        _check_may_begin(request, f"wants an event {name!r}")
        due = yield from _deadline(request, name, within_seconds)
        event = yield from _oldest(session, name, due)
        if event is None and due is not None and clock.now() >= due:
            yield from _record_timeout(request, name, within_seconds)
        elif event is None:
            wait = Wait(WaitKind.EVENT, name, request.scope.node_id, due)
            raise _stopped(request, wait, f"an event {name!r}")
        else:
            yield from _take(request, event)


def _deadline(request: Request, name: str, within_seconds: float | None) -> Doing[float | None]:
    """Return when an event is too late. It is recorded at the first wait and never moved."""
    if within_seconds is None:
        return None
    session, identity = request.scope.session, request.identity._replace(tool_name=DEADLINE)
    row = yield from _find(session, identity)
    if row is None:
        until = session.clock.now() + within_seconds
        row = recorded(replace(request, identity=identity), _plain(until))
        wait = Wait(WaitKind.EVENT, name, request.scope.node_id, until)
        yield from session.commit(calls=(CallWrite(row),), run=waiting_update(session, wait))
    return _due(row)


def _oldest(session: Session, name: str, due: float | None) -> Doing[EventRecord | None]:
    """Return the first event that was not taken. An event that was sent in time is in time."""
    found = yield Read(lambda store: store.events(session.run_id, name))
    for event in found:
        if event.received_by is None and (due is None or event.sent_at <= due):
            taken: EventRecord = event
            return taken
    return None


def _take(request: Request, event: EventRecord) -> Doing[None]:
    """Take an event and record its payload, in one commit. Another caller may be faster."""
    session, now = request.scope.session, request.scope.session.clock.now()
    row = recorded(request, StoredResult(ResultKind.PLAIN, event.json))
    taken = replace(event, received_by=row.call_id, received_at=now)
    try:
        yield from session.commit(calls=(CallWrite(row),), events=(EventWrite(taken),))
    except Outdated:
        return
    session.say("take an event", row, f"event={event.event_id!r}")
    if events.listeners:
        taken_from = events.EventTaken(
            ledger=session.store.location,
            run_id=session.run_id,
            step=request.scope.node_id,
            name=event.name,
            event_id=event.event_id,
            caused_by=event.traceparent,
        )
        events.tell(taken_from, session.store)


def _record_timeout(request: Request, name: str, within_seconds: float | None) -> Doing[None]:
    session, now = request.scope.session, request.scope.session.clock.now()
    text = f"no event {name!r} came within {within_seconds:g} s"
    kind = f"{EventTimeout.__module__}.{EventTimeout.__qualname__}"
    row = blank_row(request).failed(Failure(FailureClass.PERMANENT, kind, text), now=now)
    yield from session.commit(calls=(CallWrite(row),))


# What they share


def blank_row(request: Request) -> CallRow:
    """Return the row of something that the engine does itself. It is never in doubt."""
    session, now = request.scope.session, request.scope.session.clock.now()
    return CallRow(
        identity=request.identity,
        call_id=request.identity.call_id,
        status=CallStatus.PENDING,
        replay_class=ReplayClass.PURE,
        attempt=1,
        attempt_id=session.new_attempt_id(),
        holder_id=session.holder.holder_id,
        args_json=request.args_json,
        created_at=now,
        started_at=now,
        label=request.label,
        trace_id=request.trace_id,
    )


def recorded(request: Request, stored: StoredResult, settled_by: str | None = None) -> CallRow:
    """Return a finished row with this result."""
    now = request.scope.session.clock.now()
    return blank_row(request).done(stored, now=now, settled_by=settled_by)


def waiting_update(session: Session, wait: Wait | None) -> RunUpdate:
    """Record what the run has come to wait for.

    Other branches may still be working, so the run stays in status running. All reasons are written
    when the run is left. (Writing all of them here would be too much for a thousand branches.)
    """
    waits = () if wait is None else (wait,)
    return RunUpdate(RunStatus.RUNNING, session.clock.now(), waits=waits)


def _find(session: Session, identity: CallIdentity) -> Doing[CallRow | None]:
    row = session.pending.find_call(identity)
    if row is None:
        row = yield Read(lambda store: store.load_call(identity))
    return row


def _hand_out(request: Request, row: CallRow) -> Any:
    request.scope.session.stops.lift(request.identity)
    if row.status is CallStatus.FAILED:
        raise failure_error(request.tool, row)
    return request.tool.decode_result(row.kept_result())


def _check_may_begin(request: Request, wants: str) -> None:
    """Refuse a new wait behind another wait, and in a step that only replays."""
    scope = request.scope
    scope.session.stops.raise_if_stopped(scope.node_id, but=request.identity)
    if scope.steps and scope.steps[0].finished:
        raise ReplayDriftError(
            f"Step {scope.node_id!r} of run {scope.session.run_id!r} is finished and only replays, "
            f"but the code {wants}. Nothing was done. If this is another visit, say so: "
            "nt.step(name, at=...).",
            call_id=request.identity.call_id,
        )


def _stopped(request: Request, wait: Wait, what: str) -> RunWaits:
    """Return the exception of a run that waits for time or an event, and note it first."""
    session = request.scope.session
    request.scope.session.stops.raise_if_stopped(request.scope.node_id, but=request.identity)
    ends = ""
    if wait.until is not None:
        ends = f", at most until {utc(wait.until):%Y-%m-%d %H:%M:%S} UTC"
    error = RunWaits(
        f"Run {session.run_id!r} waits for {what}{ends}. Nothing failed, and nothing more was "
        "done. Run your program again then, and the run continues.",
        run_id=session.run_id,
        until=wait.until,
        wait=wait,
    )
    session.stops.note(request.identity, error, wait)
    return error


def _label(request: Request) -> str:
    return request.label or f"in {request.scope.node_id}"


def _plain(value: Any) -> StoredResult:
    return StoredResult(ResultKind.PLAIN, values.encode(value))
