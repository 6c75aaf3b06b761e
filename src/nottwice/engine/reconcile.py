"""Calls in doubt: the stored key, the ``verify`` hook, a person's decision, or a review (D2, D10).

Promises kept here: P2, P3, P4 (through the decision table), P15 (calls in doubt are reconciled
before user code runs), P16 (a person's licence is consumed by the commit that records the
attempt it allows), P103 (no fingerprint is sent in place of a secret).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nottwice.engine import blocking, restored
from nottwice.engine.asks import CanInvoke, Doing, Outcome, Pause, Read, Verify
from nottwice.engine.attempt import Attempted, Invocation, StillRunning, attempt
from nottwice.engine.hiding import hide, kept
from nottwice.engine.in_flight import InFlight, living
from nottwice.engine.session import Scope, Session
from nottwice.errors import LedgerCorrupt, NottwiceError, RunAborted, RunBlocked
from nottwice.model import values
from nottwice.model.call import CallRow, ResultKind, call_from_row, stricter
from nottwice.model.decision import Action, Answer, Facts, Settle, Verdict, decide
from nottwice.model.decision import Attempt as AttemptLife
from nottwice.model.failure import FailureClass
from nottwice.model.review import Evidence, Review, ReviewKind, ReviewStatus, Verb
from nottwice.model.run import Life, RunStatus
from nottwice.model.secrets import holds_fingerprint
from nottwice.model.tool import Tool, Verification
from nottwice.store.interface import Outdated, ReviewWrite, RunUpdate

FIRST_WAIT_SECONDS = 0.5
MOST_WAIT_SECONDS = 5.0


def resolve(
    session: Session,
    tool: Tool,
    row: CallRow,
    mine: InFlight,
    *,
    invocation: Invocation | None,
) -> Doing[tuple[CallRow, Attempted | None]]:
    """End the doubt about one call, or raise RunBlocked with a review on record.

    Durable: whatever ended it, when it returns.
    """
    if row.identity in session.unrecorded:
        return (yield from _record_what_is_known(session, row)), None
    doubt = yield from _look_into(session, tool, row, invocation)
    while True:
        try:
            ended = yield from _end_or_learn(doubt, mine)
        except Outdated:
            # A person decided, or took a decision back, at this very moment: look again.
            doubt = yield from _look_into(session, tool, doubt.row, invocation)
            continue
        if ended is not None:
            return ended


def _end_or_learn(doubt: Doubt, mine: InFlight) -> Doing[tuple[CallRow, Attempted | None] | None]:
    """Carry one decision out. None: the doubt goes on, and more is known about it."""
    session, tool = doubt.session, doubt.tool
    action = decide(doubt.facts())
    session.say(action.value, doubt.row, f"said={doubt.said!r}" if doubt.said else "")
    match action:
        case Action.REISSUE | Action.NEW_ATTEMPT if doubt.may_try_again():
            attempted = yield from _attempt_again(doubt, mine)
            if not attempted.row.status.in_doubt:
                return attempted.row, attempted
            yield Pause(doubt.failed_again(attempted.row))
        case Action.ASK_VERIFY:
            doubt.asked_at = session.clock.now()
            known = yield Read(lambda store: store.evidence(session.run_id, doubt.row.call_id))
            doubt.take((yield Verify(tool, call_from_row(doubt.row))), known)
        case Action.WAIT_AND_ASK_AGAIN:
            yield Pause(doubt.next_wait())
            doubt.answer = None
        case Action.RECORD_HAPPENED:
            return (yield from _record_happened(doubt)), None
        case Action.RECORD_VERDICT:
            return (yield from _record_verdict(doubt)), None
        case _:
            raise (yield from blocking.open_review(session, doubt.row, doubt.reason()))
    return None


@dataclass(slots=True)
class Doubt:
    """What is known about one call in doubt, growing until it decides."""

    session: Session
    tool: Tool
    row: CallRow
    invocation: Invocation | None
    life: AttemptLife
    over_since: float
    review: Review | None = None
    answer: Answer | None = None
    asked_at: float = 0.0
    result: object = None
    said: str = ""
    waited_seconds: float = 0.0
    failures: int = 0
    deadline: float = 0.0

    def facts(self) -> Facts:
        decision = self.review.decision if self.review else None
        verdicts = {
            Verb.HAPPENED: Verdict.HAPPENED,
            Verb.DID_NOT_HAPPEN: Verdict.DID_NOT_HAPPEN,
        }
        return Facts(
            replay_class=stricter(self.row.replay_class, self.tool.replay_class),
            status=self.row.status,
            attempt=self.life,
            window_open=self._window_is_open(),
            can_verify=self.tool.verify is not None,
            answer=self.answer,
            settle=self._settle(),
            patience=self.session.clock.now() + self._wait_seconds() <= self.deadline,
            verdict=verdicts.get(decision.verb) if decision else None,
        )

    def take(self, outcome: Outcome, known: Sequence[Evidence]) -> None:
        """Keep what ``verify`` said, as an answer, and as evidence unless that is known already."""
        reply, said_before = outcome.value, self.said
        if isinstance(reply, Verification):
            self.answer, self.result = reply.answer, reply.result
            self.said = f"verify answered: {reply.answer.value}"
        else:
            self.answer = Answer.UNKNOWN
            if outcome.error is not None:
                self.said = f"verify raised {type(outcome.error).__name__}: {outcome.error}"
            elif outcome.still_running:
                self.said = f"verify took longer than {self.tool.verify_limit_seconds:g} s"
            else:
                self.said = (
                    f"verify returned {type(reply).__name__} instead of nt.happened(result), "
                    "nt.did_not_happen(), nt.still_running() or nt.unknown()"
                )
        self.said = hide(self.said, self.tool)
        # However often it is asked: the same answer is one piece of evidence.
        told = {(item.source, item.attempt_id, item.text) for item in known}
        text = _kept_text(self.said)
        if self.said != said_before and ("verify", self.row.attempt_id, text) not in told:
            self.note("verify", self.said)

    def note(self, source: str, text: str) -> None:
        row, now = self.row, self.session.clock.now()
        text = _kept_text(hide(text, self.tool))
        self.session.riding.add_evidence(
            Evidence(self.session.run_id, row.call_id, row.attempt_id, now, source, text)
        )

    def next_wait(self) -> float:
        seconds = self._wait_seconds()
        self.waited_seconds += seconds
        return seconds

    def may_try_again(self) -> bool:
        """Whether another attempt is possible and worth it; a person's word always counts."""
        licensed = self.review is not None and self.review.status is ReviewStatus.DECIDED
        left = self.failures < self.tool.retry.attempts
        return self.invocation is not None and (licensed or left)

    def failed_again(self, row: CallRow) -> float:
        """Take in another attempt that did not end the doubt; how long to wait before the next."""
        failure = row.kept_failure()
        over = row.finished_at is not None
        self.row, self.life = row, AttemptLife.OVER if over else AttemptLife.MAYBE_ALIVE
        self.over_since = row.finished_at or self.session.clock.now()
        self.review, self.answer, self.said = None, None, ""
        self.failures += 1
        delay = self.tool.retry.delay_seconds(
            failed_attempts=self.failures,
            random_unit=self.session.clock.random_unit(),
            retry_after_seconds=failure.retry_after_seconds,
        )
        if delay is None or failure.failure_class is FailureClass.POISON:
            self.failures = self.tool.retry.attempts
        return delay or 0.0

    def reason(self) -> str:
        """Why a person is needed, in one sentence."""
        row = self.row
        if self.life is AttemptLife.MAYBE_ALIVE:
            ended = "its holder may still be alive"
            if row.failure is not None:
                ended = f"attempt {row.attempt} was stopped, but what it started may go on"
        elif row.failure is not None:
            ended = f"attempt {row.attempt} ended with {row.failure.error_type}"
        else:
            ended = f"its process died during attempt {row.attempt}"
        if self.answer is Answer.DID_NOT_HAPPEN:
            why = "verify found no trace of it, but it may still arrive"
            if self._settle() is Settle.NOT_DECLARED:
                why += " (the tool declares no settle time)"
        elif self.said:
            why = self.said
        else:
            why = "the tool has no verify hook"
        return f"it may or may not have happened: {ended}, and {why}"

    def _window_is_open(self) -> bool:
        row = self.row
        if row.key is None or row.key_since is None or row.window_seconds is None:
            return False
        if self.invocation is None or self.failures >= self.tool.retry.attempts:
            return False
        closes_at = self.tool.window_closes_at(
            key_since=row.key_since, recorded_seconds=row.window_seconds
        )
        # A clock that jumped back must not reopen a window: since-in-the-future is closed.
        return row.key_since - 1.0 <= self.session.clock.now() < closes_at

    def _settle(self) -> Settle:
        if self.tool.settles_seconds is None:
            return Settle.NOT_DECLARED
        # An answer is as old as its question: the upstream may apply while verify is looking.
        looked_at = self.session.clock.now() if self.answer is None else self.asked_at
        passed = looked_at >= self.over_since + self.tool.settles_seconds
        return Settle.PASSED if passed else Settle.WAITING

    def _wait_seconds(self) -> float:
        if self.answer is Answer.DID_NOT_HAPPEN and self.tool.settles_seconds is not None:
            return max(0.0, self.over_since + self.tool.settles_seconds - self.session.clock.now())
        return min(MOST_WAIT_SECONDS, FIRST_WAIT_SECONDS + self.waited_seconds)


