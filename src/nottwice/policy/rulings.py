"""The four rulings, and charges that go with an allowance."""

from __future__ import annotations

from nottwice.errors import UsageError
from nottwice.model.policy import Ruling, RulingKind, new_charge
from nottwice.model.tool import Duration


def allow() -> Ruling:
    """The call may be made."""
    return Ruling(RulingKind.ALLOW)


def deny(why: str) -> Ruling:
    """The call is not made: its caller gets ``nt.Denied`` with the reason, as a result to go on
    with. It stays denied; ``tool.retry(...)`` asks again."""
    return Ruling(RulingKind.DENY, _reason(why))


def ask(why: str) -> Ruling:
    """A person decides about this very call; the run waits."""
    return Ruling(RulingKind.ASK, _reason(why))


def stop(why: str) -> Ruling:
    """The run fails with ``nt.RunDenied``, and nothing more is sent in it."""
    return Ruling(RulingKind.STOP, _reason(why))


def charge(
    meter: str,
    amount: object,
    *,
    at_most: object = None,
    per: Duration | None = None,
    otherwise: str = "deny",
    if_failed: bool = False,
) -> Ruling:
    """The call may be made, and is charged to a meter that counts in the ledger.

    With ``at_most``: only while the meter shows no more than that, this call included, looking back
    ``per`` (``"1h"``; without it, to the beginning); ``otherwise`` says what happens else. A call
    that failed without effect does not count, unless ``if_failed``.
    """
    charged = new_charge(
        meter, amount, at_most=at_most, per=per, otherwise=otherwise, if_failed=if_failed
    )
    return Ruling(RulingKind.ALLOW, charges=(charged,))


def _reason(why: object) -> str:
    if not isinstance(why, str) or not why.strip():
        raise UsageError(f"A ruling needs a reason in words, and {why!r} is none.")
    return why
