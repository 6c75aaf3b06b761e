"""What is known about a call in doubt, and how is it told to a person?

The facts come from the ledger, the holder's life, ``verify`` and reviews, in the form that the
decision table expects. Promise kept here: P131 (automatic attempts are limited, over all
processes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nottwice.engine.asks import Doing, Invoked, Read
from nottwice.engine.calls.in_flight import living
from nottwice.engine.calls.invocation import Invocation
from nottwice.engine.hiding import hide
from nottwice.engine.session import Session
from nottwice.errors import RunWaits
from nottwice.model.call import CallRow
from nottwice.model.data.printable import one_line
from nottwice.model.decision import Answer, DoubtVerdict, Facts, Settle
from nottwice.model.decision import Attempt as AttemptLife
from nottwice.model.replay_class import stricter
from nottwice.model.review import Evidence, Review, ReviewKind, ReviewStatus, Verb
from nottwice.model.run import Life
from nottwice.model.tool import Tool, Verification

FIRST_WAIT_SECONDS = 0.5
MOST_WAIT_SECONDS = 5.0
MOST_ERROR_CHARACTERS = 500

_VERDICTS = {Verb.HAPPENED: DoubtVerdict.HAPPENED, Verb.DID_NOT_HAPPEN: DoubtVerdict.DID_NOT_HAPPEN}


@dataclass(slots=True)
class Doubt:
    """What is known about a call in doubt. It grows until a decision is possible."""

    session: Session
    tool: Tool
    row: CallRow
    invocation: Invocation | None
    unfit: str
    """Why the recorded arguments do not fit the tool. Empty: they fit, or were not tried."""
    life: AttemptLife
    over_since: float
    review: Review | None = None
    """The review of this attempt, open or decided."""
    person_asked: bool = False
    """Whether a review of this call is open, for any attempt."""
    answer: Answer | None = None
    asked_at: float = 0.0
    asked_seconds: float = 0.0
    """How long ``verify`` was allowed to take when it was last asked."""
    result: object = None
    said: str = ""
    waited_seconds: float = 0.0
    rested_after: str = ""
    """The attempt whose retry delay is over."""
    deadline: float = 0.0

    @property
    def licensed(self) -> bool:
        """Whether a person has decided."""
        return self.review is not None and self.review.status is ReviewStatus.DECIDED

    def facts(self) -> Facts:
        decision = self.review.decision if self.review else None
        return Facts(
            replay_class=stricter(self.row.replay_class, self.tool.replay_class),
            status=self.row.status,
            attempt=self.life,
            window_open=self._window_is_open() and self.may_try_again(),
            keyless=self._is_keyless(),
            can_verify=self.tool.verify is not None,
            answer=self.answer,
            settle=self._settle(),
            patience=self.session.clock.now() + self._wait_seconds() <= self.deadline,
            review_open=self.person_asked,
            verdict=_VERDICTS.get(decision.verb) if decision else None,
        )

    def take(self, outcome: Invoked, known: Sequence[Evidence]) -> None:
        """Keep the answer of ``verify``, and record it as evidence unless it is known already."""
        reply, said_before = outcome.value, self.said
        if isinstance(reply, Verification):
            self.answer, self.result = reply.answer, reply.result
            self.said = f"verify answered: {reply.answer.value}"
        else:
            self.answer = Answer.UNKNOWN
            self.said = said_otherwise(outcome, self.tool, self.asked_seconds)
        self.said = hide(self.said, self.tool)
        # However often verify is asked, the same answer is one piece of evidence.
        told = {(item.source, item.attempt_id, item.text) for item in known}
        text = _kept_text(self.said)
        if self.said != said_before and ("verify", self.row.attempt_id, text) not in told:
            self.note("verify", self.said)

    def note(self, source: str, text: str) -> None:
        row, now = self.row, self.session.clock.now()
        text = _kept_text(hide(text, self.tool))
        self.session.pending.add_evidence(
            Evidence(self.session.run_id, row.call_id, row.attempt_id, now, source, text)
        )

    def next_wait(self) -> float:
        seconds = self._wait_seconds()
        self.waited_seconds += seconds
        return seconds

    def verify_seconds(self) -> float:
        """Return how long ``verify`` may take: not longer than the host waits (P304).

        Raises RunWaits if the host has no time left.
        """
        self.wait_or_leave(0.0)
        self.asked_seconds = self.session.at_most(self.tool.verify_limit_seconds)
        return self.asked_seconds

    def wait_or_leave(self, seconds: float) -> float:
        """Return how long to wait. Raises RunWaits if the host would end the caller before (P304).

        No person is asked for that: the host calls again, and the doubt is as it was.
        """
        now, until = self.session.clock.now(), self.session.until
        if until is None or now + seconds < until:
            return seconds
        why = (
            f"nottwice can find out in {seconds:.3g} s, which is longer than its host lets it wait"
        )
        raise self._come_back(seconds, why)

    def leave_if_cut_short(self, outcome: Invoked) -> None:
        """Raise RunWaits if the deadline of the host ended ``verify`` before its own limit (P304).

        With more time it might have answered, so a person is asked only when the patience is over.
        """
        is_cut_short = outcome.still_running and self.asked_seconds < self.tool.verify_limit_seconds
        if is_cut_short and self.session.clock.now() < self.deadline:
            why = "verify did not answer in the time that its host had left"
            raise self._come_back(FIRST_WAIT_SECONDS, why)

    def _come_back(self, seconds: float, why: str) -> RunWaits:
        call = f"{self.row.identity.tool_name} in run {self.session.run_id!r}"
        return RunWaits(
            f"{call} may or may not have happened, and {why}. It was not run again. Call it again "
            "then.",
            until=self.session.clock.now() + seconds,
            retry_in=seconds,
            run_id=self.session.run_id,
            call_id=self.row.call_id,
        )

    def may_try_again(self) -> bool:
        """Whether another attempt is possible and worthwhile. A person's decision always counts."""
        return self.invocation is not None and (self.licensed or not self._used_up())

    def rest_seconds(self) -> float:
        """Return the remaining delay of the retry policy, or 0 once it has passed."""
        failure = self.row.failure
        if failure is None or self.licensed or self.rested_after == self.row.attempt_id:
            return 0.0
        self.rested_after = self.row.attempt_id
        delay = self.tool.retry.delay_seconds(
            failure,
            failed_attempts=self.row.failed_attempts,
            random_unit=self.session.clock.random_unit(),
        )
        passed = self.session.clock.now() - (self.row.finished_at or self.row.started_at)
        return max(0.0, (delay or 0.0) - max(0.0, passed))

    def failed_again(self, row: CallRow) -> None:
        """Take note of another attempt that did not end the doubt."""
        over = row.finished_at is not None
        self.row, self.life = row, AttemptLife.OVER if over else AttemptLife.MAYBE_ALIVE
        self.over_since = row.finished_at or self.session.clock.now()
        self.review, self.answer, self.said = None, None, ""

    def reason(self) -> str:
        """Say in one sentence why a person is needed."""
        row = self.row
        if self.life is AttemptLife.MAYBE_ALIVE:
            ended = "its holder may still be alive"
            if row.failure is not None:
                ended = f"attempt {row.attempt} was stopped, but what it started may still run"
        elif row.failure is not None:
            ended = f"attempt {row.attempt} ended with {self._error_text()}"
        else:
            ended = f"its process died during attempt {row.attempt}"
        if self.answer is Answer.DID_NOT_HAPPEN:
            why = "verify found no trace of it, but it may still arrive"
            if self._settle() is Settle.NOT_DECLARED:
                why += " (the tool declares no settle time)"
            elif self._used_up():
                why = f"verify found no trace of it, but {self._used_up()}"
            elif self.person_asked:
                why = "verify found no trace of it, but a person has been asked"
        elif self.said:
            why = self.said
        else:
            why = "the tool has no verify hook"
        told = (ended, self._why_not_sent(), why)
        return f"it may or may not have happened: {', and '.join(filter(None, told))}"

    def _why_not_sent(self) -> str:
        """Say why a call with a key is not sent again. Empty for any other call."""
        kind = stricter(self.row.replay_class, self.tool.replay_class)
        if self.unfit:
            return f"its recorded arguments no longer fit the tool ({self.unfit.rstrip('.')})"
        if not kind.keyed or self.row.key is None:
            return ""
        used_up = self._used_up()
        if used_up:
            return used_up
        return "" if self._window_is_open() else "its upstream may have forgotten its key"

    def _used_up(self) -> str:
        """Say why no further attempt is made without a person (P131). Empty: one may be made."""
        row = self.row
        return self.tool.retry.why_not_again(
            row.failure, failed_attempts=row.failed_attempts, lost_attempts=row.lost_attempts
        )

    def _error_text(self) -> str:
        """Return the exception of the last attempt. It was recorded without known secrets."""
        failure = self.row.kept_failure()
        told = hide(failure.message, self.tool)[:MOST_ERROR_CHARACTERS]
        return one_line(f"{failure.error_type}: {told}" if told else failure.error_type)

    def _is_keyless(self) -> bool:
        """Whether the call needs no key, as it was recorded and as its tool is declared now."""
        return self.tool.keyless and self.row.replay_class.keyed and self.row.key is None

    def _window_is_open(self) -> bool:
        row = self.row
        if self._is_keyless():
            return True
        if row.key is None or row.key_since is None or row.window_seconds is None:
            return False
        closes_at = self.tool.window_closes_at(
            key_since=row.key_since, recorded_seconds=row.window_seconds
        )
        # A clock that jumped back must not reopen a window: a start in the future counts as closed.
        return row.key_since - 1.0 <= self.session.clock.now() < closes_at

    def _settle(self) -> Settle:
        if self.tool.settles_seconds is None:
            return Settle.NOT_DECLARED
        # An answer is as old as its question: the upstream may apply the call while verify looks.
        looked_at = self.session.clock.now() if self.answer is None else self.asked_at
        passed = looked_at >= self.over_since + self.tool.settles_seconds
        return Settle.PASSED if passed else Settle.WAITING

    def _wait_seconds(self) -> float:
        if self.answer is Answer.DID_NOT_HAPPEN and self.tool.settles_seconds is not None:
            return max(0.0, self.over_since + self.tool.settles_seconds - self.session.clock.now())
        return min(MOST_WAIT_SECONDS, FIRST_WAIT_SECONDS + self.waited_seconds)