def _kept_text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()[:2000]


def _look_into(
    session: Session, tool: Tool, row: CallRow, invocation: Invocation | None
) -> Doing[Doubt]:
    """Gather what can be known about the attempt that left the doubt."""
    now = session.clock.now()
    reviews = yield Read(lambda store: store.open_reviews(session.run_id))
    review = next(
        (
            one
            for one in reviews
            if one.identity == row.identity
            and one.attempt_id == row.attempt_id
            and one.kind is ReviewKind.IN_DOUBT
        ),
        None,
    )
    doubt = Doubt(
        session=session,
        tool=tool,
        row=row,
        invocation=invocation,
        life=AttemptLife.OVER,
        over_since=now,
        review=review,
        deadline=now + session.patience_seconds,
    )
    if row.attempt_id in living:
        # Its waiter is gone, but its body still runs in this very process.
        doubt.life = AttemptLife.MAYBE_ALIVE
    elif row.finished_at is not None:
        # The holder itself recorded that the attempt is over.
        doubt.over_since = row.finished_at
    elif row.holder_id != session.holder.holder_id:
        life = yield Read(lambda store: store.life_of(row.holder_id))
        if life is Life.DEAD:
            doubt.over_since = yield from _proven_dead_since(doubt)
        else:
            doubt.life = AttemptLife.MAYBE_ALIVE
    elif row.failure is not None:
        # It was stopped in this very process, and a thread that it started may still run.
        doubt.life = AttemptLife.MAYBE_ALIVE
    return doubt


