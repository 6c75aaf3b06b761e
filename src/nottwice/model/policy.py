"""What a policy sees before a call is made, and what it can answer (L9).

A policy allows a call, denies it, asks a person, or stops the run. It may charge the call to meters
in the ledger, which count how often or how much. A charge becomes durable with the intent of its
call, or not at all, so no restart and no second worker forgets or exceeds it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import field
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any

from nottwice.errors import UsageError
from nottwice.model.call import CallIdentity, check_id
from nottwice.model.data.records import frozen_record
from nottwice.model.replay_class import ReplayClass
from nottwice.model.tool import Duration, parse_duration

MOST_AMOUNT = 10**12
_MILLIONTHS = 1_000_000


class RulingKind(enum.Enum):
    """What a policy can answer."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"
    STOP = "stop"


_STRICTNESS = {kind: number for number, kind in enumerate(RulingKind)}


@frozen_record(frozen=True, slots=True, kw_only=True)
class Charge:
    """An amount for a meter to count, and the limit of that meter."""

    meter: str
    amount: int
    """In millionths, like every counted amount, so that sums are exact."""
    at_most: int | None = None
    """None: the amount is only counted."""
    window_seconds: float | None = None
    """How far back the limit looks. None: to the beginning of the ledger."""
    otherwise: RulingKind = RulingKind.DENY
    """The ruling for a call that exceeds the limit of the meter."""
    if_failed: bool = False
    """Whether a call that failed without effect still counts."""


@frozen_record(frozen=True, slots=True)
class Ruling:
    """What a policy says about one call. Made by ``policy.allow``, ``policy.deny`` and so on."""

    kind: RulingKind
    why: str = ""
    charges: tuple[Charge, ...] = ()


@frozen_record(frozen=True, slots=True)
class ChargeRecord:
    """What a call was charged to a meter, as the ledger keeps it."""

    meter: str
    identity: CallIdentity
    call_id: str
    at: float
    amount: int
    if_failed: bool = False


ReadMeter = Callable[[str, float | None], int]


@frozen_record(frozen=True, slots=True, kw_only=True)
class ProposedCall:
    """A call that is about to be made: everything that a policy sees of it."""

    tool: str
    replay_class: str
    tags: tuple[str, ...]
    rate_class: str | None
    arguments: dict[str, Any]
    """The recorded arguments, defaults included. This is a copy; changing it has no effect."""
    run_id: str
    step: str
    """The step or node that makes the call; ``/`` outside of any."""
    call_id: str
    label: str | None
    """The label of a deliberate repeat."""
    key: str | None
    read_meter: ReadMeter = field(repr=False, compare=False)

    @property
    def effectful(self) -> bool:
        """Whether it would change the world."""
        return ReplayClass(self.replay_class).effectful

    def charged(self, meter: str, *, per: Duration | None = None) -> float:
        """Return what all runs of the ledger have charged to a meter so far.

        ``per``: how far back to look, ``"1h"`` for example. None: to the beginning.
        """
        seconds = None if per is None else parse_duration(per, what="per")
        return self.read_meter(meter, seconds) / _MILLIONTHS


def strictest(rulings: Iterable[RulingKind]) -> RulingKind:
    """Return the strictest of several rulings."""
    return max(rulings, key=_STRICTNESS.__getitem__, default=RulingKind.ALLOW)


def read_kind(word: object, *, what: str) -> RulingKind:
    """Read what a ready-made policy answers, from ``"deny"`` and so on."""
    try:
        return RulingKind(word)
    except ValueError:
        known = ", ".join(repr(kind.value) for kind in RulingKind)
        raise UsageError(f"{what}={word!r} is not a ruling. Use {known}.") from None


def new_charge(
    meter: str,
    amount: object,
    *,
    at_most: object = None,
    per: Duration | None = None,
    otherwise: object = "deny",
    if_failed: bool = False,
) -> Charge:
    """Return a charge of a plain number. Raises UsageError if it cannot be counted."""
    return Charge(
        meter=check_id(meter, what="The name of a meter"),
        amount=in_millionths(amount, what=f"The amount for meter {meter!r}"),
        at_most=None if at_most is None else in_millionths(at_most, what="at_most"),
        window_seconds=None if per is None else parse_duration(per, what="per"),
        otherwise=read_kind(otherwise, what="otherwise"),
        if_failed=if_failed,
    )


def in_millionths(amount: object, *, what: str) -> int:
    """Return an amount in millionths, rounded up. Text is accepted, as decimals are recorded."""
    if isinstance(amount, bool) or not isinstance(amount, int | float | str | Decimal):
        raise UsageError(f"{what} must be a number, and {amount!r} is not.")
    try:
        # An integer of thousands of digits cannot be written as text, but Decimal accepts it.
        exact = Decimal(amount) if isinstance(amount, int) else Decimal(str(amount))
        if not exact.is_finite() or not 0 <= exact <= MOST_AMOUNT:
            raise UsageError(f"{what} must be from 0 to {MOST_AMOUNT}, and is {exact:.6g}.")
    except InvalidOperation:
        raise UsageError(f"{what} must be a number, and {amount!r} is not.") from None
    return int((exact * _MILLIONTHS).to_integral_value(rounding=ROUND_CEILING))


def shown_amount(amount: int) -> str:
    """Return millionths as a person would write the number."""
    return f"{Decimal(amount) / _MILLIONTHS:f}"
