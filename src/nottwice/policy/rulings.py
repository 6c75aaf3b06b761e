"""The four rulings, and charges that come with an allowed call."""

from __future__ import annotations

from nottwice.errors import UsageError
from nottwice.model.policy import Ruling, RulingKind, new_charge
from nottwice.model.tool import Duration


def allow() -> Ruling:
    """Allow the call."""
    return Ruling(RulingKind.ALLOW)


def deny(why: str) -> Ruling:
    """Do not make the call. The caller gets ``nt.errors.DeniedByPolicy`` with the reason and can
    continue with it. The call stays denied. ``tool.retry(...)`` asks the policy again."""
    return Ruling(RulingKind.DENY, _reason(why))


def ask(why: str) -> Ruling:
    """Let a person decide about this call. The run waits."""
    return Ruling(RulingKind.ASK, _reason(why))


def stop(why: str) -> Ruling:
    """Fail the run with ``nt.errors.RunStoppedByPolicy``. It sends nothing more."""
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
    """Allow the call and charge it to a meter that counts in the ledger.

    With ``at_most``, the call is allowed only if the meter, including this call, stays within that
    limit over the last ``per`` (``"1h"``; without it, over all time). ``otherwise`` is the ruling
    beyond the limit. A call that failed without effect does not count, unless ``if_failed``.
    """
    charged = new_charge(
        meter, amount, at_most=at_most, per=per, otherwise=otherwise, if_failed=if_failed
    )
    return Ruling(RulingKind.ALLOW, charges=(charged,))


def _reason(why: object) -> str:
    if not isinstance(why, str) or not why.strip():
        raise UsageError(f"A ruling needs a reason in words, not {why!r}.")
    return why
