"""What to do about a call: one pure function (D1).

Promises kept here: P2 (an unsafe call in doubt is never run again without proof or a person), P3 (a
keyed call is reissued only with its stored key, inside its window), P247 (a call that needs no key
is reissued only once its old attempt is over), P4 (``verify`` may only confirm
while the old attempt may be alive), P130 (nothing is sent past an open review).

An expired lease or a fence is not enough, because a paused worker wakes up and fires, fenced or
not. A proven death is not enough either, because the request may still be queued upstream; hence
the settle time. "Did not happen" from a person licenses an attempt, because a person can look where
nottwice cannot. An open review forbids what a key or ``verify`` would allow (P130), because the
reason to ask was true when nottwice asked, and only a clock says that it no longer is. A clock can
be wrong.
"""

from __future__ import annotations

import enum
from typing import assert_never

from nottwice.model.call import CallStatus
from nottwice.model.data.records import light_record
from nottwice.model.replay_class import ReplayClass


class Attempt(enum.Enum):
    """What is known about the attempt that left a call in doubt."""

    ALIVE_HERE = "alive in this process"
    OVER = "proven over"
    MAYBE_ALIVE = "may be alive"


class Answer(enum.Enum):
    """What a ``verify`` hook answered."""

    HAPPENED = "happened"
    DID_NOT_HAPPEN = "did not happen"
    STILL_RUNNING = "still running"
    UNKNOWN = "unknown"


class Settle(enum.Enum):
    """Whether the upstream can still apply an attempt that has ended."""

    NOT_DECLARED = "not declared"
    WAITING = "not passed"
    PASSED = "passed"


class DoubtVerdict(enum.Enum):
    """What a person decided about a call in doubt."""

    HAPPENED = "happened"
    DID_NOT_HAPPEN = "did not happen"


@light_record(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that a decision depends on."""

    replay_class: ReplayClass
    """The stricter of the recorded and the current class (D12)."""
    status: CallStatus | None
    """None: the ledger has no row."""
    intact: bool = True
    result_kept: bool = True
    retry_granted: bool = False
    """A FAILED call has attempts left, or the caller asked for a retry by name."""
    attempt: Attempt = Attempt.OVER
    window_open: bool = False
    """A key is recorded and the upstream still remembers it, or no key is needed."""
    keyless: bool = False
    """It is idempotent without a key: no key is sent, and its window never closes (P247)."""
    can_verify: bool = False
    answer: Answer | None = None
    settle: Settle = Settle.NOT_DECLARED
    patience: bool = True
    """There is still time to wait for a better answer."""
    review_open: bool = False
    """A person has been asked about this doubt and has not answered."""
    verdict: DoubtVerdict | None = None


class Action(enum.Enum):
    """What the engine does next."""

    RUN = "run"
    RECORD_AND_RUN = "record the intent, run"
    RETURN_RECEIPT = "return the receipt"
    RETURN_FAILURE = "return the recorded failure"
    ASK_FOR_RESULT = "ask verify, then a person, for the result"
    WAIT_FOR_ATTEMPT = "wait for the running attempt"
    REISSUE = "record the intent, run with the stored key"
    ASK_VERIFY = "ask verify"
    WAIT_AND_ASK_AGAIN = "wait, then ask verify again"
    RECORD_HAPPENED = "record the receipt verify gave"
    RECORD_VERDICT = "record the receipt a person gave"
    NEW_ATTEMPT = "record the intent of one more attempt, run"
    OPEN_REVIEW = "ask a person"
    REFUSE = "refuse, ask a person"


def decide(facts: Facts) -> Action:
    """The decision table."""
    if not facts.intact:
        return Action.REFUSE
    begin = Action.RECORD_AND_RUN if facts.replay_class.records_intent else Action.RUN
    match facts.status:
        case None:
            return begin
        case CallStatus.DONE:
            if facts.result_kept:
                return Action.RETURN_RECEIPT
            return Action.RUN if facts.replay_class.may_rerun else Action.ASK_FOR_RESULT
        case CallStatus.FAILED:
            if not facts.retry_granted:
                return Action.RETURN_FAILURE
            return begin
        case CallStatus.PENDING | CallStatus.UNKNOWN:
            return _decide_in_doubt(facts)
        case _:
            assert_never(facts.status)


def _decide_in_doubt(facts: Facts) -> Action:
    if facts.attempt is Attempt.ALIVE_HERE:
        return Action.WAIT_FOR_ATTEMPT
    if facts.replay_class.may_rerun:
        return Action.RUN
    match facts.verdict:
        case DoubtVerdict.HAPPENED:
            return Action.RECORD_VERDICT
        case DoubtVerdict.DID_NOT_HAPPEN:
            return Action.NEW_ATTEMPT
        case None:
            pass
        case _:
            assert_never(facts.verdict)
    if facts.replay_class.keyed and facts.window_open and not facts.review_open:
        # Without a key, the upstream cannot tell a late first request from a newer one: it would
        # put the old value back.
        if not facts.keyless or facts.attempt is Attempt.OVER:
            return Action.REISSUE
    return _decide_by_answer(facts)


def _decide_by_answer(facts: Facts) -> Action:
    over = facts.attempt is Attempt.OVER
    match facts.answer:
        case None:
            return Action.ASK_VERIFY if facts.can_verify else Action.OPEN_REVIEW
        case Answer.HAPPENED:
            return Action.RECORD_HAPPENED
        case Answer.UNKNOWN:
            return Action.OPEN_REVIEW
        case Answer.STILL_RUNNING:
            return Action.WAIT_AND_ASK_AGAIN if over and facts.patience else Action.OPEN_REVIEW
        case Answer.DID_NOT_HAPPEN:
            if facts.review_open:
                return Action.OPEN_REVIEW
            if over and facts.settle is Settle.PASSED:
                return Action.NEW_ATTEMPT
            if over and facts.settle is Settle.WAITING and facts.patience:
                return Action.WAIT_AND_ASK_AGAIN
            return Action.OPEN_REVIEW
        case _:
            assert_never(facts.answer)