def _kept_text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()[:2000]


def look_into(
    session: Session,
    tool: Tool,
    row: CallRow,
    invocation: Invocation | None,
    *,
    unfit: str = "",
) -> Doing[Doubt]:
    """Gather what can be known about the attempt that left the doubt."""
    now = session.clock.now()
    reviews = yield from reviews_of(session, row)
    doubt = Doubt(
        session=session,
        tool=tool,
        row=row,
        invocation=invocation,
        unfit=unfit,
        life=AttemptLife.OVER,
        over_since=now,
        review=next((one for one in reviews if one.attempt_id == row.attempt_id), None),
        person_asked=any(one.status is ReviewStatus.OPEN for one in reviews),
        deadline=now + session.opening.settle_seconds,
    )
    if row.attempt_id in living:
        # Its waiter is gone, but its body still runs in this process.
        doubt.life = AttemptLife.MAYBE_ALIVE
    elif row.finished_at is not None:
        # The holder itself recorded that the attempt ended.
        doubt.over_since = row.finished_at
    elif row.holder_id != session.holder.holder_id:
        life = yield Read(lambda store: store.life_of(row.holder_id))
        if life is Life.DEAD:
            doubt.over_since = yield from _proven_dead_since(doubt)
        else:
            doubt.life = AttemptLife.MAYBE_ALIVE
    elif row.failure is not None:
        # It was stopped in this process, but a thread that it started may still run.
        doubt.life = AttemptLife.MAYBE_ALIVE
    # An attempt cannot end before it began, whatever the clock said in the process that saw it.
    doubt.over_since = max(doubt.over_since, row.started_at)
    if session.until is not None:
        # A host calls again and again. The time until a person is asked counts from the first time.
        doubt.deadline = doubt.over_since + session.opening.settle_seconds
    return doubt


