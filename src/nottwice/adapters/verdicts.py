"""What does an adapter do with an exception: tell the model, pause, or stop? One table (P244).

What a model can act on is told to it: a tool failed without effect, or the arguments are wrong.
What a person must decide is the framework's pause. Everything else stops the framework: the ledger
cannot be used, another process has the run, or the program is wrong. A model that is told of these
would look for a way around them.
"""

from __future__ import annotations

from typing import Literal

from nottwice import errors

Verdict = Literal["told_to_model", "pause", "stop"]

VERDICTS: dict[type[errors.NottwiceError], Verdict] = {
    errors.NottwiceError: "stop",
    errors.UsageError: "stop",
    errors.InvalidArguments: "told_to_model",
    errors.NotPlainData: "told_to_model",
    errors.InvalidKey: "told_to_model",
    errors.KeyConflict: "told_to_model",
    errors.InvalidId: "told_to_model",
    errors.UnclassifiedTool: "stop",
    errors.InvalidTool: "stop",
    errors.NotInRun: "stop",
    errors.WorkDuringImport: "stop",
    errors.UndeclaredEffect: "stop",
    errors.SelfWait: "stop",
    errors.ConditionUnknown: "stop",
    errors.UnknownReview: "stop",
    errors.UnknownRun: "stop",
    errors.RunRemoved: "stop",
    errors.NotPermitted: "stop",
    errors.KeyMissing: "stop",
    errors.PolicyFailed: "stop",
    errors.InvalidGraph: "stop",
    errors.NewEffectInFork: "stop",
    errors.StoreError: "stop",
    errors.CommitUnknown: "stop",
    errors.OwnershipLost: "stop",
    errors.LedgerCorrupt: "stop",
    errors.LedgerTampered: "stop",
    errors.SchemaTooNew: "stop",
    errors.NoLedger: "stop",
    errors.LedgerDeleted: "stop",
    errors.UnsafeFilesystem: "stop",
    errors.RunBlocked: "pause",
    errors.ReplayUnsafeError: "pause",
    errors.ResultNotKept: "pause",
    errors.ReplayDriftError: "pause",
    errors.ApprovalNeeded: "pause",
    errors.QuestionOpen: "pause",
    errors.BudgetSpent: "pause",
    # A person has decided: there is nothing left to wait for.
    errors.RunAborted: "stop",
    errors.RunBusy: "stop",
    errors.RunStoppedByPolicy: "stop",
    errors.RunWaits: "pause",
    errors.VersionError: "stop",
    errors.WorkflowVersionMismatch: "stop",
    errors.GraphChangedInPlace: "stop",
    errors.MigrationRefused: "stop",
    errors.UnmappedNode: "stop",
    errors.ToolFailure: "told_to_model",
    errors.Retryable: "told_to_model",
    errors.InvalidRetryAfter: "told_to_model",
    errors.Permanent: "told_to_model",
    # What may or may not have happened is never told to a model, which would try again (P71).
    errors.Ambiguous: "stop",
    # One call was refused, and the model may do something else. A policy that wants an end of the
    # whole run stops it (RunStoppedByPolicy).
    errors.DeniedByPolicy: "told_to_model",
    errors.RejectedByReviewer: "told_to_model",
    errors.EventTimeout: "told_to_model",
    errors.ContextTooLong: "told_to_model",
    errors.ModelRefused: "told_to_model",
    errors.FileChanged: "told_to_model",
    errors.ChildFailed: "told_to_model",
    errors.DecisionConflict: "stop",
}
"""Every exception of nottwice."""


def verdict_of(error: BaseException) -> Verdict:
    """Return what to do with an exception that ``handle.call`` raised.

    ``"told_to_model"``: return ``text_for_model(error)`` as the tool's failure. ``"pause"``: a
    person must decide ``error.review_id``; use the framework's own pause. ``"stop"``: end the
    framework's loop. Where a framework swallows exceptions, raise one that it cannot swallow. An
    exception that is not nottwice's comes from a tool without effects, and is told to the model.
    """
    if isinstance(error, errors.NottwiceError):
        return next(VERDICTS[kind] for kind in type(error).__mro__ if kind in VERDICTS)
    # Ctrl-C and cancellation are not for the model.
    return "told_to_model" if isinstance(error, Exception) else "stop"
