"""What the engine writes to the log ``nottwice``: one line per decision (O1).

Every message stays one printable line. No id, error or upstream text can forge a second line or
control a terminal (P94). A log handler that raises harms no run (P210). Code that shows progress or
counts needs no parser: the log record carries the same as data, in its attribute ``said``.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

from nottwice.engine import events
from nottwice.engine.events import Event
from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.data.printable import one_line
from nottwice.model.data.records import frozen_record
from nottwice.model.run import RunStatus, StepRecord, StepStatus, Wait
from nottwice.store.interface import Store


class OneLine(logging.Filter):
    """Escapes what would split a log record into lines or control the terminal."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            text = record.getMessage()
        except Exception:
            # Logging must never change what is done. The handler reports what is wrong.
            return True
        if not text.isprintable():
            vars(record).update({"msg": one_line(text), "args": None})
        return True


log = logging.getLogger("nottwice")
log.addFilter(OneLine())


def _call_handlers(record: logging.LogRecord) -> None:
    """Pass a record to the handlers. If one raises, the error is printed, as logging does it."""
    try:
        type(log).callHandlers(log, record)
    except events.failures():
        logging.Handler().handleError(record)


# For the logger of all rooms, because no caller expects that a log line can fail.
log.callHandlers = _call_handlers  # type: ignore[method-assign]

# Messages about steps, as constants that handlers can compare with.
BEGIN: Final = "begin the step"
RESUME: Final = "resume the step"
REPLAY: Final = "replay the step"
DONE: Final = "the step is done"
FAILED: Final = "the step failed"
WAIT: Final = "leave the run waiting"
"""The message about a run that waits."""


class _Named(Protocol):
    """The part of a session that is used here."""

    @property
    def store(self) -> Store: ...

    @property
    def run_id(self) -> str: ...


@frozen_record(frozen=True, slots=True, kw_only=True)
class Said(Event):
    """One decision: about a call, about a node, or about the whole run."""

    decision: str
    step: str | None = None
    visit: str | None = None
    """The checkpoint that the visit of a node started from. None: this is not about a node."""
    tool: str | None = None
    call_id: str | None = None
    detail: str = ""

    def __str__(self) -> str:
        parts = [f"run={self.run_id!r}"]
        if self.step is not None:
            parts.append(f"step={self.step!r}")
        if self.visit is not None:
            parts.append(f"visit={self.visit!r}")
        if self.tool is not None:
            parts.append(f"tool={self.tool}")
        if self.call_id is not None:
            parts.append(f"call={self.call_id[:12]}")
        parts.append(f"decision={self.decision!r}")
        return " ".join([*parts, self.detail] if self.detail else parts)


def is_heard() -> bool:
    """Whether anything listens. If not, messages are not even built."""
    return log.isEnabledFor(logging.INFO) or events.any_wants(Said)


def say(said: Said, store: Store) -> None:
    log.info("%s", said, extra={"said": said})
    if events.listeners:
        events.tell(said, store)


def about_call(host: _Named, about: CallRow | CallIdentity, decision: str, detail: str) -> Said:
    identity = about.identity if isinstance(about, CallRow) else about
    return Said(
        ledger=host.store.location,
        run_id=host.run_id,
        decision=decision,
        step=identity.node_id,
        tool=identity.tool_name,
        call_id=about.call_id,
        detail=detail,
    )


def about_step(host: _Named, record: StepRecord, *, resumed: bool = False) -> Said:
    """Return the message that a step was opened, or how it ended."""
    detail = ""
    if record.failure is not None:
        decision, detail = FAILED, f"error={record.failure.error_type!r}"
    elif record.status is StepStatus.DONE:
        decision = REPLAY if resumed else DONE
    else:
        decision = RESUME if resumed else BEGIN
    return Said(
        ledger=host.store.location,
        run_id=record.workflow_id,
        decision=decision,
        step=record.node_id,
        visit=record.checkpoint_id,
        detail=detail,
    )


def about_run(
    host: _Named, status: RunStatus, waits: tuple[Wait, ...], *, head: str | None = None
) -> Said:
    """Return how a released run stands. ``head``: the head of its seal chain."""
    details = [f"{wait.kind.value}={wait.subject!r}" for wait in waits]
    if head is not None:
        details.append(f"head={head}")
    return Said(
        ledger=host.store.location,
        run_id=host.run_id,
        decision=f"leave the run {status.value}",
        detail=" ".join(details),
    )
