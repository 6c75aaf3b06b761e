"""Tells listeners what happens in the ledgers of this process, as it happens.

The progress display of a command, telemetry and notifications are listeners; the log is written by
``said.py``. Claims, releases and reviews are reported once they are durable. Without a listener, no
event is built. If a listener fails, its error is logged and nothing else is affected.
Promise kept here: P210.
"""

from __future__ import annotations

import contextvars
import inspect
import logging
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from typing import Literal

from nottwice import lazy
from nottwice.errors import UsageError
from nottwice.model import values
from nottwice.model.call import CallRow, CallStatus
from nottwice.model.data.records import frozen_record, light_record
from nottwice.model.runs.notices import RUN_OVER, RUN_READY
from nottwice.store.interface import Commit, RunUpdate, Store
from nottwice.store.notices import notices_of

Ending = Literal["done", "failed", "in doubt"]
log = logging.getLogger("nottwice")


@light_record(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a run."""

    ledger: str
    """Where the ledger is."""
    run_id: str


@light_record(frozen=True, slots=True, kw_only=True)
class AttemptBegan(Event):
    """The body of a tool is about to run. Told in the thread, task and context of the body."""

    step: str
    tool: str
    call_id: str
    attempt: int
    replay_class: str


@light_record(frozen=True, slots=True, kw_only=True)
class AttemptReturned(Event):
    """The body of a tool has returned or raised. Told where its beginning was told."""

    call_id: str
    attempt: int


@light_record(frozen=True, slots=True, kw_only=True)
class AttemptEnded(Event):
    """An attempt to run a tool has ended."""

    step: str
    tool: str
    call_id: str
    attempt: int
    replay_class: str
    outcome: Ending
    seconds: float
    error: str | None = None
    retry_in: float | None = None
    """Seconds until the next attempt. None: there is no automatic retry."""


@light_record(frozen=True, slots=True, kw_only=True)
class CallEnded(Event):
    """A caller got its answer: a receipt, new or recorded, or an error."""

    step: str
    tool: str
    call_id: str
    attempts: int
    """How many attempts the call has had, over all processes."""
    replay_class: str
    outcome: Ending
    replayed: bool
    """The answer was on record. No tool was invoked."""
    settled_by: str | None
    """Who ended the doubt about it: ``verify`` or ``decision by ann``. None: it was its attempt."""
    seconds: float


@frozen_record(frozen=True, slots=True, kw_only=True)
class DoubtEnded(Event):
    """A call is no longer in doubt."""

    step: str
    tool: str
    call_id: str
    by: Literal["verify", "person", "attempt"]
    """Who has settled it. ``attempt``: another one, which the upstream takes as the same call."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class StepBegan(Event):
    """The code of a step or a node is about to run. Told in its thread, task and context."""

    step: str
    visit: str
    resumed: bool
    """The step has begun before, in this process or in another one."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class StepReturned(Event):
    """The code of a step has returned or raised. Told where its beginning was told."""

    step: str
    visit: str
    outcome: Literal["done", "failed", "waiting"]
    error_type: str | None = None


@frozen_record(frozen=True, slots=True, kw_only=True)
class StepEnded(Event):
    """A step or a node of a graph has ended."""

    step: str
    visit: str
    outcome: Literal["done", "failed"]
    seconds: float
    error: str | None = None


@frozen_record(frozen=True, slots=True, kw_only=True)
class ReviewOpened(Event):
    """A person was asked to decide."""

    review_id: str
    kind: str
    summary: str
    tool: str
    """The tool that it is about; a name that begins with ``nottwice.`` is no tool of yours."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class ReviewDecided(Event):
    """A person has decided."""

    review_id: str
    decision: str
    by: str


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunReady(Event):
    """Something has arrived that the run may have waited for (P303)."""

    because: str
    """``queued``, ``decided``, ``event`` or ``released``. In the outbox also ``child``."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunOver(Event):
    """The run has completed, failed, or was aborted (P303)."""

    status: str


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunOpening(Event):
    """This process is about to claim a run."""

    epoch: int
    """Which opening of the run this is, from 1 on; upkeep counts, too."""
    graph: str | None
    """``name@version``; None for a run without a graph."""
    is_agent: bool
    caused_by: str | None
    """The trace context of the opening before, or of the process that enqueued the run."""
    carrier: dict[str, str]
    """A listener that traces the opening writes its ``traceparent`` here. It is stored with the
    claim."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunClaimed(Event):
    """This process has become the holder of a run."""

    holder_id: str
    epoch: int


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunBegan(Event):
    """The code of a run is about to run. Told in its thread, task and context."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunReturned(Event):
    """The code of a run has returned or raised. Told where its beginning was told."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunLeft(Event):
    """This process no longer holds the run."""

    status: str
    waits_for: tuple[str, ...] = ()
    receipts: int = 0
    """How many calls returned a result that an earlier opening had recorded."""
    tokens_saved: int = 0
    """The tokens of the recorded replies of models among them."""
    usd_saved: float = 0.0
    """What those replies cost when they were made; 0 if no price was known."""
    error_type: str | None = None
    """The class of the error that failed the run."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunLost(Event):
    """This process stopped driving a run that it did not release, or could not claim."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class EventTaken(Event):
    """A run has taken an event that was sent to it."""

    step: str
    name: str
    event_id: str
    caused_by: str | None
    """The trace context of the sender; None: it was not traced."""


@light_record(frozen=True, slots=True, kw_only=True)
class CommitEnded(Event):
    """Something about the run has become durable."""

    seconds: float
    """How long its commit took, as the code that waited for it saw it."""


Listener = Callable[[Event], None]
listeners: tuple[_Listening, ...] = ()
"""If this is empty, no event is built. Every call reads it, so it is not a function."""
_guard = threading.Lock()
_silent: contextvars.ContextVar[bool] = contextvars.ContextVar("nottwice_silent", default=False)
_IN_MEMORY = ":memory:"


class _Listening:
    """A listener, and the store and the kinds of events that it wants. None: all of them."""

    def __init__(
        self, listener: Listener, of: Store | None, kinds: tuple[type[Event], ...] | None
    ) -> None:
        self.listener, self._of, self.kinds = listener, of, kinds

    def wants(self, store: Store) -> bool:
        of = self._of
        if of is None or of is store:
            return True
        # One file may be open twice in a process. Ledgers in memory share only a name.
        return of.location == store.location != _IN_MEMORY


def listen(
    listener: Listener,
    *,
    of: Store | None = None,
    kinds: Collection[type[Event]] | None = None,
) -> Callable[[], None]:
    """Call ``listener`` with every event from now on. Call the returned function to stop.

    ``of``: only report what happens in this store. ``kinds``: only report these kinds of events,
    which costs less.
    """
    global listeners
    if not callable(listener) or inspect.iscoroutinefunction(listener):
        raise UsageError(
            f"{listener!r} is not a listener. Nothing was changed. Pass a plain function that "
            "takes one event. It may put the event into a queue that async code reads."
        )
    mine = _Listening(listener, of, None if kinds is None else tuple(kinds))
    with _guard:
        listeners = (*listeners, mine)

    def stop() -> None:
        global listeners
        with _guard:
            listeners = tuple(one for one in listeners if one is not mine)

    return stop


def forget_listeners() -> None:
    """Remove all listeners."""
    global listeners
    listeners = ()


def any_wants(kind: type[Event]) -> bool:
    """Whether some listener wants events of this kind."""
    return any(one.kinds is None or issubclass(kind, one.kinds) for one in listeners)


def failures() -> tuple[type[BaseException], ...]:
    """What a listener or a log handler raises by mistake.

    It awaits nothing, so it was not cancelled. A signal may raise ``KeyboardInterrupt`` or
    ``SystemExit`` in it, and these end the program.
    """
    is_loaded = "asyncio" in sys.modules
    return (Exception, lazy.asyncio.CancelledError) if is_loaded else (Exception,)


def silence_here() -> None:
    """Report nothing from this context, because what happens in it is only simulated."""
    _silent.set(True)


def tell(event: Event, store: Store) -> None:
    """Report an event of a ledger to its listeners."""
    if _silent.get():
        return
    for one in listeners:
        if (one.kinds is not None and not isinstance(event, one.kinds)) or not one.wants(store):
            continue
        try:
            one.listener(event)
        except failures():
            log.exception("a listener failed with %s", type(event).__name__)


def tell_of_commit(commit: Commit, store: Store, *, seconds: float | None = None) -> None:
    """Report the claim, the release and the new reviews that a commit has made durable."""
    if seconds is not None:
        run_id = commit.workflow_id
        tell(CommitEnded(ledger=store.location, run_id=run_id, seconds=max(0.0, seconds)), store)
    if commit.only_calls:
        return
    for event in _in_commit(commit, store.location):
        tell(event, store)


def _in_commit(commit: Commit, ledger: str) -> Iterator[Event]:
    run_id = commit.workflow_id
    if commit.claim is not None and commit.claim.run.holder_id is not None:
        run = commit.claim.run
        yield RunClaimed(
            ledger=ledger, run_id=run_id, holder_id=run.holder_id or "", epoch=run.epoch
        )
    for write in commit.reviews:
        if write.after_version is None:
            one = write.review
            yield ReviewOpened(
                ledger=ledger,
                run_id=run_id,
                review_id=one.review_id,
                kind=one.kind.value,
                summary=one.summary,
                tool=one.identity.tool_name,
            )
    if commit.run is not None and commit.run.release:
        yield _left(commit.run, ledger, run_id)
    # The same facts as in the outbox, for listeners of this process. Without reading the run: that
    # the child of a run is over is told as the end of the child.
    for notice in notices_of(commit, None):
        about = values.decode_object(notice.payload_json)
        if notice.kind == RUN_READY:
            yield RunReady(ledger=ledger, run_id=notice.workflow_id, because=about["because"])
        elif notice.kind == RUN_OVER:
            yield RunOver(ledger=ledger, run_id=notice.workflow_id, status=about["status"])


def _left(update: RunUpdate, ledger: str, run_id: str) -> RunLeft:
    failure, saved = update.failure, update.saved
    return RunLeft(
        ledger=ledger,
        run_id=run_id,
        status=update.status.value,
        waits_for=tuple(f"{wait.kind.value} {wait.subject}".strip() for wait in update.waits),
        receipts=saved.receipts,
        tokens_saved=saved.tokens,
        usd_saved=saved.usd,
        error_type=None if failure is None else failure.error_type,
    )


def attempt_ended(ledger: str, row: CallRow, *, seconds: float) -> AttemptEnded:
    """Build the event for an attempt from its row."""
    failure = row.failure
    retry_in = None
    if row.retry_at is not None and row.finished_at is not None:
        retry_in = max(0.0, row.retry_at - row.finished_at)
    return AttemptEnded(
        ledger=ledger,
        run_id=row.identity.workflow_id,
        step=row.identity.node_id,
        tool=row.identity.tool_name,
        call_id=row.call_id,
        attempt=row.attempt,
        replay_class=row.replay_class.value,
        outcome=ending(row),
        seconds=seconds,
        error=None if failure is None else f"{failure.error_type}: {failure.message}",
        retry_in=retry_in,
    )


def ending(row: CallRow) -> Ending:
    """Return how a call ended, in the words of its event."""
    if row.status is CallStatus.DONE:
        return "done"
    return "failed" if row.status is CallStatus.FAILED else "in doubt"
