"""Records of runs, steps and the processes that hold them."""

from __future__ import annotations

import enum
import shlex
from typing import Any, Final, NamedTuple

from nottwice.errors import LedgerCorrupt
from nottwice.model import values
from nottwice.model.data.calendar import utc
from nottwice.model.data.records import frozen_record, light_record
from nottwice.model.data.shapes import checked, not_believed
from nottwice.model.failure import Failure
from nottwice.model.runs.labels import Labels, Tags

CANCEL: Final = "nottwice.cancel"
"""The event that asks the driver of a run to stop."""


class RunStatus(enum.Enum):
    """The status of a run. A RUNNING run whose holder is dead was interrupted.

    IDLE is a run between two turns: the programs that were attached to it have left, and may come
    back. It waits for nothing, and is not over (P248).

    REMOVED is the tombstone of a run that retention has removed in whole or in part. It can never
    be opened again, because its receipts are gone and its effects would happen a second time (L8).
    """

    RUNNING = "running"
    WAITING = "waiting"
    IDLE = "idle"
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"
    REMOVED = "removed"

    @property
    def is_final(self) -> bool:
        """Whether nothing can ever happen in it again. A failed run can be resumed."""
        return self in (RunStatus.COMPLETED, RunStatus.ABORTED, RunStatus.REMOVED)


class StepStatus(enum.Enum):
    """The start and end marks of a step (D6). PENDING is never stored: it has not begun."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "done"
    FAILED = "failed"


class WaitKind(enum.Enum):
    """What a waiting run waits for."""

    REVIEW = "review"
    TIMER = "timer"
    EVENT = "event"
    CHILD = "child"


@frozen_record(frozen=True, slots=True)
class Wait:
    """One reason why a run waits. A waiting run without a reason would wait forever."""

    kind: WaitKind
    subject: str
    """The review's id, the event's name, the child run's id, or what the timer is for."""
    node_id: str
    until: float | None = None
    """When it ends on its own: when a timer is due, or an event is too late."""

    def to_plain(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "subject": self.subject,
            "step": self.node_id,
            "until": self.until,
        }

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> Wait:
        """Read what ``to_plain`` wrote. Raises LookupError, TypeError or ValueError otherwise."""
        return checked(
            Wait(WaitKind(plain["kind"]), plain["subject"], plain["step"], plain["until"])
        )


class Life(enum.Enum):
    """What can be proven about a holder."""

    ALIVE = "alive"
    DEAD = "dead"
    NOT_PROVEN = "not proven"


@frozen_record(frozen=True, slots=True)
class HolderRecord:
    """A process that can hold runs, with what proves its life or death."""

    holder_id: str
    host: str
    machine_id: str
    boot_id: str
    pid_namespace: str
    pid: int
    pid_started: str
    since: float
    lock_file: str | None = None
    """The file in which it keeps a byte locked, by device and inode. None: there is none."""

    def describe(self) -> str:
        return f"pid {self.pid} on {self.host}"


@frozen_record(frozen=True, slots=True)
class RunRecord:
    """One run. ``epoch`` grows with every claim and fences overtaken holders."""

    workflow_id: str
    status: RunStatus
    epoch: int
    holder_id: str | None
    created_at: float
    updated_at: float
    claimed_at: float | None = None
    failure: Failure | None = None
    graph_id: str | None = None
    """The graph it is bound to, ``name@version`` as it was when the run began. None: no graph."""
    input_json: str | None = None
    """Its input: the state of a graph's run, or what ``plain_input`` wrote for a plain run."""
    parent_id: str | None = None
    root_id: str | None = None
    """The outermost run that it was spawned from. They are kept and removed together."""
    origin: str | None = None
    """The run that it was forked from. It has that run's receipts and makes no new effects."""
    waits: tuple[Wait, ...] = ()
    tags: Tags = ()
    """What callers search it by; see labels.py."""
    group: str | None = None
    """The group of runs that it belongs to."""
    traceparent: str | None = None
    """The trace context of its last opening that was traced, or of the process that enqueued it."""

    def given_input(self) -> str:
        """Return the input of a run of a graph. Raises LedgerCorrupt if it has none."""
        if self.input_json is None:
            raise LedgerCorrupt(
                f"Run {self.workflow_id!r} of graph {self.graph_id!r} has no input on record. It "
                "was not used, and nothing was done. Restore the ledger from a backup, or ask "
                "for help with this text."
            )
        return self.input_json

    @property
    def version(self) -> str | None:
        """The version of the code that it began with. None: it has none, or was removed."""
        if self.graph_id is not None:
            return self.graph_id.rpartition("@")[2]
        if self.input_json is None:
            return None
        with not_believed(f"What run {self.workflow_id!r} began with"):
            version = values.decode_object(self.input_json).get("version")
            if not isinstance(version, str | None):
                raise TypeError("the version is not text")
            return version

    @property
    def labels(self) -> Labels:
        """Its tags and its group."""
        return Labels(self.tags, self.group)

    @property
    def is_queued(self) -> bool:
        """Whether it was only enqueued and has not started yet."""
        return self.epoch == 0

    @property
    def wake_at(self) -> float | None:
        """When the first of its waits ends on its own."""
        return min((wait.until for wait in self.waits if wait.until is not None), default=None)


