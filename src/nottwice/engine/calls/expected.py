"""When is a call not looked up before its intent is written?

An optimisation: it saves a read for each new effect. A run that makes new effects, one after the
other, need not look each of them up: the commit of an intent writes nothing if there is a row
already, and says so. The look is then taken after it. Nothing is decided here.
"""

from __future__ import annotations

from nottwice.engine.calls.requests import Request
from nottwice.model.decision import Facts, decide
from nottwice.model.replay_class import ReplayClass

# What the table says of a call that is not on record: the same for all calls of a class.
WITHOUT_ROW = {kind: decide(Facts(replay_class=kind, status=None)) for kind in ReplayClass}


def expects_no_row(request: Request) -> bool:
    """Whether to leave it to the commit of the intent to find out that the call is new.

    Only for effects, whose intent is committed first, and only where nothing else depends on the
    answer: what a resumed step still holds must be known before a new effect is admitted.
    """
    session, tool = request.scope.session, request.tool
    if not session.expects_new or request.retry or not tool.replay_class.records_intent:
        return False
    held = session.policies or session.stops or session.run.origin is not None
    if tool.approve or request.ask is not None or held:
        # A new effect may be refused, or a person asked about it; a receipt is handed out.
        return False
    open_steps = request.scope.steps
    return not open_steps or not any(state.may_refuse for state in open_steps)
