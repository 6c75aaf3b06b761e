"""What a tool declares when it is registered (T1, T3).

The engine sees only this record. How arguments and results become plain data is decided where the
tool is declared; the record carries that as functions.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

from nottwice.durations import Duration as Duration
from nottwice.durations import read_duration
from nottwice.errors import InvalidTool, UsageError
from nottwice.model.asking.answers import GivenAnswer
from nottwice.model.call import Call, StoredResult
from nottwice.model.data.records import frozen_record
from nottwice.model.decision import Answer
from nottwice.model.failure import Classifier
from nottwice.model.replay_class import ReplayClass
from nottwice.model.retry import RetryPolicy
from nottwice.model.review import Verb

Repeat = Literal["ask", "free", "never"]
"""What happens when a model wants to do exactly the same a second time."""
OWN_PREFIX = "nottwice."
"""The prefix of rows that nottwice makes itself: answers, timers, events, values."""
LEAST_WINDOW_MARGIN_SECONDS = 60.0


@frozen_record(frozen=True, slots=True)
class Verification:
    """The answer of a ``verify`` hook. Made by ``happened``, ``did_not_happen`` and so on."""

    answer: Answer
    result: Any = None

    def __repr__(self) -> str:
        match self.answer:
            case Answer.HAPPENED:
                return f"happened({self.result!r})"
            case Answer.DID_NOT_HAPPEN:
                return "did_not_happen()"
            case Answer.STILL_RUNNING:
                return "still_running()"
            case Answer.UNKNOWN:
                return "cannot_tell()"

    def payload(self, review_id: str, *, by: str, why: str) -> dict[str, Any]:
        """Return this as the answer of a person to a review, to be sent through a framework.

        ``nt.adapters.answer`` decides the review with it. Only ``happened`` and ``did_not_happen``
        are answers.
        """
        if self.answer not in _VERBS:
            raise UsageError(
                f"{self.answer.value!r} decides nothing. Nothing was decided. Answer with "
                "nt.happened(result) or nt.did_not_happen(), or leave the review open."
            )
        has_result = self.answer is Answer.HAPPENED
        told = GivenAnswer(review_id, _VERBS[self.answer], by, why, self.result, has_result)
        return told.payload()


_VERBS = {Answer.HAPPENED: Verb.HAPPENED, Answer.DID_NOT_HAPPEN: Verb.DID_NOT_HAPPEN}


def happened(result: Any) -> Verification:
    """The effect took place, and this is the result that the tool would have returned."""
    return Verification(Answer.HAPPENED, result)


def did_not_happen() -> Verification:
    """The upstream has no trace of the effect. Licenses a new attempt only after ``settles``."""
    return Verification(Answer.DID_NOT_HAPPEN)


def still_running() -> Verification:
    """The upstream is still working on it. Ask again."""
    return Verification(Answer.STILL_RUNNING)


def cannot_tell() -> Verification:
    """There is no way to tell. A person must look."""
    return Verification(Answer.UNKNOWN)


@frozen_record(frozen=True, slots=True, kw_only=True)
class Tool:
    """One declared tool."""

    name: str
    replay_class: ReplayClass
    function: Callable[..., Any]
    is_async: bool
    result_type: Callable[[], str]
    encode_result: Callable[[Any], StoredResult]
    """Never refuses: what cannot be kept becomes a note of what it was."""
    decode_result: Callable[[StoredResult], Any]
    adopt_result: Callable[[Any], StoredResult]
    """Reads plain data that a person or a hook gave as the result. Raises if it does not fit."""
    rebuild: Callable[[dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]] | None
    """Turns recorded arguments into a call of the function. None if an instance is needed."""
    schemas: Callable[[], tuple[Any, Any]] = lambda: (None, None)
    """The JSON schemas of its arguments, as one object, and of its result. None: anything."""
    key_text: str | None = None
    window_seconds: float | None = None
    keyless: bool = False
    """It is idempotent without a key, as a PUT is (P247)."""
    verify: Callable[[Call], Any] | None = None
    settles_seconds: float | None = None
    classify: Classifier | None = None
    retry: RetryPolicy = RetryPolicy()
    time_limit_seconds: float | None = None
    verify_limit_seconds: float = 30.0
    volatile: tuple[str, ...] = ()
    once_per: tuple[str, ...] | None = None
    """The arguments that identify the effect; all others are volatile. None: not declared
    (P202)."""
    durable: bool = False
    """Its result is durable before it is returned, even if it is pure: it was paid for (D14)."""
    only_answers: bool = False
    """Only answers are recorded. An exception is raised, and the next resume asks again. An answer
    that can no longer be read is not requested again (P151)."""
    bound_by: tuple[str, ...] | None = None
    tags: tuple[str, ...] = ()
    approve: bool = False
    """A person must approve each call before it is made (H3)."""
    approval_seconds: float | None = None
    """How long an approval is valid. None: until it is used."""
    keep_seconds: float | None = None
    """How long its rows are kept after their run has ended. None: as its class says."""
    redact: Callable[[str], str] | None = None
    """Removes from a text what must not be recorded. Applied to failures, evidence, results."""
    repeat: Repeat = "ask"
    """Whether a model may do exactly the same again (P201)."""
    parallel: bool = False
    """In a model's reply with several effects, the order of this one does not matter (P200)."""
    title: str | None = None
    """A template for one line about a call, for people (P224)."""
    look: str | None = None
    """A template that says where a person checks whether a call happened."""
    summary: str | None = None
    """The first line of its docstring."""
    place: str | None = None
    """Where it is declared, from the folder that its package is imported from."""
    rate_class: str | None = None
    """The name of its rate-limit class. Recorded now, enforced by the policy gate."""

    def window_closes_at(self, *, key_since: float, recorded_seconds: float) -> float:
        """Return the last moment to reissue, so that an attempt arrives inside the window."""
        window = min(recorded_seconds, self.window_seconds or recorded_seconds)
        margin = max(self.time_limit_seconds or 0.0, LEAST_WINDOW_MARGIN_SECONDS)
        return key_since + max(window - margin, window / 2)


def parse_duration(duration: Duration, *, what: str) -> float:
    """Return the seconds of ``"30s"``, ``"24h"``, ``"7d"`` or a timedelta. A number has no unit."""
    given: Any = duration
    if isinstance(given, str | timedelta):
        seconds = read_duration(given)
        if seconds is None:
            raise InvalidTool(f"{what}={given!r} is not a duration. {_UNITS_NEEDED}")
    elif isinstance(given, int | float) and not isinstance(given, bool):
        raise InvalidTool(f"{what}={_shown(given)} has no unit. {_UNITS_NEEDED}")
    else:
        raise InvalidTool(f"{what} must be a duration, not {given!r}. {_UNITS_NEEDED}")
    if not 0 < seconds < 1e10:
        raise InvalidTool(f"{what}={given!r} must be longer than zero and finite.")
    return seconds


def timeout_seconds(timeout: Duration | None, *, what: str) -> float:
    """Return how long to wait at most, in seconds. None: not at all."""
    return 0.0 if timeout is None else parse_duration(timeout, what=what)


_UNITS_NEEDED = (
    "Write a number and a unit, '500ms', '30s', '15m', '24h' or '7d', or give a datetime.timedelta."
)


def _shown(given: float) -> str:
    # A huge number is not even spelled: Python refuses to write thousands of digits.
    return "a huge number" if isinstance(given, int) and abs(given) > 1e20 else repr(given)