def _proven_dead_since(doubt: Doubt) -> Doing[float]:
    """When the death was first proven; from then on the upstream had time to settle."""
    row, now = doubt.row, doubt.session.clock.now()
    known = yield Read(lambda store: store.evidence(row.identity.workflow_id, row.call_id))
    for item in known:
        if item.source == "ownership" and item.attempt_id == row.attempt_id:
            return float(min(item.at, now))
    doubt.note("ownership", f"holder {row.holder_id[:8]} is proven dead")
    return now


def _attempt_again(doubt: Doubt, mine: InFlight) -> Doing[Attempted]:
    """One more attempt; a person's licence is consumed by the commit of its intent."""
    session, row, review = doubt.session, doubt.row, doubt.review
    assert doubt.invocation is not None
    now = session.clock.now()
    intent = row.next_attempt(
        attempt_id=session.new_attempt_id(), holder_id=session.holder.holder_id, now=now
    )
    licensed = review is not None and review.status is ReviewStatus.DECIDED
    if licensed or doubt.answer is Answer.DID_NOT_HAPPEN:
        # It is established that no earlier attempt took effect: a clean slate.
        intent = intent._replace(ambiguous=False)
    writes: tuple[ReviewWrite, ...] = ()
    if review is not None:
        after = review.used(now=now) if licensed else review.closed("another attempt", now=now)
        writes = (ReviewWrite(after, review.version),)
    return (
        yield from attempt(
            session,
            doubt.tool,
            intent,
            mine,
            before=row,
            invocation=doubt.invocation,
            reviews=writes,
        )
    )


