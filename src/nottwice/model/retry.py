"""Is a failed call retried, and when? This is the only place that decides it (D4).

Pure tools, effects, calls in doubt and questions to a model all ask here. Nothing here reads a
clock or uses randomness: the caller passes the number. Promise kept here: P131.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from datetime import timedelta
from typing import TYPE_CHECKING

from nottwice.durations import Duration, plain_seconds, read_duration
from nottwice.errors import InvalidTool, UsageError
from nottwice.model.data.records import frozen_record
from nottwice.model.failure import Failure, FailureClass


@frozen_record(frozen=True, slots=True)
class RetryPolicy:
    """How often and how soon a call is retried, over all processes (P131).

    ``attempts`` counts the attempts that ended with an error, including the first. ``reissues``
    limits how often a call in doubt is sent again because its process died; then a person is asked.
    A wait is a number of seconds or a duration, ``"500ms"`` or a timedelta.
    """

    attempts: int = 4
    _: KW_ONLY
    reissues: int = 10
    first_seconds: float = 0.5
    factor: float = 2.0
    most_seconds: float = 30.0
    most_retry_after_seconds: float = 300.0

    if TYPE_CHECKING:
        # A duration becomes a number when the policy is made, so the fields are numbers.
        def __init__(
            self,
            attempts: int = 4,
            *,
            reissues: int = 10,
            first_seconds: float | Duration = 0.5,
            factor: float = 2.0,
            most_seconds: float | Duration = 30.0,
            most_retry_after_seconds: float | Duration = 300.0,
        ) -> None: ...

    def __post_init__(self) -> None:
        if not _is_whole(self.attempts, least=1):
            self._refuse("attempts", "a whole number of at least 1; the first attempt counts")
        if not _is_whole(self.reissues, least=0):
            self._refuse("reissues", "a whole number of at least 0")
        for name in ("first_seconds", "most_seconds", "most_retry_after_seconds"):
            given: object = getattr(self, name)
            seconds = read_duration(given) if isinstance(given, str | timedelta) else given
            if not _is_number(seconds, least=0.0):
                self._refuse(name, "a number of at least 0, or a duration such as '30s'")
            object.__setattr__(self, name, seconds)
        if not _is_number(self.factor, least=1.0):
            self._refuse("factor", "a finite number of at least 1")
        if self.first_seconds > self.most_seconds:
            self._refuse("first_seconds", f"at most most_seconds, {self.most_seconds!r}")

    def _refuse(self, name: str, rule: str) -> None:
        raise InvalidTool(
            f"RetryPolicy({name}={getattr(self, name)!r}) is not possible, and no tool was "
            f"declared with it. Make {name} {rule}."
        )

    @property
    def longest_seconds(self) -> float:
        """The longest wait before a next attempt, whatever a clock says."""
        return max(self.most_seconds, self.most_retry_after_seconds)

    def why_not_again(
        self, failure: Failure | None, *, failed_attempts: int, lost_attempts: int = 0
    ) -> str:
        """Say why there is no automatic further attempt. Empty: there is one.

        A person or the caller may still ask for one. ``failure``: how the last attempt ended. None:
        its process died. This is the whole rule.
        """
        if lost_attempts > self.reissues:
            return f"its retry policy allows {self.reissues} reissues after a crash"
        if failed_attempts >= self.attempts:
            return f"its retry policy allows {self.attempts} attempts that end with an error"
        if failure is None:
            return ""
        if failure.failure_class is FailureClass.PERMANENT:
            return "its last error says that trying again cannot help"
        if (failure.retry_after_seconds or 0.0) > self.most_retry_after_seconds:
            # The wait is not cut short, because an early retry is just what the upstream forbids.
            return "its upstream asks for a longer wait than its retry policy allows"
        return ""

    def delay_seconds(
        self, failure: Failure | None, *, failed_attempts: int, random_unit: float
    ) -> float | None:
        """Return how long to wait after a failure. None: no further attempt is made.

        The delay is exponential and capped, with full jitter: ``random_unit``, from 0 to 1, picks a
        point between nothing and the cap, so that callers that failed together do not return
        together. Retry-After is a lower bound.
        """
        if failed_attempts < 1 or not 0.0 <= random_unit <= 1.0:
            raise UsageError(
                f"No delay follows from failed_attempts={failed_attempts!r} and "
                f"random_unit={random_unit!r}; nothing was scheduled. Pass at least 1 failed "
                "attempt and a number from 0 to 1."
            )
        if self.why_not_again(failure, failed_attempts=failed_attempts):
            return None
        floor = (failure.retry_after_seconds if failure is not None else None) or 0.0
        try:
            cap = self.first_seconds * float(self.factor) ** (failed_attempts - 1)
        except OverflowError:
            cap = self.most_seconds if self.first_seconds else 0.0
        return max(floor, random_unit * min(cap, self.most_seconds))


def _is_whole(value: object, *, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: object, *, least: float) -> bool:
    seconds = plain_seconds(value)
    return seconds is not None and seconds == value and seconds >= least


# Defined last, because a policy checks itself with the functions above.
NO_RETRY = RetryPolicy(attempts=1)
