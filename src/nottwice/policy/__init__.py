"""Who may make which call: what a policy says, and policies that are ready to use (L9).

A policy is a function that is shown a call before it is made. It returns one of four rulings::

    from nottwice import policy

    def at_night(call: policy.ProposedCall) -> policy.Ruling:
        if call.tool == "deploy" and night():
            return policy.deny("nobody is there to look at it")
        return policy.allow()

Name it when a ledger, an app or a run is opened: ``nt.open("agent.db", policy=at_night)``. Several
are a list, of which the strictest counts.
"""

from __future__ import annotations

from nottwice.model.policy import ProposedCall, Ruling
from nottwice.policy.limits import rate, spend
from nottwice.policy.lists import by_tag, only
from nottwice.policy.rulings import allow, ask, charge, deny, stop

__all__ = [
    "ProposedCall",
    "Ruling",
    "allow",
    "ask",
    "by_tag",
    "charge",
    "deny",
    "only",
    "rate",
    "spend",
    "stop",
]
