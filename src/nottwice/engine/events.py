"""Tells listeners what happens in the ledgers of this process, as it happens.

The log, the progress display of a command, telemetry and notifications are all listeners. Claims,
releases and reviews are reported once they are durable. Without a listener, no event is built. If a
listener fails, its error is logged and nothing else is affected.
Promise kept here: P210.
"""

from __future__ import annotations

import contextvars
import inspect
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Literal

from nottwice.errors import UsageError
from nottwice.model import values
from nottwice.model.call import CallRow, CallStatus
from nottwice.model.notices import RUN_OVER, RUN_READY
from nottwice.model.records import frozen_record
from nottwice.store.interface import Commit, Store
from nottwice.store.notices import notices_of

Ending = Literal["done", "failed", "in doubt"]
log = logging.getLogger("nottwice")


@frozen_record(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a run."""

    ledger: str
    """Where the ledger is."""
    run_id: str


@frozen_record(frozen=True, slots=True, kw_only=True)
class AttemptEnded(Event):
    """An attempt to run a tool has ended."""

    step: str
    tool: str
    call_id: str
    attempt: int
    outcome: Ending
    seconds: float
    error: str | None = None
    retry_in: float | None = None
    """Seconds until the next attempt. None: there is no automatic retry."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class CallEnded(Event):
    """A caller got its answer: a receipt, new or recorded, or an error."""

    step: str
    tool: str
    call_id: str
    attempts: int
    """How many attempts the call has had, over all processes."""
    outcome: Ending
    replayed: bool
    """The answer was on record. No tool was invoked."""
    seconds: float


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
    """``decided`` or ``event``. In the outbox also ``queued``, ``child`` and ``released``."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunOver(Event):
    """The run has completed, failed, or was aborted (P303)."""

    status: str


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunClaimed(Event):
    """This process has become the holder of a run."""

    holder_id: str
    epoch: int


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunLeft(Event):
    """This process no longer holds the run."""

    status: str
    waits_for: tuple[str, ...] = ()


Listener = Callable[[Event], None]
listeners: tuple[_Listening, ...] = ()
"""If this is empty, no event is built. Every call reads it, so it is not a function."""
_guard = threading.Lock()
_silent: contextvars.ContextVar[bool] = contextvars.ContextVar("nottwice_silent", default=False)
_IN_MEMORY = ":memory:"


class _Listening:
    """A listener, and the store whose events it wants. None: the events of all stores."""

    def __init__(self, listener: Listener, of: Store | None) -> None:
        self.listener, self._of = listener, of

    def wants(self, store: Store) -> bool:
        of = self._of
        if of is None or of is store:
            return True
        # One file may be open twice in a process. Ledgers in memory share only a name.
        return of.location == store.location != _IN_MEMORY


def listen(listener: Listener, *, of: Store | None = None) -> Callable[[], None]:
    """Call ``listener`` with every event from now on. Call the returned function to stop.

    ``of``: only report what happens in this store.
    """
    global listeners
    if not callable(listener) or inspect.iscoroutinefunction(listener):
        raise UsageError(
            f"{listener!r} cannot listen. Nothing was changed. Pass a plain function that takes "
            "one event. It may put the event into a queue that async code reads."
        )
    mine = _Listening(listener, of)
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


def silence_here() -> None:
    """Report nothing from this context, because what happens in it is only simulated."""
    _silent.set(True)


def tell(event: Event, store: Store) -> None:
    """Report an event of a ledger to its listeners."""
    if _silent.get():
        return
    for one in listeners:
        if not one.wants(store):
            continue
        try:
            one.listener(event)
        except Exception:
            log.exception("a listener failed with %s", type(event).__name__)


def tell_of_commit(commit: Commit, store: Store) -> None:
    """Report the claim, the release and the new reviews that a commit has made durable."""
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
            )
    if commit.run is not None and commit.run.release:
        waits = tuple(f"{wait.kind.value} {wait.subject}".strip() for wait in commit.run.waits)
        yield RunLeft(ledger=ledger, run_id=run_id, status=commit.run.status.value, waits_for=waits)
    # The same facts as in the outbox, for listeners of this process. Without reading the run: that
    # the child of a run is over is told as the end of the child.
    for notice in notices_of(commit, None):
        about = values.decode_object(notice.payload_json)
        if notice.kind == RUN_READY:
            yield RunReady(ledger=ledger, run_id=notice.workflow_id, because=about["because"])
        elif notice.kind == RUN_OVER:
            yield RunOver(ledger=ledger, run_id=notice.workflow_id, status=about["status"])


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
