"""Which processes held a run, how long, and how did each of them leave it?

Every claim begins an opening, and every release ends it. Both are written with the claim and the
release themselves. Promise kept here: P221.
"""

from __future__ import annotations

import enum
import re
from collections.abc import MutableMapping
from dataclasses import replace

from nottwice.model.data.records import frozen_record
from nottwice.model.run import RunRecord, RunStatus


class OpeningEnd(enum.Enum):
    """How a process left a run."""

    COMPLETED = "completed"
    FAILED = "failed"
    WAITING = "waiting"
    ABORTED = "aborted"
    RELEASED = "released"
    """The run can continue: its process was told to stop, or only changed something."""
    KILLED = "killed"
    """The process was dead when the next one took the run."""
    TAKEN_OVER = "taken over"
    """Another process took the run, and it could not be proven that this one was dead."""


_ENDS = {
    RunStatus.RUNNING: OpeningEnd.RELEASED,
    RunStatus.WAITING: OpeningEnd.WAITING,
    RunStatus.IDLE: OpeningEnd.RELEASED,
    RunStatus.COMPLETED: OpeningEnd.COMPLETED,
    RunStatus.FAILED: OpeningEnd.FAILED,
    RunStatus.ABORTED: OpeningEnd.ABORTED,
    RunStatus.REMOVED: OpeningEnd.RELEASED,
}


@frozen_record(frozen=True, slots=True)
class Savings:
    """What a process got from the ledger instead of doing or paying for it again."""

    receipts: int = 0
    """How many calls returned a result that an earlier opening had recorded."""
    duplicates: int = 0
    """How many effects were asked for again and not made again, also in this opening (P341)."""
    tokens: int = 0
    """The tokens of the recorded replies of models among them."""
    usd: float = 0.0
    """What those replies cost when they were made, in dollars; 0 if no price was known."""

    def plus(
        self, *, receipts: int = 0, duplicates: int = 0, tokens: int = 0, usd: float = 0.0
    ) -> Savings:
        return Savings(
            self.receipts + receipts,
            self.duplicates + duplicates,
            self.tokens + tokens,
            round(self.usd + usd, 9),
        )


@frozen_record(frozen=True, slots=True)
class OpeningRecord:
    """One time that a process held a run."""

    workflow_id: str
    epoch: int
    holder_id: str
    began_at: float
    ended_at: float | None = None
    ended: OpeningEnd | None = None
    """None: the process still holds the run, or was killed and no process has looked since."""
    receipts: int | None = None
    """What it saved. None: it was never released, so it could not say."""
    duplicates: int | None = None
    tokens: int | None = None
    usd: float | None = None
    traceparent: str | None = None
    """The trace context of the span about it, as W3C writes it; None: it was not traced."""

    def ended_as(self, ended: OpeningRecord) -> OpeningRecord:
        """Return the same opening with the end of another record. What it began with stays."""
        began = (self.workflow_id, self.epoch, self.holder_id, self.began_at)
        saved = (ended.receipts, ended.duplicates, ended.tokens, ended.usd)
        return OpeningRecord(*began, ended.ended_at, ended.ended, *saved, self.traceparent)

    @property
    def trace_id(self) -> str | None:
        """The trace that shows this opening, if there is one."""
        found = None if self.traceparent is None else _TRACEPARENT.fullmatch(self.traceparent)
        return None if found is None else found[1]


_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def begun_by(
    run: RunRecord, at: float | None, traceparent: str | None = None
) -> OpeningRecord | None:
    """Return the opening that a claim begins. None: the run is only enqueued, or it is upkeep."""
    if run.holder_id is None or at is None:
        return None
    return OpeningRecord(run.workflow_id, run.epoch, run.holder_id, at, traceparent=traceparent)


def trace_opening(
    openings: MutableMapping[tuple[str, int], OpeningRecord],
    run: RunRecord,
    traceparent: str | None,
) -> None:
    """Note the trace context of the current opening of a run. None: nothing changes."""
    known = openings.get((run.workflow_id, run.epoch))
    if known is not None and traceparent is not None:
        openings[run.workflow_id, run.epoch] = replace(known, traceparent=traceparent)


def end_of(status: RunStatus) -> OpeningEnd:
    """Return how an opening ended that left the run with this status."""
    return _ENDS[status]