def _record_what_is_known(session: Session, row: CallRow) -> Doing[CallRow]:
    """An outcome that this process saw but could not write: try again before doubting."""
    write = session.unrecorded[row.identity]
    yield from session.commit(calls=(write,))
    del session.unrecorded[row.identity]
    session.say("record the outcome that could not be written before", write.row)
    return write.row


def _record_happened(doubt: Doubt) -> Doing[CallRow]:
    session, now = doubt.session, doubt.session.clock.now()
    stored = kept(doubt.tool, doubt.result)
    row = doubt.row.done(stored, now=now, settled_by="verify")
    closing = yield from blocking.closing_reviews(session, row, by="verify")
    yield from session.commit_row(row, after=doubt.row, reviews=closing)
    return row


def _record_verdict(doubt: Doubt) -> Doing[CallRow]:
    """Make the result a person gave the receipt, if it fits the tool; else ask again."""
    session, review, now = doubt.session, doubt.review, doubt.session.clock.now()
    assert review is not None
    assert review.decision is not None
    given = review.decision.result
    try:
        if given is not None and given.kind is ResultKind.NOT_KEPT:
            # Verify found an effect whose result cannot be kept: that is what is on record.
            stored = given
        else:
            stored = doubt.tool.adopt_result(values.decode(given.json) if given else None)
    except NottwiceError as error:
        doubt.note("engine", f"the result given by {review.decision.by} does not fit: {error}")
        yield from session.commit(reviews=(ReviewWrite(review.undone(), review.version),))
        raise blocking.blocked_by(session, review, row=doubt.row) from error
    row = doubt.row.done(stored, now=now, settled_by=f"decision by {review.decision.by}")
    used = (ReviewWrite(review.used(now=now), review.version),)
    yield from session.commit_row(row, after=doubt.row, reviews=used)
    return row


def reconcile_all(session: Session) -> Doing[None]:
    """On claiming a run: end every doubt that can be ended, before user code runs.

    Raises the first RunBlocked, after all calls in doubt have been tried.
    """
    if not session.standing.reviews and not session.standing.in_doubt:
        return
    yield from abort_if_decided(session)
    blocked: RunBlocked | None = None
    for row in (yield Read(lambda store: store.calls_in_doubt(session.run_id))):
        try:
            yield from reconcile_one(session, row)
        except RunBlocked as error:
            blocked = blocked or error
    if blocked is not None:
        raise blocked
    yield from raise_if_blocked(session)


def reconcile_one(session: Session, row: CallRow) -> Doing[None]:
    """End the doubt about one recorded call, without its caller."""
    tool = session.find_tool(row.identity.tool_name)
    if tool is None:
        reason = (
            "it may or may not have happened, and its tool is not declared in this process: "
            "import the module that declares it, then open the run again"
        )
        raise (yield from blocking.open_review(session, row, reason))
    if tool.rebuild is None or _has_secrets(row) or not (yield CanInvoke(tool)):
        # It needs its instance, its secrets or an event loop: it is resolved when the code asks.
        session.say("leave in doubt until it is asked for", row)
        return
    invocation: Invocation | None = None
    try:
        invocation = tool.rebuild(values.decode_object(row.args_json))
    except NottwiceError as error:
        session.say("arguments no longer fit", row, repr(str(error)))
    mine, ours = session.enter(row.identity, None)
    if not ours:
        return
    # Calls that its body makes belong to where it was called, not to where it is resolved.
    mine.scope = Scope(session, row.identity.node_id, row.identity.checkpoint_id)
    late = False
    try:
        yield from resolve(session, tool, row, mine, invocation=invocation)
    except StillRunning as error:
        late = True
        raise error.blocked from None
    finally:
        if not late:
            session.leave(mine)


