"""Policies: who may make which call, and policies that are ready to use (L9).

A policy is a function that receives a call before it is made. It returns one of four rulings::

    from nottwice import policy

    def at_night(call: policy.ProposedCall) -> policy.Ruling:
        if call.tool == "deploy" and night():
            return policy.deny("no person watches it at night")
        return policy.allow()

Pass it when you open a ledger, an app or a run: ``nt.Ledger("agent.db", policy=at_night)``. Pass a
list for several. The strictest ruling counts.
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
