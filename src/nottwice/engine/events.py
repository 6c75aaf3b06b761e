"""What happens in the ledgers of this process, told to listeners as it happens.

The log is one listener, the progress of a command another; telemetry and notifications are others.
Claims, releases and reviews are told once they are durable. While nothing listens, nothing is put
together. A listener that fails changes nothing for anybody else: its error is logged.
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
from nottwice.model.call import CallRow, CallStatus
from nottwice.model.records import frozen_record
from nottwice.store.interface import Commit, Store

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
    """A tool was invoked, and this came of it."""

    step: str
    tool: str
    call_id: str
    attempt: int
    outcome: Ending
    seconds: float
    error: str | None = None
    retry_in: float | None = None
    """In how many seconds the next attempt follows; None: by itself none does."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class CallEnded(Event):
    """A caller got what it asked for: a receipt, new or recorded, or an error."""

    step: str
    tool: str
    call_id: str
    attempts: int
    """How many attempts the call has had, in all processes."""
    outcome: Ending
    replayed: bool
    """The answer was on record; nothing was invoked."""
    seconds: float


@frozen_record(frozen=True, slots=True, kw_only=True)
class StepEnded(Event):
    """A step or a node of a graph is over."""

    step: str
    visit: str
    outcome: Literal["done", "failed"]
    seconds: float
    error: str | None = None


@frozen_record(frozen=True, slots=True, kw_only=True)
class ReviewOpened(Event):
    """A person is asked."""

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
class RunClaimed(Event):
    """This process has become the holder of a run."""

    holder_id: str
    epoch: int


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunLeft(Event):
    """This process holds the run no longer."""

    status: str
    waits_for: tuple[str, ...] = ()


Listener = Callable[[Event], None]
listeners: tuple[_Listening, ...] = ()
"""Empty, events are not even put together. Looked at in every call, so it is no function."""
_guard = threading.Lock()
_silent: contextvars.ContextVar[bool] = contextvars.ContextVar("nottwice_silent", default=False)
_IN_MEMORY = ":memory:"


class _Listening:
    """A listener, and the ledger that it wants to hear of; None: of all."""

    def __init__(self, listener: Listener, of: Store | None) -> None:
        self.listener, self._of = listener, of

    def wants(self, store: Store) -> bool:
        of = self._of
        if of is None or of is store:
            return True
        # One file may be open twice in a process; ledgers in memory only share a name.
        return of.location == store.location != _IN_MEMORY


def listen(listener: Listener, *, of: Store | None = None) -> Callable[[], None]:
    """Tell ``listener`` of everything from now on. Call what is returned to stop that.

    ``of``: only what happens in this store.
    """
    global listeners
    if not callable(listener) or inspect.iscoroutinefunction(listener):
        raise UsageError(
            f"{listener!r} cannot listen. Nothing was changed. Give a plain function of one event; "
            "it may hand the event to a queue that async code reads."
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
    """Tell nothing to the listeners that there are."""
    global listeners
    listeners = ()


def silence_here() -> None:
    """Tell nothing of what happens in this context: it only looks as if it happened."""
    _silent.set(True)


def tell(event: Event, store: Store) -> None:
    """Tell of something that happened in a ledger."""
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
    """Tell of the claim, the release and the new reviews that a commit has made durable."""
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


def attempt_ended(ledger: str, row: CallRow, *, seconds: float) -> AttemptEnded:
    """What came of an attempt, as its row has it."""
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
    """How a call stands whose caller is told."""
    if row.status is CallStatus.DONE:
        return "done"
    return "failed" if row.status is CallStatus.FAILED else "in doubt"
