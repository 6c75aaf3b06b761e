"""nottwice makes AI agents safe to kill: each effect happens once, whatever dies in between.

import nottwice as nt

@nt.tool("unsafe_on_replay")
def refund(order_id: int, cents: int) -> dict: ...

with nt.run("ticket-7", store="agent.db"):
    refund(order_id=7, cents=4000)
"""

import importlib
from typing import TYPE_CHECKING, Any

from nottwice.agent import providers
from nottwice.agent.budget import Budget
from nottwice.agent.context import Context
from nottwice.agent.declare import Agent
from nottwice.agent.files import File
from nottwice.agent.provider import Price
from nottwice.agent.scratchpad import Scratchpad
from nottwice.agent.state import RunState
from nottwice.engine.calls.requests import Receipt
from nottwice.engine.upkeep.retention import Removed
from nottwice.errors import (
    Ambiguous,
    ApprovalNeeded,
    BudgetSpent,
    ChildFailed,
    CommitUnknown,
    ContextTooLong,
    DecisionConflict,
    Denied,
    EventTimeout,
    Fenced,
    FileChanged,
    GraphChangedInPlace,
    InvalidArguments,
    InvalidGraph,
    InvalidId,
    InvalidKey,
    InvalidTool,
    KeyConflict,
    KeyMissing,
    LedgerCorrupt,
    LedgerDeleted,
    LedgerTampered,
    MigrationRefused,
    NewEffectInFork,
    NoLedger,
    NotInRun,
    NotPermitted,
    NotPlainData,
    NottwiceError,
    Poison,
    PolicyFailed,
    QuestionOpen,
    Refused,
    Rejected,
    ReplayDriftError,
    ReplayUnsafeError,
    ResultNotKept,
    Retryable,
    RunAborted,
    RunBlocked,
    RunBusy,
    RunDenied,
    RunRemoved,
    RunWaits,
    SchemaTooNew,
    SelfWait,
    StoreError,
    ToolFailure,
    UnclassifiedTool,
    UndeclaredEffect,
    UnknownReview,
    UnknownRun,
    UnmappedNode,
    UnsafeFilesystem,
    UsageError,
    VersionError,
    WorkDuringImport,
    WorkflowVersionMismatch,
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
from nottwice.guard.ledger import open_ledger as open
from nottwice.guard.recorded import now, random, recorded, uuid
from nottwice.guard.request import key_per_call
from nottwice.guard.run import Run
from nottwice.guard.scopes import current_call, gather, map, step
from nottwice.guard.upkeep.backup import backup
from nottwice.guard.upkeep.on_record import RecordedCall, RecordedRun
from nottwice.guard.upkeep.retention import remove_expired
from nottwice.guard.waiting import ask, receive, sleep
from nottwice.model.call import Call
from nottwice.model.failure import single_request
from nottwice.model.graphs.graph import END
from nottwice.model.retention import Retention
from nottwice.model.retry import RetryPolicy
from nottwice.model.tool import Verification, did_not_happen, happened, still_running, unknown
from nottwice.reviews.inbox import Reviews
from nottwice.versions.migrate import migrate, migrate_all
from nottwice.versions.migrate_plan import Migration
from nottwice.worker.worker import Tally, Worker

if TYPE_CHECKING:
    from nottwice import policy as policy
    from nottwice import recipes as recipes

__all__ = [
    "END",
    "Agent",
    "Ambiguous",
    "App",
    "ApprovalNeeded",
    "Budget",
    "BudgetSpent",
    "Call",
    "ChildFailed",
    "CommitUnknown",
    "Context",
    "ContextTooLong",
    "DecisionConflict",
    "Denied",
    "EventTimeout",
    "Fenced",
    "File",
    "FileChanged",
    "Graph",
    "GraphChangedInPlace",
    "InvalidArguments",
    "InvalidGraph",
    "InvalidId",
    "InvalidKey",
    "InvalidTool",
    "KeyConflict",
    "KeyMissing",
    "Ledger",
    "LedgerCorrupt",
    "LedgerDeleted",
    "LedgerTampered",
    "Migration",
    "MigrationRefused",
    "NewEffectInFork",
    "NoLedger",
    "NotInRun",
    "NotPermitted",
    "NotPlainData",
    "NottwiceError",
    "Outcome",
    "Poison",
    "PolicyFailed",
    "Price",
    "QuestionOpen",
    "Receipt",
    "RecordedCall",
    "RecordedRun",
    "Refused",
    "Rejected",
    "Removed",
    "ReplayDriftError",
    "ReplayUnsafeError",
    "ResultNotKept",
    "Retention",
    "RetryPolicy",
    "Retryable",
    "Reviews",
    "Run",
    "RunAborted",
    "RunBlocked",
    "RunBusy",
    "RunDenied",
    "RunRemoved",
    "RunState",
    "RunWaits",
    "SchemaTooNew",
    "Scratchpad",
    "Secret",
    "SelfWait",
    "StoreError",
    "Tally",
    "ToolFailure",
    "UnclassifiedTool",
    "UndeclaredEffect",
    "UnknownReview",
    "UnknownRun",
    "UnmappedNode",
    "UnsafeFilesystem",
    "UsageError",
    "Verification",
    "VersionError",
    "WorkDuringImport",
    "Worker",
    "WorkflowVersionMismatch",
    "ask",
    "aspawn",
    "backup",
    "current_call",
    "did_not_happen",
    "gather",
    "go",
    "happened",
    "key_per_call",
    "map",
    "migrate",
    "migrate_all",
    "now",
    "open",
    "phases",
    "providers",
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

# Rooms that most programs do without, imported when they are first asked for.
_ON_DEMAND = {
    "events": "nottwice.events",
    "policy": "nottwice.policy",
    "recipes": "nottwice.recipes",
}


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return importlib.import_module(_ON_DEMAND[name])
    raise AttributeError(f"module 'nottwice' has no attribute {name!r}")
