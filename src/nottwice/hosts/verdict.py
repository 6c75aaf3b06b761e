"""What does a host do with an exception: call again later, wait for a person, or give up? (P302)

One table for every host. A host that gives up fails its workflow or its job permanently. So it
gives up only if calling again cannot help: the program is wrong, a tool failed permanently, its
failure is on record and stays there, or a person or a policy said no. While a person is asked, the
call stays pending, and is repeated from time to time.
"""

from __future__ import annotations

from typing import Literal

from nottwice import errors
from nottwice.engine.clock import SystemClock
from nottwice.model.data.records import frozen_record

What = Literal["later", "person", "give_up"]
SOON_SECONDS = 1.0
AWAY_SECONDS = 5.0
PERSON_SECONDS = 30.0
OPERATOR_SECONDS = 60.0


@frozen_record(frozen=True, slots=True)
class HostVerdict:
    """What a host does with an exception."""

    what: What
    """``later``: make the same call again, in ``retry_in`` seconds, without limit. ``person``: the
    same, and a person has to decide ``reviews`` first, or to repair the ledger. ``give_up``: fail,
    and do not call again."""
    retry_in: float | None
    """In how many seconds to call again. None: never."""
    reviews: tuple[str, ...] = ()
    """The reviews that a person has to decide."""
    reason: str = ""
    """The text of the exception."""


_LATER = {
    errors.RunBusy: SOON_SECONDS,
    errors.OwnershipLost: SOON_SECONDS,
    errors.RunWaits: SOON_SECONDS,
    errors.CommitUnknown: AWAY_SECONDS,
    errors.StoreError: AWAY_SECONDS,
    # Another process may have the version that the run or the ledger needs.
    errors.SchemaTooNew: OPERATOR_SECONDS,
    errors.VersionError: OPERATOR_SECONDS,
    errors.Retryable: SOON_SECONDS,
}
_PERSON = {
    errors.RunBlocked: PERSON_SECONDS,
    errors.LedgerCorrupt: OPERATOR_SECONDS,
    errors.NoLedger: OPERATOR_SECONDS,
    errors.LedgerDeleted: OPERATOR_SECONDS,
    errors.UnsafeFilesystem: OPERATOR_SECONDS,
    errors.KeyMissing: OPERATOR_SECONDS,
}
_GIVE_UP = (
    errors.NottwiceError,
    errors.UsageError,
    # A person has decided: there is nothing left to wait for.
    errors.RunAborted,
    errors.RunStoppedByPolicy,
    errors.ToolFailure,
    errors.DecisionConflict,
)
TABLE: dict[type[errors.NottwiceError], tuple[What, float | None]] = {
    **{kind: ("later", seconds) for kind, seconds in _LATER.items()},
    **{kind: ("person", seconds) for kind, seconds in _PERSON.items()},
    **dict.fromkeys(_GIVE_UP, ("give_up", None)),
}
"""What to do with each kind of exception, and its usual delay. A kind that is not listed is treated
as the kind above it."""


def verdict(error: BaseException, *, look_again: float = PERSON_SECONDS) -> HostVerdict | None:
    """Return what a host does with an exception. None: it is not one of nottwice.

    ``look_again``: after how many seconds a call that waits for a decision is repeated.
    An exception that is not nottwice's comes from the host itself or from code outside of tools:
    treat it as without nottwice.
    """
    if not isinstance(error, errors.NottwiceError):
        return None
    what, usual = next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)
    if usual is None or error.facts.get("non_retryable"):
        # The second: only ``tool.retry`` tries again; any other repeat gets the same failure.
        return HostVerdict("give_up", None, reason=str(error))
    known = _known_delay(error)
    if known is None and isinstance(error, errors.RunBlocked):
        known = look_again
    reviews = tuple(getattr(error, "review_ids", ()))
    return HostVerdict(what, usual if known is None else known, reviews, str(error))


def _known_delay(error: errors.NottwiceError) -> float | None:
    if error.retry_in is not None:
        return max(0.0, float(error.retry_in))
    if isinstance(error, errors.RunWaits) and error.until is not None:
        return max(0.0, error.until - SystemClock.now())
    return None
