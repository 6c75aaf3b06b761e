"""The seam for durability: what every store does, and when it is durable.

Every change is one :class:`Commit`, and one commit is one transaction: it happens whole, or not
at all. Promises kept here: P5 (no row without the step it starts from, no step without its
rows), P6 (an overtaken holder cannot write), P7 (repeating a commit changes nothing).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import field
from typing import Protocol, runtime_checkable

from nottwice.errors import RunRemoved, UsageError
from nottwice.model.call import CallIdentity, CallRow, CallStatus
from nottwice.model.failure import Failure
from nottwice.model.policy import ChargeRecord
from nottwice.model.records import frozen_record, light_record
from nottwice.model.review import AuditEntry, Evidence, Review
from nottwice.model.run import (
    CheckpointRecord,
    EventRecord,
    Fence,
    GraphRecord,
    HolderRecord,
    LastVisit,
    Life,
    RunCount,
    RunRecord,
    RunStatus,
    Standing,
    StepRecord,
    Wait,
    removed_text,
)
from nottwice.model.tally import Tally

LEDGER = ""
"""What stands for the ledger itself where an audit entry names a run; no run has this id."""


@light_record(frozen=True, slots=True)
class CallWrite:
    """Write ``row`` if the ledger still shows what the writer saw: ``after``, or no row."""

    row: CallRow
    after: tuple[CallStatus, str] | None = None


@frozen_record(frozen=True, slots=True)
class ReviewWrite:
    """Write ``review`` if its stored version is still ``after_version``, or there is none."""

    review: Review
    after_version: int | None = None


@frozen_record(frozen=True, slots=True)
class ChargeWrite:
    """Charge a call to a meter, if the meter shows at most ``at_most`` with it.

    What the meter shows is what was charged to it after ``since``, or ever. A call is charged once:
    what it was charged before is replaced.
    """

    charge: ChargeRecord
    at_most: int | None = None
    since: float | None = None


@frozen_record(frozen=True, slots=True)
class Claim:
    """Become the holder: create the run, or take it over from epoch ``after_epoch``.

    A run without a holder, of epoch 0, is one that is only enqueued: whoever takes it begins it.
    """

    run: RunRecord
    after_epoch: int | None = None


@frozen_record(frozen=True, slots=True)
class RunUpdate:
    """A new status, written by the holder; ``release`` gives the run up."""

    status: RunStatus
    at: float
    failure: Failure | None = None
    release: bool = False
    waits: tuple[Wait, ...] = ()
    graph_id: str | None = None
    """The graph that the run is bound to from now on (V4); None: the one that it was."""


@frozen_record(frozen=True, slots=True)
class EventWrite:
    """Tell a run of an event; or, as its holder, take one that nobody has taken yet.

    An event that is there already is not told twice: its id names it.
    """

    event: EventRecord


@frozen_record(frozen=True, slots=True)
class Removal:
    """Take away what nobody needs any more of a run that is over, if its epoch is as it was seen.

    ``run`` is what is left of it: its tombstone. The first removal raises the epoch, so that who
    was about to claim the run has to look again. Audit entries are never removed.
    """

    run: RunRecord
    after_epoch: int
    calls: tuple[CallIdentity, ...] = ()
    steps: tuple[tuple[str, str], ...] = ()
    """Visits of steps: the node and the checkpoint of each."""
    rest: bool = False
    """Also its checkpoints, events, reviews and evidence, and the steps that are left."""

    def __post_init__(self) -> None:
        if self.run.status is not RunStatus.REMOVED or self.run.holder_id is not None:
            raise UsageError(
                f"Only a tombstone can be left of run {self.run.workflow_id!r}, and nobody holds "
                "one. Nothing was removed."
            )


@light_record(frozen=True, slots=True)
class Commit:
    """One transaction. Without a fence only new runs, reviews, evidence, audit, new events and
    graphs may be written, and what retention removes of runs that are over: what others than the
    holder may say is a short list (B4)."""

    workflow_id: str
    fence: Fence | None = None
    claim: Claim | None = None
    run: RunUpdate | None = None
    unless_blocked: bool = False
    """Refuse the whole commit while a review of the run is open (D11)."""
    calls: tuple[CallWrite, ...] = ()
    steps: tuple[StepRecord, ...] = ()
    reviews: tuple[ReviewWrite, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    audit: tuple[AuditEntry, ...] = ()
    checkpoints: tuple[CheckpointRecord, ...] = ()
    dropped: tuple[int, ...] = ()
    """Versions of checkpoints to remove; whoever removes one rebuilds those that need it."""
    events: tuple[EventWrite, ...] = ()
    charges: tuple[ChargeWrite, ...] = ()
    """Refused, with the whole commit, as Outdated if a meter has no room for it."""
    graph: GraphRecord | None = None
    """Recorded if the ledger does not know its id; a known one is left as it is."""
    removal: Removal | None = None
    only_calls: bool = field(init=False, repr=False, compare=False)
    """Nothing is written but calls: the two commits of every effect, and so told apart once."""

    def __post_init__(self) -> None:
        beside = self.claim or self.run or self.steps or self.reviews or self.evidence or self.audit
        rest = self.checkpoints or self.dropped or self.events or self.charges or self.graph
        only_calls = not (beside or rest or self.removal)
        object.__setattr__(self, "only_calls", only_calls)
        strangers = False
        for write in self.calls:
            strangers |= write.row.identity.workflow_id != self.workflow_id
        if not only_calls:
            strangers |= self._names_strangers()
        if strangers:
            raise UsageError(
                f"A commit for run {self.workflow_id!r} names another run, which its fence does "
                "not cover. Nothing was written. Make one commit for each run."
            )
        if self.fence is None and not self._may_be_said_by_all():
            raise UsageError(
                "Only the holder of a run may write its calls, steps and status, or take an event "
                "that it was told."
            )
        if self.removal is not None and (self.fence is not None or self.claim is not None):
            raise UsageError("Nobody holds a run of which something is removed.")

    def _may_be_said_by_all(self) -> bool:
        return not (
            self.calls
            or self.steps
            or self.run
            or self.checkpoints
            or self.dropped
            or self.charges
            or any(write.event.received_by is not None for write in self.events)
        )

    def _names_strangers(self) -> bool:
        named = {
            *(write.review.identity.workflow_id for write in self.reviews),
            *(write.event.workflow_id for write in self.events),
            *(write.charge.identity.workflow_id for write in self.charges),
        }
        for records in (self.steps, self.evidence, self.audit, self.checkpoints):
            named.update(record.workflow_id for record in records)
        if self.claim is not None:
            named.add(self.claim.run.workflow_id)
        if self.removal is not None:
            named.add(self.removal.run.workflow_id)
            named.update(identity.workflow_id for identity in self.removal.calls)
        return not named <= {self.workflow_id}


class Blocked(Exception):
    """A commit with ``unless_blocked`` met open reviews. Internal: callers raise RunBlocked."""

    def __init__(self, reviews: Sequence[Review]) -> None:
        super().__init__(f"{len(reviews)} open reviews")
        self.reviews = tuple(reviews)


class Outdated(Exception):
    """The store no longer shows what the writer saw. Internal: callers read again."""


class Store(Protocol):
    """What the engine needs from a store. Reads see every commit that was reported durable."""

    location: str
    """Where the ledger is, as a person would name it."""
    reads_can_block: bool
    """Whether a read may have to wait: for a lock of somebody else, a server or a network. Then an
    event loop has it read in a thread. What is read from a local file is there sooner than a
    thread is."""

    def commit(self, commit: Commit) -> None:
        """Apply one commit.

        Durable: when it returns. Raises OwnershipLost, Blocked, Outdated, KeyConflict or StoreError
        with nothing written; CommitUnknown when it may or may not be durable.
        """

    def commit_soon(self, commit: Commit) -> Future[None]:
        """The same without blocking the caller. Durable: when the future has a result."""

    def holder(self) -> HolderRecord:
        """This process as a holder, provably alive for as long as it lives.

        Others find it with ``load_holder`` from its first commit on, at the latest.
        """

    def load_holder(self, holder_id: str) -> HolderRecord | None: ...

    def life_of(self, holder_id: str) -> Life:
        """What can be proven about a holder now."""

    def load_run(self, workflow_id: str) -> RunRecord | None: ...

    def load_call(self, identity: CallIdentity) -> CallRow | None: ...

    def load_step(
        self, workflow_id: str, node_id: str, checkpoint_id: str
    ) -> StepRecord | None: ...

    def load_review(self, review_id: str) -> Review | None: ...

    def calls(
        self, workflow_id: str, *, limit: int | None = None, after: CallIdentity | None = None
    ) -> list[CallRow]:
        """The calls of a run, oldest first; of those after another one, if that is named."""

    def last_calls(
        self, workflow_id: str, *, limit: int, before: CallIdentity | None = None
    ) -> list[CallRow]:
        """The last calls of a run, oldest first; of those before another one, if that is named.

        It costs what it shows, however long the run is.
        """

    def count_calls(self, workflow_id: str) -> int: ...

    def calls_in_doubt(self, workflow_id: str | None = None) -> list[CallRow]:
        """The calls of a run, or of all runs, that may or may not have happened, oldest first.

        A run that is completed or removed has none, so of all runs only the others are asked.
        """

    def standing(self, workflow_id: str) -> Standing:
        """What there is to look at before anybody goes on with a run, found out in one look."""

    def calls_under(
        self, workflow_id: str, node_id: str, *, visit: str | None = None
    ) -> list[CallRow]:
        """The calls of a node, its branches and the steps inside it, oldest first.

        ``visit``: only those of one visit of the node, by its checkpoint id, and of the steps
        inside it. The calls of a loop's other visits need not be read for that.
        """

    def steps(
        self, workflow_id: str, *, after: int = -1, in_progress_at: str | None = None
    ) -> list[StepRecord]:
        """The step visits of a run in the order they began; those whose ordinal is greater.

        ``in_progress_at``: only the visits of this node that are in progress. The others, however
        many a loop has, are not read for that.
        """

    def last_visits(self, workflow_id: str) -> list[LastVisit]:
        """Of every node that a run has visited the last visit, in the order they began.

        A loop of ten thousand visits is one of them: it costs what a run has in nodes.
        """

    def last_use_of_key(self, tool_name: str, key: str) -> CallRow | None:
        """The row of any run that used this key last; its ``key_since`` says since when."""

    def runs(
        self,
        *,
        limit: int | None = None,
        prefix: str = "",
        graph: str | None = None,
        status: RunStatus | None = None,
        queued: bool | None = None,
        before: RunRecord | None = None,
    ) -> list[RunRecord]:
        """Runs, last changed first; the identity ``prefix`` is matched literally.

        ``graph``: only runs of this graph, by its name or its id. ``queued``: only those that are
        merely enqueued, or only the others. ``before``: only those that come after this one in the
        list, as it was seen. A page must not become slower because there are more runs.
        """

    def count_runs(self, *, prefix: str = "", graph: str | None = None) -> list[RunCount]:
        """How many runs there are, by status, and those that are running by holder."""

    def tally(
        self,
        *,
        now: float,
        prefix: str = "",
        graph: str | None = None,
        over: bool = True,
        limit: int = 0,
    ) -> Tally:
        """How the runs stand, in groups by version; and of all reviews how many are open.

        ``over``: whether runs in which nothing can happen any more are counted, which are many.
        ``limit``: so many of the runs that are ready, and of the reviews that are open, are in it.
        Runs that are over are counted and not loaded, and so are those that wait. For a child that
        a run waits for, only its end counts as come.
        """

    def reviews(self, workflow_id: str | None = None) -> list[Review]:
        """All reviews of a run, or of the whole ledger, oldest first."""

    def open_reviews(self, workflow_id: str | None = None) -> list[Review]:
        """Reviews that are open, or decided and not used yet, oldest first."""

    def find_reviews(self, prefix: str) -> list[Review]: ...

    def evidence(self, workflow_id: str, call_id: str | None = None) -> list[Evidence]: ...

    def audit(self, workflow_id: str | None = None) -> list[AuditEntry]: ...

    def charged(self, meter: str, *, since: float | None = None, besides: str = "") -> int:
        """What a meter shows: the sum of what was charged to it after ``since``, or ever.

        Without what was charged to the call ``besides``, and without calls that failed for good and
        are not to count then.
        """

    def checkpoint_chain(
        self, workflow_id: str, version: int | None = None
    ) -> list[CheckpointRecord]:
        """What a version is rebuilt from, in order.

        That is its snapshot and everything since that is not turned. A version that is turned
        names a later one instead of a snapshot: then it is all that one is rebuilt from, and the
        turned ones from the version on. None: the newest version. Empty if there is none, or not
        this one.
        """

    def checkpoints(self, workflow_id: str) -> list[CheckpointRecord]:
        """All checkpoints of a run in order of their versions, without their text."""

    def events(self, workflow_id: str, name: str | None = None) -> list[EventRecord]:
        """The events that a run was told, in order of their arrival."""

    def load_graph(self, graph_id: str) -> GraphRecord | None: ...

    def graphs(self) -> list[GraphRecord]:
        """All graphs that this ledger has seen, by id."""

    def children(self, workflow_id: str) -> list[RunRecord]:
        """The runs that a run has spawned, oldest first."""

    def ready_runs(
        self, *, begun: bool, now: float, limit: int, without: Collection[str] = ()
    ) -> list[RunRecord]:
        """The runs of graphs that nobody holds and that can go on now, ready longest first.

        ``begun``: those that were opened before and are interrupted, or wait for something that has
        come: a time, a decision, an event, the end of a child run. Otherwise those that are only
        enqueued. ``without``: ids of graphs to leave out. None is ever missing, also if it was told
        something at the very moment it was given up; one too many does no harm. Forks are not
        shown. Only for timers is ``now`` asked: a clock that was put back must not hide the rest.
        Runs that are over or wait must not make it slower.
        """

    def holders_of_runs(self) -> list[str]:
        """The holders of runs of graphs, dead or alive, each once."""

    def runs_held_by(self, holder_id: str) -> list[RunRecord]:
        """The runs of graphs that somebody holds, or held when he died, oldest claim first."""

    def expired_runs(
        self, *, ended_before: float, due_before: float, limit: int, after: str = ""
    ) -> list[RunRecord]:
        """Runs that retention should look at, without those that others have spawned, by id.

        Those that are over and did not change since ``ended_before``, and tombstones of which
        something is left that was due before ``due_before``. ``after``: only greater ids.
        """

    def load_head(self, workflow_id: str) -> str | None:
        """What the rows of a run add up to (model/sealing/seal.py); None: the run is not sealed."""

    def flaws(self, workflow_id: str, *, thorough: bool = False) -> list[str]:
        """What does not fit in a run that is sealed, in words; empty: all of it fits.

        Its record and its head against what is there; ``thorough``: every row of it as well. The
        id LEDGER stands for what belongs to no run. Always empty without a key.
        """

    def adopt(self, workflow_id: str, *, entry: AuditEntry) -> None:
        """Seal a run, or what belongs to no run (LEDGER), as it is now, and record who did so.

        Durable: when it returns. Raises KeyMissing without a key, UnknownRun, RunBusy.
        """

    def close(self) -> None: ...


CommitMany = Callable[[Sequence[Commit]], Sequence[BaseException | None]]


@runtime_checkable
class ManyFiles(Protocol):
    """A store of which a part can be damaged while the rest is whole."""

    def unreadable(self) -> list[str]:
        """What is wrong with each part that cannot be read."""


def check_not_removed(known: RunRecord | None) -> None:
    """Refuse to claim a tombstone: its receipts are gone, so its effects would be made again."""
    if known is not None and known.status is RunStatus.REMOVED:
        raise RunRemoved(removed_text(known), run_id=known.workflow_id)