def _has_secrets(row: CallRow) -> bool:
    """Whether its record holds a fingerprint, with which nobody can make the call (P103)."""
    try:
        return holds_fingerprint(values.decode(row.args_json))
    except LedgerCorrupt:
        return False


def raise_if_blocked(session: Session) -> Doing[None]:
    """Use what people have decided since; raise for the first review that is still open (D11)."""
    for review in (yield from abort_if_decided(session)):
        decided = review.status is ReviewStatus.DECIDED
        if review.kind is ReviewKind.DRIFT and decided:
            session.waivers[review.identity] = review
        elif review.kind.asks_first:
            # It holds back only the code that asks for it; that code looks for itself.
            session.asked[review.identity] = review
        elif review.kind is ReviewKind.UNDEPLOYABLE:
            yield from _close_undeployable(session, review)
        elif review.kind is ReviewKind.CORRUPT:
            # It was looked at when the run was opened.
            continue
        elif review.kind is ReviewKind.RESTORED:
            yield from restored.end_hold(session, review)
        elif review.kind is ReviewKind.IN_DOUBT:
            row = yield _reviewed_call(review)
            if row is not None and _ended_by_itself(row, review):
                # It returned in the moment between its time limit and this review.
                closed = review.closed("the late outcome", now=session.clock.now())
                yield from session.commit(reviews=(ReviewWrite(closed, review.version),))
                continue
            if not decided:
                raise blocking.blocked_by(session, review, row=row)
            if row is not None and row.status.in_doubt:
                yield from reconcile_one(session, row)
            else:
                # The doubt ended otherwise; the decision is taken note of and changes nothing.
                used = review.used(now=session.clock.now())
                yield from session.commit(reviews=(ReviewWrite(used, review.version),))
        else:
            raise blocking.blocked_by(session, review)


def _close_undeployable(session: Session, review: Review) -> Doing[None]:
    """Whoever holds the run has the code for it, so nobody need be told any more that none has."""
    closed = review.closed("a version that can take the run", now=session.clock.now())
    try:
        yield from session.commit(reviews=(ReviewWrite(closed, review.version),))
    except Outdated:
        # Somebody has decided at this very moment.
        yield from abort_if_decided(session)


def _ended_by_itself(row: CallRow, review: Review) -> bool:
    """Whether the very attempt that a review asks about has recorded its own outcome."""
    settled = not row.status.in_doubt and row.settled_by is None
    return settled and row.attempt_id == review.attempt_id


def _reviewed_call(review: Review) -> Read:
    return Read(lambda store: store.load_call(review.identity))


def abort_if_decided(session: Session) -> Doing[list[Review]]:
    """Raise RunAborted if a person has decided so, whatever the review is about.

    Otherwise, what reviews there are. Durable: that the run is aborted, before it is raised.
    """
    while True:
        reviews: list[Review] = yield Read(lambda store: store.open_reviews(session.run_id))
        review = next(filter(_aborts, reviews), None)
        if review is None or review.decision is None:
            return reviews
        decision, now = review.decision, session.clock.now()
        try:
            yield from session.commit(
                reviews=(ReviewWrite(review.used(now=now), review.version),),
                run=RunUpdate(RunStatus.ABORTED, now),
            )
        except Outdated:
            # It was taken back at this very moment, and is an open review again.
            continue
        raise RunAborted(
            f"Run {session.run_id!r} was aborted by {decision.by}: {decision.why}. Nothing more "
            "was sent. Start a run with another id if it should be done after all.",
            review_id=review.review_id,
        )


def _aborts(review: Review) -> bool:
    return review.decision is not None and review.decision.verb is Verb.ABORT