def reviews_of(session: Session, row: CallRow) -> Doing[list[Review]]:
    """Return the reviews of doubts about this call that are open, or decided and unused."""
    reviews: list[Review] = yield Read(lambda store: store.open_reviews(session.run_id))
    return [
        one for one in reviews if one.identity == row.identity and one.kind is ReviewKind.IN_DOUBT
    ]


def said_otherwise(outcome: Invoked, tool: Tool, limit_seconds: float) -> str:
    """Describe the outcome of a ``verify`` hook that gave none of its four answers."""
    if outcome.error is not None:
        return f"verify raised {type(outcome.error).__name__}: {outcome.error}"
    if outcome.still_running and limit_seconds < tool.verify_limit_seconds:
        # Without the number: the host has another time left whenever it calls.
        return "verify did not answer in the time that its host had left"
    if outcome.still_running:
        return f"verify took longer than {tool.verify_limit_seconds:g} s"
    return (
        f"verify returned {type(outcome.value).__name__} instead of nt.happened(result), "
        "nt.did_not_happen(), nt.still_running() or nt.cannot_tell()"
    )


def _proven_dead_since(doubt: Doubt) -> Doing[float]:
    """Return when the death was first proven. From then on the upstream had time to settle."""
    row, now = doubt.row, doubt.session.clock.now()
    known = yield Read(lambda store: store.evidence(row.identity.workflow_id, row.call_id))
    for item in known:
        if item.source == "ownership" and item.attempt_id == row.attempt_id:
            return float(min(item.at, now))
    doubt.note("ownership", "the process of this attempt is proven dead")
    return now
