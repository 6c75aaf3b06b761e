"""nottwice makes AI agents safe to kill: each effect happens once, whatever dies in between.

import nottwice as nt

@nt.tool("unsafe_on_replay")
def refund(order_id: int, cents: int) -> dict: ...

with nt.run("ticket-7", store="agent.db"):
    refund(order_id=7, cents=4000)
"""

from nottwice.engine.dispatch import Receipt
from nottwice.errors import (
    Ambiguous,
    CommitUnknown,
    DecisionConflict,
    Fenced,
    InvalidArguments,
    InvalidId,
    InvalidKey,
    InvalidTool,
    KeyConflict,
    LedgerCorrupt,
    NoLedger,
    NotInRun,
    NotPlainData,
    NottwiceError,
    Poison,
    ReplayDriftError,
    ReplayUnsafeError,
    ResultNotKept,
    Retryable,
    RunAborted,
    RunBlocked,
    RunBusy,
    SchemaTooNew,
    SelfWait,
    StoreError,
    ToolFailure,
    UnclassifiedTool,
    UnknownReview,
    UnsafeFilesystem,
    UsageError,
)
from nottwice.guard.declare import tool
from nottwice.guard.ledger import Ledger, run
from nottwice.guard.ledger import open_ledger as open
from nottwice.guard.request import key_per_call
from nottwice.guard.run import Run
from nottwice.guard.scopes import current_call, gather, map, step
from nottwice.model.call import Call
from nottwice.model.failure import RetryPolicy, single_request
from nottwice.model.tool import Verification, did_not_happen, happened, still_running, unknown
from nottwice.reviews.inbox import Reviews

__all__ = [
    "Ambiguous",
    "Call",
    "CommitUnknown",
    "DecisionConflict",
    "Fenced",
    "InvalidArguments",
    "InvalidId",
    "InvalidKey",
    "InvalidTool",
    "KeyConflict",
    "Ledger",
    "LedgerCorrupt",
    "NoLedger",
    "NotInRun",
    "NotPlainData",
    "NottwiceError",
    "Poison",
    "Receipt",
    "ReplayDriftError",
    "ReplayUnsafeError",
    "ResultNotKept",
    "RetryPolicy",
    "Retryable",
    "Reviews",
    "Run",
    "RunAborted",
    "RunBlocked",
    "RunBusy",
    "SchemaTooNew",
    "SelfWait",
    "StoreError",
    "ToolFailure",
    "UnclassifiedTool",
    "UnknownReview",
    "UnsafeFilesystem",
    "UsageError",
    "Verification",
    "current_call",
    "did_not_happen",
    "gather",
    "happened",
    "key_per_call",
    "map",
    "open",
    "run",
    "single_request",
    "step",
    "still_running",
    "tool",
    "unknown",
]
