"""What a policy is shown before a call is made, and what it can say about it (L9).

A policy allows a call, denies it, asks a person, or stops the run. It may charge the call to
meters, which count in the ledger: how often, how much. A charge becomes durable with the intent of
its call, or not at all, so no restart and no second worker forgets or exceeds it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import field
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any

from nottwice.errors import UsageError
from nottwice.model.call import CallIdentity, check_id
from nottwice.model.records import frozen_record
from nottwice.model.replay_class import ReplayClass
from nottwice.model.tool import Duration, parse_duration

MOST_AMOUNT = 10**12
_MILLIONTHS = 1_000_000


class RulingKind(enum.Enum):
    """What a policy can say."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"
    STOP = "stop"


_STRICTNESS = {kind: number for number, kind in enumerate(RulingKind)}


@frozen_record(frozen=True, slots=True, kw_only=True)
class Charge:
    """An amount to be counted by a meter, and how much the meter may show with it."""

    meter: str
    amount: int
    """In millionths, as everything that is counted: sums of them are exact."""
    at_most: int | None = None
    """None: it is only counted."""
    window_seconds: float | None = None
    """How far back the limit looks; None: to the beginning of the ledger."""
    otherwise: RulingKind = RulingKind.DENY
    """What is said of a call for which the meter has no room."""
    if_failed: bool = False
    """Whether a call still counts that failed without effect."""


@frozen_record(frozen=True, slots=True)
class Ruling:
    """What a policy says about one call; made by ``policy.allow``, ``policy.deny`` and so on."""

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
    """A call that somebody wants to make: all that a policy sees of it."""

    tool: str
    replay_class: str
    tags: tuple[str, ...]
    rate_class: str | None
    arguments: dict[str, Any]
    """As they are recorded, defaults included; a copy, so changing them changes nothing."""
    run_id: str
    step: str
    """The step or node in which it is asked for; ``/`` outside of any."""
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
        """What was charged to a meter so far, by all runs of the ledger: the cost so far.

        ``per``: how far back to look, ``"1h"`` for example; None: to the beginning.
        """
        seconds = None if per is None else parse_duration(per, what="per")
        return self.read_meter(meter, seconds) / _MILLIONTHS


def strictest(rulings: Iterable[RulingKind]) -> RulingKind:
    """What several policies say together: the strictest of what each says."""
    return max(rulings, key=_STRICTNESS.__getitem__, default=RulingKind.ALLOW)


def read_kind(word: object, *, what: str) -> RulingKind:
    """What a ready-made policy is to say, from ``"deny"`` and so on."""
    try:
        return RulingKind(word)
    except ValueError:
        known = ", ".join(repr(kind.value) for kind in RulingKind)
        raise UsageError(f"{what}={word!r} is nothing a policy can say. Use {known}.") from None


def new_charge(
    meter: str,
    amount: object,
    *,
    at_most: object = None,
    per: Duration | None = None,
    otherwise: object = "deny",
    if_failed: bool = False,
) -> Charge:
    """A charge of a plain number; UsageError if it cannot be counted."""
    return Charge(
        meter=check_id(meter, what="The name of a meter"),
        amount=in_millionths(amount, what=f"The amount for meter {meter!r}"),
        at_most=None if at_most is None else in_millionths(at_most, what="at_most"),
        window_seconds=None if per is None else parse_duration(per, what="per"),
        otherwise=read_kind(otherwise, what="otherwise"),
        if_failed=if_failed,
    )


def in_millionths(amount: object, *, what: str) -> int:
    """An amount as it is counted, rounded up; money may come as text, as decimals are recorded."""
    if isinstance(amount, bool) or not isinstance(amount, int | float | str | Decimal):
        raise UsageError(f"{what} must be a number, and {amount!r} is none.")
    try:
        # A number of thousands of digits cannot even be written; Decimal takes it as it is.
        exact = Decimal(amount) if isinstance(amount, int) else Decimal(str(amount))
        if not exact.is_finite() or not 0 <= exact <= MOST_AMOUNT:
            raise UsageError(f"{what} must be from 0 to {MOST_AMOUNT}, and is {exact:.6g}.")
    except InvalidOperation:
        raise UsageError(f"{what} must be a number, and {amount!r} is none.") from None
    return int((exact * _MILLIONTHS).to_integral_value(rounding=ROUND_CEILING))


def shown_amount(amount: int) -> str:
    """Millionths as a person writes the number."""
    return f"{Decimal(amount) / _MILLIONTHS:f}"
