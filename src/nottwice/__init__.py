"""nottwice makes AI agents safe to kill: each effect happens once, whatever dies in between.

import nottwice as nt

@nt.tool("unsafe_on_replay")
def refund(order_id: int, cents: int) -> dict: ...

with nt.run("ticket-7", store="agent.db"):
    refund(order_id=7, cents=4000)

The names that most programs need are here. The rest is in ``nt.errors``, ``nt.agent``,
``nt.adapters``, ``nt.providers``, ``nt.policy``, ``nt.recipes``, ``nt.versions``, ``nt.events``,
``nt.testing`` and ``nt.types``. A name is imported when it is first used, so a program loads only
the modules that it needs (P226).
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # For editors and type checkers, which do not run ``__getattr__``. A test compares the two.
    from nottwice import adapters as adapters
    from nottwice import agent as agent
    from nottwice import celery as celery
    from nottwice import dbos as dbos
    from nottwice import errors as errors
    from nottwice import events as events
    from nottwice import hosts as hosts
    from nottwice import metrics as metrics
    from nottwice import otel as otel
    from nottwice import policy as policy
    from nottwice import recipes as recipes
    from nottwice import restate as restate
    from nottwice import temporal as temporal
    from nottwice import testing as testing
    from nottwice import types as types
    from nottwice import versions as versions
    from nottwice.agent import providers as providers
    from nottwice.agent.budget import Budget
    from nottwice.agent.declare import Agent
    from nottwice.errors import (
        Ambiguous,
        NottwiceError,
        Permanent,
        Retryable,
        RunBlocked,
        RunBusy,
        RunWaits,
        ToolFailure,
    )
    from nottwice.graphs.app import App
    from nottwice.graphs.children import aspawn, spawn
    from nottwice.graphs.declare import Graph
    from nottwice.graphs.outcome import Outcome
    from nottwice.graphs.phases import phases
    from nottwice.graphs.state import goto
    from nottwice.guard.arguments.secrets import Secret
    from nottwice.guard.attached.attach import attach
    from nottwice.guard.declare import tool
    from nottwice.guard.ledger import Ledger, run, send
    from nottwice.guard.recorded import now, random, recorded, uuid
    from nottwice.guard.request import key_per_call
    from nottwice.guard.scopes import current_call, gather, step
    from nottwice.guard.scopes import map as map
    from nottwice.guard.upkeep.backup import backup
    from nottwice.guard.upkeep.retention import remove_expired
    from nottwice.guard.waiting import ask, receive, sleep
    from nottwice.model.call import Call
    from nottwice.model.failure import single_request
    from nottwice.model.graphs.graph import END
    from nottwice.model.retry import RetryPolicy
    from nottwice.model.runs.limits import Limit
    from nottwice.model.runs.retention import Retention
    from nottwice.model.tool import (
        Verification,
        cannot_tell,
        did_not_happen,
        happened,
        still_running,
    )
    from nottwice.notify.settings import Notify
    from nottwice.reviews.inbox import Reviews
    from nottwice.worker.worker import Worker


# ``map`` is missing on purpose: ``from nottwice import *`` must not replace a builtin.
__all__ = [
    "END",
    "Agent",
    "Ambiguous",
    "App",
    "Budget",
    "Call",
    "Graph",
    "Ledger",
    "Limit",
    "Notify",
    "NottwiceError",
    "Outcome",
    "Permanent",
    "Retention",
    "RetryPolicy",
    "Retryable",
    "Reviews",
    "RunBlocked",
    "RunBusy",
    "RunWaits",
    "Secret",
    "ToolFailure",
    "Verification",
    "Worker",
    "ask",
    "aspawn",
    "attach",
    "backup",
    "cannot_tell",
    "current_call",
    "did_not_happen",
    "gather",
    "goto",
    "happened",
    "key_per_call",
    "now",
    "phases",
    "random",
    "receive",
    "recorded",
    "remove_expired",
    "run",
    "send",
    "single_request",
    "sleep",
    "spawn",
    "step",
    "still_running",
    "tool",
    "uuid",
]

_NAMES = {
    "nottwice.agent.budget": ("Budget",),
    "nottwice.agent.declare": ("Agent",),
    "nottwice.errors": (
        "Ambiguous",
        "NottwiceError",
        "Permanent",
        "Retryable",
        "RunBlocked",
        "RunBusy",
        "RunWaits",
        "ToolFailure",
    ),
    "nottwice.graphs.app": ("App",),
    "nottwice.graphs.children": ("aspawn", "spawn"),
    "nottwice.graphs.declare": ("Graph",),
    "nottwice.graphs.outcome": ("Outcome",),
    "nottwice.graphs.phases": ("phases",),
    "nottwice.graphs.state": ("goto",),
    "nottwice.guard.attached.attach": ("attach",),
    "nottwice.guard.upkeep.backup": ("backup",),
    "nottwice.guard.declare": ("tool",),
    "nottwice.guard.ledger": ("Ledger", "run", "send"),
    "nottwice.guard.recorded": ("now", "random", "recorded", "uuid"),
    "nottwice.guard.request": ("key_per_call",),
    "nottwice.guard.upkeep.retention": ("remove_expired",),
    "nottwice.guard.scopes": ("current_call", "gather", "map", "step"),
    "nottwice.guard.arguments.secrets": ("Secret",),
    "nottwice.guard.waiting": ("ask", "receive", "sleep"),
    "nottwice.model.call": ("Call",),
    "nottwice.model.failure": ("single_request",),
    "nottwice.model.retry": ("RetryPolicy",),
    "nottwice.model.graphs.graph": ("END",),
    "nottwice.model.runs.limits": ("Limit",),
    "nottwice.model.runs.retention": ("Retention",),
    "nottwice.model.tool": (
        "Verification",
        "cannot_tell",
        "did_not_happen",
        "happened",
        "still_running",
    ),
    "nottwice.notify.settings": ("Notify",),
    "nottwice.reviews.inbox": ("Reviews",),
    "nottwice.worker.worker": ("Worker",),
}
"""Where each name is defined."""
_ROOMS = {
    "adapters": "nottwice.adapters",
    "agent": "nottwice.agent",
    "celery": "nottwice.celery",
    "dbos": "nottwice.dbos",
    "errors": "nottwice.errors",
    "events": "nottwice.events",
    "hosts": "nottwice.hosts",
    "metrics": "nottwice.metrics",
    "otel": "nottwice.otel",
    "policy": "nottwice.policy",
    "providers": "nottwice.agent.providers",
    "recipes": "nottwice.recipes",
    "restate": "nottwice.restate",
    "temporal": "nottwice.temporal",
    "testing": "nottwice.testing",
    "types": "nottwice.types",
    "versions": "nottwice.versions",
}
"""Modules with the names that fewer programs need."""
_HOME = {name: module for module, names in _NAMES.items() for name in names}


if not TYPE_CHECKING:
    # Hidden from type checkers, which would otherwise accept every name, even a misspelt one.

    def __getattr__(name: str) -> Any:
        found: Any
        if name in _ROOMS:
            found = importlib.import_module(_ROOMS[name])
        elif name in _HOME:
            found = getattr(importlib.import_module(_HOME[name]), name)
        else:
            raise AttributeError(f"module 'nottwice' has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_HOME, *_ROOMS})
