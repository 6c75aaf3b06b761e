"""Every exception nottwice raises, as one tree.

    NottwiceError
    ├─ UsageError              the caller's code is wrong; nothing happened
    │   ├─ UnclassifiedTool      a tool was declared without a replay class (T1)
    │   ├─ InvalidTool           a tool declaration contradicts itself (T1, T2)
    │   ├─ NotInRun              a protected tool was called outside a run
    │   ├─ WorkDuringImport      a module starts work while a command only inspects it
    │   ├─ UndeclaredEffect      code of a run has an effect outside any tool (P167)
    │   ├─ InvalidArguments      the arguments do not fit the tool's signature (T4)
    │   ├─ NotPlainData          a value cannot be represented; ``path`` says where (T4)
    │   ├─ InvalidKey            an idempotency key is missing, too long or not stable (T2)
    │   ├─ KeyConflict           one key was used with two different arguments (T2)
    │   ├─ InvalidId             a run id or step name cannot be stored
    │   ├─ SelfWait              a call waits for itself (D13)
    │   ├─ ConditionUnknown      a run ends by a done_when function that this process lacks
    │   ├─ UnknownReview         no review has this id
    │   ├─ UnknownRun            no run has this id
    │   ├─ RunRemoved            retention has removed the run; its id stays taken (L8)
    │   ├─ NotPermitted          the app does not let this person do that (V4)
    │   ├─ KeyMissing            sealing or a secret needs a key, and none was given (L9)
    │   ├─ PolicyFailed          a policy raised, hung, or returned no valid ruling (L9)
    │   ├─ InvalidGraph          a graph contradicts itself, or a node broke its contract
    │   └─ NewEffectInFork       a fork asks for an effect that its origin has no receipt for (L10)
    ├─ StoreError              the ledger could not do what was asked
    │   ├─ CommitUnknown         a commit may or may not be durable
    │   ├─ OwnershipLost         another holder has taken over the run
    │   ├─ LedgerCorrupt         the stored data is inconsistent
    │   │   └─ LedgerTampered      what is stored is not what nottwice wrote (L9)
    │   ├─ SchemaTooNew          the ledger was written by a newer nottwice
    │   ├─ NoLedger              there is no ledger at this path
    │   ├─ LedgerDeleted         the ledger is gone, and a new one would repeat every effect
    │   └─ UnsafeFilesystem      file locks do not work on this file system
    ├─ RunBlocked              the run waits for a person; never retry automatically
    │   ├─ ReplayUnsafeError     an effect may or may not have happened (D2)
    │   ├─ ResultNotKept         it took effect, but its result cannot be returned (P134)
    │   ├─ ReplayDriftError      the code no longer asks for what the ledger holds (D7)
    │   ├─ ApprovalNeeded        a person must approve a call before it is made (H3)
    │   ├─ QuestionOpen          a question to a person has no answer yet (H1)
    │   ├─ BudgetSpent           a budget does not allow the next request to a model (A4)
    │   └─ RunAborted            a person decided to abort the run
    ├─ RunBusy                 another holder drives this run; try again later
    ├─ RunStoppedByPolicy      a policy stopped the run; nothing was sent (L9)
    ├─ RunWaits                the run waits for time, an event or a child run; open it again later
    ├─ VersionError            a run and the deployed graph do not fit together
    │   ├─ WorkflowVersionMismatch  the run is bound to another version (V2)
    │   ├─ GraphChangedInPlace   a graph changed more than its version says (V5)
    │   └─ MigrationRefused      a run cannot be moved to another version as it is (V4)
    │       └─ UnmappedNode        nothing says where the run continues in the new version
    ├─ ToolFailure             a tool failed, and its failure is on record
    │   ├─ Retryable             nothing took effect; trying again may help
    │   │   └─ InvalidRetryAfter   the wait that it asks for cannot be read
    │   ├─ Permanent             nothing took effect; trying again cannot help
    │   │   ├─ DeniedByPolicy      a policy denied the call (L9)
    │   │   ├─ RejectedByReviewer  a person rejected the call (H3)
    │   │   ├─ EventTimeout        the event did not come in time
    │   │   ├─ ContextTooLong      a conversation does not fit into the model's window
    │   │   ├─ ModelRefused        a model does not answer this conversation
    │   │   ├─ FileChanged         a file for the model is missing or has changed
    │   │   └─ ChildFailed         a child run failed or was aborted
    │   └─ Ambiguous             it may or may not have taken effect
    └─ DecisionConflict        a different decision is already on record

A message says what happened, what did not happen, and what to do next.
"""

from __future__ import annotations

from datetime import timedelta
from reprlib import repr as _short
from typing import Any

