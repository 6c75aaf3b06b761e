"""May an agent hand a task to a worker? The policies are asked, with the worker's name.

A model calls a worker like a tool, so a policy that lists the allowed tools must list workers, too.
It is asked once, before the worker's run starts, and never about a run that has started. The
worker's own calls are checked in its own run. Promise kept here: P237.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from nottwice.agent.messages import ToolCall
from nottwice.engine.asks import Doing
from nottwice.engine.calls.dispatch import perform
from nottwice.engine.session import Scope
from nottwice.graphs.children import child_identity, child_run_id
from nottwice.graphs.declare import Graph
from nottwice.graphs.running import load
from nottwice.guard.recorded import own_tool, request_for
from nottwice.model.tool import Tool


def admit(place: Scope, worker: Graph[Any], call: ToolCall) -> Doing[None]:
    """Ask the policies of the run. Raises what their ruling requires.

    Durable: a denial, or the review about it, when it raises.
    """
    session = place.session
    if not session.host.policies:
        return
    told = {"goal": call.arguments["goal"]}
    identity = child_identity(place, worker, told, None)
    begun = yield load(child_run_id(session.run_id, identity))
    if begun is None:
        tool = dataclasses.replace(_HANDING, name=worker.name)
        yield from perform(request_for(place, tool, told), None)


def _nothing() -> None:
    """Handing over does no work: the worker's run does it."""


_HANDING: Tool = own_tool("handing", _nothing, Any, what="that a task may be handed over")
