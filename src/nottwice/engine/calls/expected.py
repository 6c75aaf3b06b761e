"""When is a call not looked up before its intent is written?

This optimisation saves one read per new effect. While a run makes one new effect after another, it
need not look each of them up: if there is a row already, the commit of the intent writes nothing
and says so. The call is then looked up. Nothing is decided here.
"""

from __future__ import annotations

from nottwice.engine.calls.requests import Request
from nottwice.model.decision import Facts, decide
from nottwice.model.replay_class import ReplayClass

# The decision for a call that is not on record is the same for all calls of a class.
WITHOUT_ROW = {kind: decide(Facts(replay_class=kind, status=None)) for kind in ReplayClass}


def expects_no_row(request: Request) -> bool:
    """Whether the commit of the intent may find out that the call is new.

    Only effects qualify, because their intent is committed first, and only if nothing else depends
    on the answer. What a resumed step still holds must be known before a new effect is admitted.
    """
    session, tool = request.scope.session, request.tool
    if not session.expects_new or request.retry or not tool.replay_class.records_intent:
        return False
    held = session.host.policies or session.stops or session.run.origin is not None
    if tool.approve or request.ask is not None or held:
        # A new effect may be refused or need a person, while a receipt is simply returned.
        return False
    open_steps = request.scope.steps
    return not open_steps or not any(state.may_refuse for state in open_steps)