from nottwice.durations import read_wait


class NottwiceError(Exception):
    """Base of every error raised by nottwice; named facts become attributes."""

    non_retryable = False
    """Whether a queue should stop retrying. The recipes in the guide rely on this alone (P129).
    A host that can also wait for a person asks ``nt.hosts.verdict(error)`` (P302)."""
    retry_in: float | None = None
    """In how many seconds the same call is worth another look, if that is known (P302)."""

    def __init__(self, message: object = "", **facts: Any) -> None:
        # Like every exception, it takes any object: to fail here would lose what the error says.
        text = text_of(message)
        self.message = text if text.isprintable() else _visible(text)
        super().__init__(self.message)
        self.facts = facts
        for name, value in facts.items():
            setattr(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # Queue runners send exceptions between processes, so the facts must go with them.
        return (_rebuild, (type(self), self.message, self.facts))


def text_of(message: object) -> str:
    """Return the text of an error or of any other object, even if its ``__str__`` fails."""
    try:
        return str(message)
    except Exception as fault:
        return f"its message could not be read: {type(fault).__qualname__}"


def _visible(text: str) -> str:
    """Escape every character that could control a terminal (P143).

    A message may repeat what a model, an upstream or a caller wrote. Line ends stay.
    """
    return "".join(
        each
        if each.isprintable() or each in "\n\t"
        else each.encode("unicode_escape", "backslashreplace").decode("ascii")
        for each in text
    )


def _rebuild(kind: type[NottwiceError], message: str, facts: dict[str, Any]) -> NottwiceError:
    return kind(message, **facts)


class UsageError(NottwiceError):
    """The caller's code is wrong. Nothing happened."""

    non_retryable = True


class UnclassifiedTool(UsageError):
    """A tool was declared without a replay class."""


class InvalidTool(UsageError):
    """A tool declaration contradicts itself."""


class NotInRun(UsageError):
    """A protected tool was called outside a run."""


class WorkDuringImport(UsageError):
    """A module starts work at its top level, while a command imports it only to inspect it."""


class UndeclaredEffect(UsageError):
    """The code of a run was about to have an effect outside any tool; ``place`` says where."""

    place: str


class InvalidArguments(UsageError):
    """The arguments do not fit the tool's signature."""


class NotPlainData(UsageError):
    """A value cannot be represented as plain data; ``path`` says where it is."""

    path: str


class InvalidKey(UsageError):
    """An idempotency key is missing, too long, or not stable."""


class KeyConflict(UsageError):
    """One idempotency key was used with two different arguments."""


class InvalidId(UsageError):
    """A run id or step name cannot be stored."""


class SelfWait(UsageError):
    """A call waits for itself."""


class ConditionUnknown(UsageError):
    """A ``done_when`` function decides when this run ends, and this process does not have it."""

    condition: str
    """The name of the function, with ``()``."""


class UnknownReview(UsageError):
    """No review has this id."""


class UnknownRun(UsageError):
    """No run has this id."""


class RunRemoved(UsageError):
    """The run has ended and retention has removed it, or part of it. Its id stays taken."""


class NotPermitted(UsageError):
    """The app does not let this person do that, or has no rule that permits it."""


class KeyMissing(UsageError):
    """Sealing or a secret needs a key, and none was given. Nothing was written (L9)."""


class PolicyFailed(UsageError):
    """A policy raised, hung, or returned no valid ruling. The call was not made."""


class InvalidGraph(UsageError):
    """A graph contradicts itself, or one of its nodes broke the graph's contract."""


class NewEffectInFork(UsageError):
    """A fork asks for an effect that the run it was forked from has no receipt for."""


class StoreError(NottwiceError):
    """The ledger could not do what was asked."""

    is_away: bool = False
    """Whether the database is unreachable now and may become reachable again."""


class CommitUnknown(StoreError):
    """A commit may or may not be durable."""


class OwnershipLost(StoreError):
    """Another holder has taken over the run. Nothing was written."""

    non_retryable = True


class LedgerCorrupt(StoreError):
    """The stored data is inconsistent, so nottwice does not use it."""

    non_retryable = True


class LedgerTampered(LedgerCorrupt):
    """A row was changed or removed outside nottwice. The run waits for a person (L9)."""

    review_id: str | None = None


class SchemaTooNew(StoreError):
    """The ledger was written by a newer nottwice."""

    non_retryable = True


class NoLedger(StoreError):
    """There is no ledger at this path."""

    non_retryable = True


class LedgerDeleted(StoreError):
    """The ledger at this path is gone. A new one would repeat every effect."""

    non_retryable = True


class UnsafeFilesystem(StoreError):
    """File locks do not work on this file system, so ownership could not be proven."""

    non_retryable = True


class RunBlocked(NottwiceError):
    """The run waits for a person. Never retry this automatically."""

    non_retryable = True
    review_id: str | None = None
    """The review to decide; None if the run waits for several, or because of another call."""
    review_ids: tuple[str, ...] = ()
    """Every review that the run waits for."""


class ReplayUnsafeError(RunBlocked):
    """An effect may or may not have happened, and only a person can say."""


class ResultNotKept(RunBlocked):
    """The call took effect, but its result could not be kept and cannot be returned."""


class ReplayDriftError(RunBlocked):
    """The code no longer asks for the effects that the ledger holds."""


class ApprovalNeeded(RunBlocked):
    """A person must approve this call before it is made."""


class QuestionOpen(RunBlocked):
    """A question to a person has no answer yet."""


class BudgetSpent(RunBlocked):
    """A budget does not allow the next request to a model, until a person raises it."""


class RunAborted(RunBlocked):
    """A person decided to abort this run."""


class RunBusy(NottwiceError):
    """Another holder drives this run. The caller did nothing wrong: try again later."""


class RunStoppedByPolicy(NottwiceError):
    """A policy stopped the run. The run sends nothing more until it is opened again."""

    non_retryable = True


class RunWaits(NottwiceError):
    """The run waits for time, an event or a child run. Open it again when the wait has ended.

    This is not a failure. It ends the block, so the process does not have to stay.
    """

    until: float | None = None
    """When to open it again at the latest; None if only an event or a child run ends the wait."""


class VersionError(NottwiceError):
    """A run and the deployed graph do not fit together."""

    non_retryable = True


class WorkflowVersionMismatch(VersionError):
    """The run is bound to ``bound``, and the deployed graph or code has another version."""

    bound: str


class GraphChangedInPlace(VersionError):
    """A graph changed more than its version says; ``needs`` is the version that it must have."""

    needs: str


class MigrationRefused(VersionError):
    """A run cannot be moved to another version of its graph; ``reasons`` says why."""

    reasons: tuple[str, ...] = ()


class UnmappedNode(MigrationRefused):
    """Nothing says where a run continues in the new version; ``nodes`` lists its current nodes."""

    nodes: tuple[str, ...] = ()


class ToolFailure(NottwiceError):
    """A tool failed, and its failure is on record. It is raised live and on replay alike."""

    non_retryable = True


class Retryable(ToolFailure):
    """Nothing took effect; trying again may help. Tools may raise it, with ``retry_after``.

    A run raises it with ``non_retryable=True``: it stays on record until ``tool.retry``.

    ``retry_after`` is the least time to wait: ``"30s"``, a timedelta, a number of seconds, or the
    text of a Retry-After header. Anything else raises InvalidRetryAfter instead (P228).
    """

    non_retryable = False
    retry_after: float | str | timedelta | None = None

    def __init__(
        self,
        message: object = "",
        *,
        retry_after: float | str | timedelta | None = None,
        **facts: Any,
    ) -> None:
        if retry_after is None:
            super().__init__(message, **facts)
            return
        # Only whether it can be read counts here, and a date can be read at any time.
        if read_wait(retry_after, now=0.0) is None:
            text = text_of(message)
            said = f"{text.rstrip('.')}. " if text else ""
            raise InvalidRetryAfter(
                f"{said}The wait that it asks for, retry_after={_short(retry_after)}, cannot be "
                "read, so a further attempt does not wait for it. Write '30s', a number of "
                "seconds, a datetime.timedelta, or the text of a Retry-After header.",
                **facts,
            )
        super().__init__(message, retry_after=retry_after, **facts)


class InvalidRetryAfter(Retryable):
    """A tool raised ``Retryable`` with a wait that cannot be read. It is retried without it."""


class Permanent(ToolFailure):
    """Nothing took effect, and trying again cannot help. Tools may raise it."""


class Ambiguous(ToolFailure):
    """It may or may not have taken effect. Tools may raise it."""


class DeniedByPolicy(Permanent):
    """A policy denied this call. It was not made."""


class RejectedByReviewer(Permanent):
    """A person rejected this call. It was not made."""


class EventTimeout(Permanent):
    """The event did not come in time."""


class ContextTooLong(Permanent):
    """A conversation does not fit into the model's window. Providers raise it."""


class ModelRefused(Permanent):
    """A model, or its provider, does not answer this conversation. Providers raise it."""


class FileChanged(Permanent):
    """A file for the model is missing or has changed. The model was not asked."""


class ChildFailed(Permanent):
    """A child run failed or was aborted."""


class DecisionConflict(NottwiceError):
    """A different decision is already on record."""

    non_retryable = True