def plain_input(version: str) -> str:
    """Return the input of a run without a graph: the version of its code."""
    return values.encode({"version": version})


@frozen_record(frozen=True, slots=True)
class RunCount:
    """How many runs have one status and, if they are running, one holder."""

    status: RunStatus
    holder_id: str | None
    """Also None for every status but running: the last holder of a finished run does not matter."""
    runs: int
    queued: int
    """How many of them were only enqueued."""


@light_record(frozen=True, slots=True)
class StepRecord:
    """One visit of one step."""

    workflow_id: str
    node_id: str
    checkpoint_id: str
    status: StepStatus
    ordinal: int
    started_at: float
    finished_at: float | None = None
    failure: Failure | None = None
    output_file: str | None = None
    """The file that it named as its output; see output_file.py."""


@frozen_record(frozen=True, slots=True)
class LastVisit:
    """The last visit of one node or step of a run, and how many there were."""

    step: StepRecord
    visits: int


class Standing(NamedTuple):
    """What there is to look at before a run continues, but not its contents."""

    in_doubt: bool = False
    """Some calls may or may not have happened."""
    reviews: bool = False
    """Some reviews are open, or decided and not used yet."""
    events: bool = False
    ledger_audit: bool = False
    """The ledger has entries that belong to no run, such as the mark of a copy."""
    last_ordinal: int = 0
    """The number of the step that began last. 0: there is none."""


@light_record(frozen=True, slots=True)
class CheckpointRecord:
    """One saved version of a run: whole, or as the difference to another version (L10)."""

    workflow_id: str
    version: int
    snapshot: int
    """The version that is kept whole and from which this one is rebuilt. Its own number if it is a
    snapshot. A later number: it is turned, and rebuilt from that version backwards."""
    node_id: str
    """The node that had just ended; ``/`` for the input; ``/name@version`` for a migration."""
    json: str
    created_at: float

    @property
    def is_snapshot(self) -> bool:
        return self.snapshot == self.version

    @property
    def is_turned(self) -> bool:
        return self.snapshot > self.version


@frozen_record(frozen=True, slots=True)
class EventRecord:
    """Something that happened outside, sent to a run by name and delivered once."""

    workflow_id: str
    event_id: str
    name: str
    json: str
    sent_at: float
    sent_by: str
    received_by: str | None = None
    """The call that took it."""
    received_at: float | None = None
    traceparent: str | None = None
    """The trace context of the sender, as W3C writes it; None: it was not traced."""


@frozen_record(frozen=True, slots=True)
class GraphRecord:
    """A graph as this ledger first saw it. It never changes under its id."""

    graph_id: str
    json: str
    recorded_at: float


@frozen_record(frozen=True, slots=True)
class Fence:
    """What a holder presents with every write."""

    holder_id: str
    epoch: int


def removed_text(run: RunRecord, location: str | None) -> str:
    """Return the text for a caller that asks for a run that retention has removed.

    ``location``: the ledger, for the command; None: it is not known here.
    """
    ended = utc(run.updated_at)
    ledger = "" if location is None else f" --store {shlex.quote(location)}"
    return (
        f"Run {run.workflow_id!r} ended on {ended:%Y-%m-%d} and was later removed by retention. "
        "Nothing was done: its receipts are gone, so everything it did would be done again. "
        "To do it once more on purpose, start a run with another id. See what is left: nottwice "
        f"show {shlex.quote(run.workflow_id)}{ledger}"
    )
