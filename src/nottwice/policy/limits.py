"""How often, and how much? Limits that count in the ledger, across runs, restarts and workers.

A charge is written by the commit that records the intent, and only if it fits the limit. So neither
two concurrent workers nor a crash loop can exceed a limit (P82).
"""

from __future__ import annotations

import hashlib
from typing import Any

from nottwice.errors import UsageError
from nottwice.model.call import MAX_ID_CHARACTERS
from nottwice.model.data.records import frozen_record
from nottwice.model.policy import (
    ProposedCall,
    Ruling,
    RulingKind,
    in_millionths,
    new_charge,
    read_kind,
)
from nottwice.model.tool import Duration, parse_duration
from nottwice.policy.choosing import Choosing


def rate(
    at_most: int,
    *,
    per: Duration,
    tool: str | None = None,
    tag: str | None = None,
    rate_class: str | None = None,
    each_run: bool = False,
    otherwise: str = "deny",
) -> Rate:
    """Allow at most this many calls per window: ``rate(10, per="1h", rate_class="mail")``.

    Counts calls, not attempts, whether they succeed or not, across all runs of the ledger or, with
    ``each_run``, per run. ``otherwise`` is the ruling beyond the limit: deny, ask or stop.
    """
    if isinstance(at_most, bool) or not isinstance(at_most, int):
        raise UsageError(f"rate(at_most={at_most!r}) must be a whole number of calls.")
    choosing = Choosing(tool=tool, tag=tag, rate_class=rate_class)
    return Rate(choosing, at_most, per, each_run, otherwise)


def spend(
    argument: str,
    at_most: object,
    *,
    per: Duration | None = None,
    tool: str | None = None,
    tag: str | None = None,
    rate_class: str | None = None,
    each_run: bool = False,
    otherwise: str = "deny",
) -> Spend:
    """Limit the sum of an argument: ``spend("cents", 500_00, per="24h", tag="money")``.

    Adds up the argument over all calls, except those that failed without effect. A dot reaches into
    an argument (``"order.total"``). Without ``per`` the sum never resets. A call whose argument is
    missing, negative or not a number is denied.
    """
    choosing = Choosing(tool=tool, tag=tag, rate_class=rate_class)
    choosing.check_named(f"spend({argument!r})")
    return Spend(choosing, argument, at_most, per, each_run, otherwise)


@frozen_record(frozen=True, slots=True)
class Rate:
    """A limit on the number of calls per window."""

    choosing: Choosing
    at_most: int
    per: Duration
    each_run: bool
    otherwise: str

    def __post_init__(self) -> None:
        parse_duration(self.per, what="per")
        in_millionths(self.at_most, what="at_most")
        _check_otherwise(self.otherwise)

    def __call__(self, call: ProposedCall) -> Ruling:
        if not self.choosing.chooses(call):
            return Ruling(RulingKind.ALLOW)
        charge = new_charge(
            _meter(f"calls {self.choosing}", call, each_run=self.each_run),
            1,
            at_most=self.at_most,
            per=self.per,
            otherwise=self.otherwise,
            if_failed=True,
        )
        return Ruling(RulingKind.ALLOW, charges=(charge,))

    def __str__(self) -> str:
        return f"rate({self.at_most}, per={self.per!r}, {self.choosing})"


@frozen_record(frozen=True, slots=True)
class Spend:
    """A limit on the sum of an argument."""

    choosing: Choosing
    argument: str
    at_most: object
    per: Duration | None
    each_run: bool
    otherwise: str

    def __post_init__(self) -> None:
        if not isinstance(self.argument, str) or not self.argument:
            raise UsageError(f"spend({self.argument!r}) must name an argument of the calls.")
        if self.per is not None:
            parse_duration(self.per, what="per")
        in_millionths(self.at_most, what="at_most")
        _check_otherwise(self.otherwise)

    def __call__(self, call: ProposedCall) -> Ruling:
        if not self.choosing.chooses(call):
            return Ruling(RulingKind.ALLOW)
        try:
            charge = new_charge(
                _meter(f"{self.argument} {self.choosing}", call, each_run=self.each_run),
                _find(call.arguments, self.argument),
                at_most=self.at_most,
                per=self.per,
                otherwise=self.otherwise,
            )
        except UsageError as error:
            return Ruling(RulingKind.DENY, f"its amount cannot be determined: {error.message}")
        return Ruling(RulingKind.ALLOW, charges=(charge,))

    def __str__(self) -> str:
        per = "" if self.per is None else f", per={self.per!r}"
        return f"spend({self.argument!r}, {self.at_most}{per}, {self.choosing})"


def _meter(what: str, call: ProposedCall, *, each_run: bool) -> str:
    """Return the name of a meter, without its limit, so that raising the limit keeps the count."""
    if not each_run:
        return what
    named = f"{what} of run {call.run_id}"
    if len(named) <= MAX_ID_CHARACTERS:
        return named
    return f"{what} of run {hashlib.sha256(call.run_id.encode()).hexdigest()}"


def _find(arguments: dict[str, Any], path: str) -> Any:
    found: Any = arguments
    for name in path.split("."):
        if not isinstance(found, dict) or name not in found:
            raise UsageError(f"it has no argument {path!r}.")
        found = found[name]
    return found


def _check_otherwise(word: str) -> None:
    if read_kind(word, what="otherwise") is RulingKind.ALLOW:
        raise UsageError("A limit with otherwise='allow' would have no effect. Nothing happened.")
