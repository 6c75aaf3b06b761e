"""nottwice makes AI agents safe to kill: each effect happens once, whatever dies in between.

import nottwice as nt

@nt.tool("unsafe_on_replay")
def refund(order_id: int, cents: int) -> dict: ...

with nt.run("ticket-7", store="agent.db"):
    refund(order_id=7, cents=4000)

What most programs type is here. The rest is in ``nt.errors``, ``nt.agent``, ``nt.providers``,
``nt.policy``, ``nt.recipes``, ``nt.versions``, ``nt.events``, ``nt.testing`` and ``nt.types``.
A name is imported when it is first used, so a program loads only the rooms that it works with
(P226).
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # For editors and type checkers, which do not run ``__getattr__``. A test compares the two.
    from nottwice import agent as agent
    from nottwice import errors as errors
    from nottwice import events as events
    from nottwice import policy as policy
    from nottwice import recipes as recipes
    from nottwice import testing as testing
    from nottwice import types as types
    from nottwice import versions as versions
    from nottwice.agent import providers as providers
    from nottwice.agent.budget import Budget
    from nottwice.agent.declare import Agent
    from nottwice.errors import (
        Ambiguous,
        NottwiceError,
        Poison,
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
    from nottwice.graphs.state import go
    from nottwice.guard.arguments.secrets import Secret
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
    from nottwice.model.retention import Retention
    from nottwice.model.retry import RetryPolicy
    from nottwice.model.tool import Verification, did_not_happen, happened, still_running, unknown
    from nottwice.reviews.inbox import Reviews
    from nottwice.worker.worker import Worker

    # Until the rename: old places.
    # isort: off
    from nottwice.agent import (
        Context as Context,
        File as File,
        Price as Price,
        RunState as RunState,
        Scratchpad as Scratchpad,
    )
    from nottwice.errors import (
        ApprovalNeeded as ApprovalNeeded,
        BudgetSpent as BudgetSpent,
        ChildFailed as ChildFailed,
        CommitUnknown as CommitUnknown,
        ConditionUnknown as ConditionUnknown,
        ContextTooLong as ContextTooLong,
        DecisionConflict as DecisionConflict,
        Denied as Denied,
        EventTimeout as EventTimeout,
        Fenced as Fenced,
        FileChanged as FileChanged,
        GraphChangedInPlace as GraphChangedInPlace,
        InvalidArguments as InvalidArguments,
        InvalidGraph as InvalidGraph,
        InvalidId as InvalidId,
        InvalidKey as InvalidKey,
        InvalidTool as InvalidTool,
        KeyConflict as KeyConflict,
        KeyMissing as KeyMissing,
        LedgerCorrupt as LedgerCorrupt,
        LedgerDeleted as LedgerDeleted,
        LedgerTampered as LedgerTampered,
        MigrationRefused as MigrationRefused,
        NewEffectInFork as NewEffectInFork,
        NoLedger as NoLedger,
        NotInRun as NotInRun,
        NotPermitted as NotPermitted,
        NotPlainData as NotPlainData,
        PolicyFailed as PolicyFailed,
        QuestionOpen as QuestionOpen,
        Refused as Refused,
        Rejected as Rejected,
        ReplayDriftError as ReplayDriftError,
        ReplayUnsafeError as ReplayUnsafeError,
        ResultNotKept as ResultNotKept,
        RunAborted as RunAborted,
        RunDenied as RunDenied,
        RunRemoved as RunRemoved,
        SchemaTooNew as SchemaTooNew,
        SelfWait as SelfWait,
        StoreError as StoreError,
        UnclassifiedTool as UnclassifiedTool,
        UndeclaredEffect as UndeclaredEffect,
        UnknownReview as UnknownReview,
        UnknownRun as UnknownRun,
        UnmappedNode as UnmappedNode,
        UnsafeFilesystem as UnsafeFilesystem,
        UsageError as UsageError,
        VersionError as VersionError,
        WorkDuringImport as WorkDuringImport,
        WorkflowVersionMismatch as WorkflowVersionMismatch,
    )
    from nottwice.types import (
        Migration as Migration,
        Receipt as Receipt,
        RecordedCall as RecordedCall,
        RecordedRun as RecordedRun,
        Removed as Removed,
        Run as Run,
        Tally as Tally,
    )
    from nottwice.versions import (
        migrate as migrate,
        migrate_all as migrate_all,
    )
    from nottwice.guard.ledger import open_ledger

    open = open_ledger
    # isort: on
    # End of the old places.

# Without ``map``: ``from nottwice import *`` must not replace a builtin. ``nt.map`` is there.
__all__ = [
    "END",
    "Agent",
    "Ambiguous",
    "App",
    "Budget",
    "Call",
    "Graph",
    "Ledger",
    "NottwiceError",
    "Outcome",
    "Poison",
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
    "backup",
    "current_call",
    "did_not_happen",
    "gather",
    "go",
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
    "unknown",
    "uuid",
]

_NAMES = {
    "nottwice.agent.budget": ("Budget",),
    "nottwice.agent.declare": ("Agent",),
    "nottwice.errors": (
        "Ambiguous",
        "NottwiceError",
        "Poison",
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
    "nottwice.graphs.state": ("go",),
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
    "nottwice.model.retention": ("Retention",),
    "nottwice.model.tool": (
        "Verification",
        "did_not_happen",
        "happened",
        "still_running",
        "unknown",
    ),
    "nottwice.reviews.inbox": ("Reviews",),
    "nottwice.worker.worker": ("Worker",),
}
"""Where each name is defined."""
_ROOMS = {
    "agent": "nottwice.agent",
    "errors": "nottwice.errors",
    "events": "nottwice.events",
    "policy": "nottwice.policy",
    "providers": "nottwice.agent.providers",
    "recipes": "nottwice.recipes",
    "testing": "nottwice.testing",
    "types": "nottwice.types",
    "versions": "nottwice.versions",
}
"""Modules that hold the names which fewer programs need."""
_HOME = {name: module for module, names in _NAMES.items() for name in names}

# Until the rename: old places.
_MOVED = {
    "nottwice.agent": (
        "Context",
        "File",
        "Price",
        "RunState",
        "Scratchpad",
    ),
    "nottwice.errors": (
        "ApprovalNeeded",
        "BudgetSpent",
        "ChildFailed",
        "CommitUnknown",
        "ConditionUnknown",
        "ContextTooLong",
        "DecisionConflict",
        "Denied",
        "EventTimeout",
        "Fenced",
        "FileChanged",
        "GraphChangedInPlace",
        "InvalidArguments",
        "InvalidGraph",
        "InvalidId",
        "InvalidKey",
        "InvalidTool",
        "KeyConflict",
        "KeyMissing",
        "LedgerCorrupt",
        "LedgerDeleted",
        "LedgerTampered",
        "MigrationRefused",
        "NewEffectInFork",
        "NoLedger",
        "NotInRun",
        "NotPermitted",
        "NotPlainData",
        "PolicyFailed",
        "QuestionOpen",
        "Refused",
        "Rejected",
        "ReplayDriftError",
        "ReplayUnsafeError",
        "ResultNotKept",
        "RunAborted",
        "RunDenied",
        "RunRemoved",
        "SchemaTooNew",
        "SelfWait",
        "StoreError",
        "UnclassifiedTool",
        "UndeclaredEffect",
        "UnknownReview",
        "UnknownRun",
        "UnmappedNode",
        "UnsafeFilesystem",
        "UsageError",
        "VersionError",
        "WorkDuringImport",
        "WorkflowVersionMismatch",
    ),
    "nottwice.types": (
        "Migration",
        "Receipt",
        "RecordedCall",
        "RecordedRun",
        "Removed",
        "Run",
        "Tally",
    ),
    "nottwice.versions": (
        "migrate",
        "migrate_all",
    ),
}
_HOME.update({name: module for module, names in _MOVED.items() for name in names})
# End of the old places.


if not TYPE_CHECKING:
    # Type checkers would take every name, also a misspelt one, for one of ours.

    def __getattr__(name: str) -> Any:
        found: Any
        if name in _ROOMS:
            found = importlib.import_module(_ROOMS[name])
        elif name in _HOME:
            found = getattr(importlib.import_module(_HOME[name]), name)
        # Until the rename: old places.
        elif name == "open":
            found = importlib.import_module("nottwice.guard.ledger").open_ledger
        # End of the old places.
        else:
            raise AttributeError(f"module 'nottwice' has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_HOME, *_ROOMS})
