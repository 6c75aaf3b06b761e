"""The durability interface: what every store does, and when a change is durable.

Every change is one :class:`Commit`, and a commit is one transaction: it is applied completely or
not at all. Promises kept here: P5 (no row without the step it starts from, no step without its
rows), P6 (an overtaken holder cannot write), P7 (repeating a commit changes nothing).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import field
from typing import Protocol, runtime_checkable

from nottwice.errors import RunRemoved, UsageError
from nottwice.model.call import CallIdentity, CallRow, CallStatus
from nottwice.model.data.records import frozen_record, light_record
from nottwice.model.failure import Failure
from nottwice.model.policy import ChargeRecord
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
from nottwice.model.runs.labels import Tags
from nottwice.model.runs.limits import LimitUse, Meter
from nottwice.model.runs.notices import NoticeRecord
from nottwice.model.runs.openings import OpeningEnd, OpeningRecord, Savings
from nottwice.model.runs.tally import ReadyCount, Tally
from nottwice.model.tools.tool_record import ToolRecord
from nottwice.store.claiming import ClaimedRun, ClaimRequest
from nottwice.store.takers import NoticeStore
from nottwice.store.workers import WorkerStore

LEDGER = ""
"""The id that means the ledger itself where an audit entry names a run. No run has this id."""


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
    """Charge a call to a meter, unless the meter would then show more than ``at_most``.

    A meter shows the sum of what was charged to it after ``since``, or of everything. A call has at
    most one charge on a meter: a new charge replaces the old one.
    """

    charge: ChargeRecord
    at_most: int | None = None
    since: float | None = None


@frozen_record(frozen=True, slots=True)
class Claim:
    """Become the holder: create the run, or take it over from epoch ``after_epoch``.

    A run of epoch 0 without a holder is only enqueued. The first process to claim it starts it.
    """

    run: RunRecord
    after_epoch: int | None = None
    at: float | None = None
    """When the opening begins. None: the claim is upkeep, which is not recorded as an opening."""
    left: OpeningEnd = OpeningEnd.TAKEN_OVER
    """How the opening of the holder before ended, if it was not released."""
    traceparent: str | None = None
    """The trace context of the span about the opening that begins, if it is traced."""

    @property
    def fence(self) -> Fence | None:
        """What its holder shows with every write; None if the run is only enqueued.

        The commit that claims a run may also write as its holder (P300).
        """
        held = self.run.holder_id
        return None if held is None else Fence(held, self.run.epoch)


@frozen_record(frozen=True, slots=True)
class RunUpdate:
    """A new status, written by the holder. ``release`` releases the run."""

    status: RunStatus
    at: float
    failure: Failure | None = None
    release: bool = False
    waits: tuple[Wait, ...] = ()
    graph_id: str | None = None
    """The graph that the run is bound to from now on (V4); None keeps the current one."""
    released_at: float | None = None
    """When the opening ends, if that is not ``at``: a run may be put back as it was before."""
    saved: Savings = Savings()
    """What this opening got from the ledger."""
    traceparent: str | None = None
    """The trace context of this opening, if its claim did not have it. None: as it is stored."""


@frozen_record(frozen=True, slots=True)
class EventWrite:
    """Send an event to a run; or, as the run's holder, receive an event that was not received yet.

    The event id identifies it, so an event that already exists is not sent twice.
    """

    event: EventRecord


@frozen_record(frozen=True, slots=True)
class NoticeWrite:
    """Write ``notice`` if the outbox still shows what the writer saw: ``after``, or no notice."""

    notice: NoticeRecord
    after: NoticeRecord | None = None


@frozen_record(frozen=True, slots=True)
class Removal:
    """Remove data of a finished run that is no longer needed, if its epoch is still the same.

    ``run`` is what remains: the run's tombstone. The first removal raises the epoch, so a process
    that was about to claim the run has to read it again. Audit entries are never removed.
    """

    run: RunRecord
    after_epoch: int
    calls: tuple[CallIdentity, ...] = ()
    steps: tuple[tuple[str, str], ...] = ()
    """Step visits: the node and the checkpoint of each."""
    rest: bool = False
    """Also remove its checkpoints, events, reviews and evidence, and all remaining steps."""

    def __post_init__(self) -> None:
        if self.run.status is not RunStatus.REMOVED or self.run.holder_id is not None:
            raise UsageError(
                f"A removal leaves only a tombstone of run {self.run.workflow_id!r}, and a "
                "tombstone has no holder. Nothing was removed."
            )


@light_record(frozen=True, slots=True)
class Commit:
    """One transaction. Without a fence, a commit may write only new runs, reviews, evidence, audit
    entries, new events and graphs, and what retention removes of finished runs. These are the only
    things that a process other than the holder may write (B4)."""

    workflow_id: str
    fence: Fence | None = None
    claim: Claim | None = None
    run: RunUpdate | None = None
    unless_blocked: bool = False
    """Refuse the whole commit while the run has an open review (D11)."""
    calls: tuple[CallWrite, ...] = ()
    steps: tuple[StepRecord, ...] = ()
    reviews: tuple[ReviewWrite, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    audit: tuple[AuditEntry, ...] = ()
    checkpoints: tuple[CheckpointRecord, ...] = ()
    dropped: tuple[int, ...] = ()
    """Versions of checkpoints to remove. The caller rebuilds those that depend on them."""
    events: tuple[EventWrite, ...] = ()
    charges: tuple[ChargeWrite, ...] = ()
    """If a meter has no room for a charge, the whole commit is refused as Outdated."""
    graph: GraphRecord | None = None
    """Recorded if the ledger does not have this id yet; an existing graph stays unchanged."""
    tools: tuple[ToolRecord, ...] = ()
    """Recorded under their names. A tool that is declared differently replaces the old record."""
    removal: Removal | None = None
    group: str | None = None
    """With ``unless_blocked``: also refuse it while another run of this group has an open review
    (P301)."""
    notices: tuple[NoticeWrite, ...] = ()
    """What takers write: leases, acknowledgements, and what they add (P332). The notices that
    follow from the rest of a commit are not listed."""
    forgotten: tuple[str, ...] = ()
    """Ids of notices to remove, if they are there."""
    only_calls: bool = field(init=False, repr=False, compare=False)
    """Whether the commit writes nothing but calls, as the two commits of every effect do. Computed
    once, because it is asked often."""

    def __post_init__(self) -> None:
        beside = self.claim or self.run or self.steps or self.reviews or self.evidence or self.audit
        rest = self.checkpoints or self.dropped or self.events or self.charges or self.graph
        last = self.tools or self.removal or self.notices or self.forgotten
        only_calls = not (beside or rest or last)
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
                "Only the holder of a run may write its calls, steps and status, or receive an "
                "event that was sent to it. Nothing was written."
            )
        claim = self.claim
        if claim is not None and self.fence not in (None, claim.fence):
            raise UsageError(
                f"A commit that claims run {self.workflow_id!r} shows the fence of another claim. "
                "Nothing was written."
            )
        if self.removal is not None and (self.fence is not None or self.claim is not None):
            raise UsageError(
                "A run cannot have a holder while data of it is removed. Nothing was removed."
            )

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
        named: list[str] = []
        for records in (self.steps, self.evidence, self.audit, self.checkpoints):
            # Most commits have none of them, and an empty loop costs much less than a generator.
            for record in records:
                named.append(record.workflow_id)
        for review in self.reviews:
            named.append(review.review.identity.workflow_id)
        for event in self.events:
            named.append(event.event.workflow_id)
        for charge in self.charges:
            named.append(charge.charge.identity.workflow_id)
        for notice in self.notices:
            named.append(notice.notice.workflow_id)
        if self.claim is not None:
            named.append(self.claim.run.workflow_id)
        if self.removal is not None:
            named.append(self.removal.run.workflow_id)
            named.extend(identity.workflow_id for identity in self.removal.calls)
        return named.count(self.workflow_id) < len(named)


class Blocked(Exception):
    """A commit with ``unless_blocked`` found open reviews. Internal: callers raise RunBlocked."""

    def __init__(self, reviews: Sequence[Review]) -> None:
        super().__init__(f"{len(reviews)} open reviews")
        self.reviews = tuple(reviews)


class Outdated(Exception):
    """The store no longer shows what the writer saw. Internal: callers read again."""


class Store(NoticeStore, WorkerStore, Protocol):
    """What the engine needs from a store. Reads see every commit that was reported durable."""

    location: str
    """Where the ledger is, in a form for people."""
    reads_can_block: bool
    """Whether a read may have to wait for a lock of another process, a server or a network. If so,
    an event loop reads in a thread. Reading from a local file takes less time than starting a
    thread."""
    claims_many: bool
    """Whether ``claim_ready`` claims runs. If not, a worker reads ``ready_runs`` and claims one
    after the other."""
    keeps_limits: bool
    """Whether ``acquire`` counts. If not, an app with limits is refused."""

    def commit(self, commit: Commit) -> None:
        """Apply one commit.

        Durable: when it returns. Raises OwnershipLost, Blocked, Outdated, KeyConflict or StoreError
        with nothing written; CommitUnknown when it may or may not be durable.
        """

    def commit_soon(self, commit: Commit) -> Future[None]:
        """The same without blocking the caller. Durable: when the future has a result."""

    def holder(self) -> HolderRecord:
        """This process as a holder. It can be proven alive for as long as it lives.

        Other processes find it with ``load_holder``, at the latest from its first commit on.
        """

    def load_holder(self, holder_id: str) -> HolderRecord | None: ...

    def life_of(self, holder_id: str) -> Life:
        """What can be proven about a holder now."""

    def lease_left(self, holder_id: str) -> float | None:
        """In how many seconds a silent holder can be overtaken; None: as soon as it dies."""

    def load_run(self, workflow_id: str) -> RunRecord | None: ...

    def load_runs(self, run_ids: Collection[str]) -> dict[str, RunRecord]:
        """Those of these runs that exist, by their ids."""

    def load_call(self, identity: CallIdentity) -> CallRow | None: ...

    def load_step(
        self, workflow_id: str, node_id: str, checkpoint_id: str
    ) -> StepRecord | None: ...

    def load_review(self, review_id: str) -> Review | None: ...

    def calls(
        self, workflow_id: str, *, limit: int | None = None, after: CallIdentity | None = None
    ) -> list[CallRow]:
        """The calls of a run, oldest first. ``after``: only the calls after this one."""

    def last_calls(
        self, workflow_id: str, *, limit: int, before: CallIdentity | None = None
    ) -> list[CallRow]:
        """The last calls of a run, oldest first. ``before``: only calls before this one.

        The cost depends on ``limit`` and not on the length of the run.
        """

    def count_calls(self, workflow_id: str) -> int: ...

    def calls_in_doubt(self, workflow_id: str | None = None) -> list[CallRow]:
        """The calls of a run, or of all runs, that may or may not have happened, oldest first.

        A completed or removed run has none, so for all runs only the others are searched.
        """

    def standing(self, workflow_id: str) -> Standing:
        """What must be known before a run continues, read in a single query."""

    def calls_under(
        self, workflow_id: str, node_id: str, *, visit: str | None = None
    ) -> list[CallRow]:
        """The calls of a node, its branches and the steps inside it, oldest first.

        ``visit``: only the calls of one visit of the node, by its checkpoint id, and of the steps
        inside it. The calls of a loop's other visits are not read.
        """

    def steps(
        self, workflow_id: str, *, after: int = -1, in_progress_at: str | None = None
    ) -> list[StepRecord]:
        """The step visits of a run in the order they started. ``after``: only greater ordinals.

        ``in_progress_at``: only the visits of this node that are in progress. The other visits,
        however many a loop has, are not read.
        """

    def last_visits(self, workflow_id: str) -> list[LastVisit]:
        """The last visit of every node that a run has visited, in the order they started.

        The cost depends on the number of nodes, even if a loop visited one ten thousand times.
        """

    def last_use_of_key(self, tool_name: str, key: str) -> CallRow | None:
        """The row, of any run, that used this key last; ``key_since`` says when the key was new."""

    def runs(
        self,
        *,
        limit: int | None = None,
        prefix: str = "",
        graph: str | None = None,
        status: RunStatus | None = None,
        queued: bool | None = None,
        before: RunRecord | None = None,
        tags: Tags = (),
        group: str | None = None,
    ) -> list[RunRecord]:
        """Runs, last changed first. ``prefix``: only runs whose id begins with this text.

        ``graph``: only runs of this graph, by its name or its id. ``queued``: only runs that are
        merely enqueued (True), or only the others (False). ``before``: only runs that follow this
        one in the list, as it was read. ``tags``: only runs that have all of these. ``group``: only
        runs of this group. A page must not become slower as the ledger grows.
        """

    def count_runs(
        self,
        *,
        prefix: str = "",
        graph: str | None = None,
        tags: Tags = (),
        group: str | None = None,
    ) -> list[RunCount]:
        """The number of runs by status, and of running runs also by holder."""

    def tally(
        self,
        *,
        now: float,
        prefix: str = "",
        graph: str | None = None,
        only_waiting: bool = False,
        limit: int = 0,
    ) -> Tally:
        """The state of the runs, grouped by version, and the number of open reviews.

        ``only_waiting``: count no others; those that are queued or finished can be many.
        ``limit``: how many ready runs and open reviews to include as records. Runs are counted
        without being loaded. If a run waits for a child, only the end of the child makes it ready.
        """

    def reviews(self, workflow_id: str | None = None) -> list[Review]:
        """All reviews of a run, or of the whole ledger, oldest first."""

    def open_reviews(self, workflow_id: str | None = None) -> list[Review]:
        """Reviews that are open, or decided and not used yet, oldest first."""

    def find_reviews(self, prefix: str) -> list[Review]: ...

    def group_reviews(self, group: str) -> list[Review]:
        """Reviews that hold back new effects of the runs of a group, oldest first (P301)."""

    def evidence(self, workflow_id: str, call_id: str | None = None) -> list[Evidence]: ...

    def audit(self, workflow_id: str | None = None) -> list[AuditEntry]: ...

    def charged(self, meter: str, *, since: float | None = None, besides: str = "") -> int:
        """What a meter shows: the sum of what was charged to it after ``since``, or ever.

        The call ``besides`` does not count. Neither does a call that failed permanently, unless its
        charge says that failures count.
        """

    def checkpoint_chain(
        self, workflow_id: str, version: int | None = None
    ) -> list[CheckpointRecord]:
        """The checkpoints that a version is rebuilt from, in order.

        These are its snapshot and every later checkpoint up to the version that is not turned. A
        turned version names a later version instead of a snapshot. It is rebuilt from everything
        that the later version is rebuilt from, and from the turned checkpoints from the wanted
        version on. ``version=None`` is the newest version. The list is empty if there is none.
        """

    def checkpoints(self, workflow_id: str) -> list[CheckpointRecord]:
        """All checkpoints of a run in the order of their versions, without their text."""

    def events(self, workflow_id: str, name: str | None = None) -> list[EventRecord]:
        """The events that were sent to a run, in the order of their arrival."""

    def load_graph(self, graph_id: str) -> GraphRecord | None: ...

    def graphs(self) -> list[GraphRecord]:
        """All graphs recorded in this ledger, by id."""

    def openings(self, workflow_id: str) -> list[OpeningRecord]:
        """The processes that held a run, in order. The last one may still hold it."""

    def load_tool(self, tool_name: str) -> ToolRecord | None:
        """What was last recorded about a tool."""

    def tools(self) -> list[ToolRecord]:
        """All tools recorded in this ledger, by name."""

    def children(self, workflow_id: str) -> list[RunRecord]:
        """The runs that a run has spawned, oldest first."""

    def ready_runs(
        self, *, begun: bool, now: float, limit: int, without: Collection[str] = ()
    ) -> list[RunRecord]:
        """The runs of graphs that have no holder and can continue now, ready longest first.

        ``begun=True``: runs that were opened before and are interrupted, or wait for something that
        has arrived: a time, a decision, an event, the end of a child run. ``begun=False``: runs
        that are only enqueued. ``without``: ids of graphs to leave out. No ready run may be
        missing, even if an event arrived at the very moment the run was released; a run too many
        does no harm. Forks are left out. ``now`` matters only for timers: a clock that was set back
        must not hide other runs. Finished and waiting runs must not make this slower.
        """

    def claim_ready(self, wanted: ClaimRequest) -> list[ClaimedRun]:
        """Claim runs of graphs that can continue, all for this process (P308).

        Durable: when it returns. The caller drives every run that it gets, or releases it. Only
        called if ``claims_many`` says so.
        """

    def count_ready(self, *, now: float, limit: int) -> list[ReadyCount]:
        """How many runs ``ready_runs`` would find, by graph, new and begun ones each counted up to
        ``limit``. It may be asked every few seconds, however many runs there are (P313)."""

    def holders_of_runs(self) -> list[str]:
        """The holders of runs of graphs, dead or alive, each listed once."""

    def lives(self) -> dict[str, Life]:
        """What can be proven now about each of the holders of runs of graphs."""

    def runs_held_by(self, holder_id: str) -> list[RunRecord]:
        """The runs of graphs that this holder has, or had when it died, oldest claim first."""

    def expired_runs(
        self, *, ended_before: float, due_before: float, limit: int, after: str = ""
    ) -> list[RunRecord]:
        """Runs that retention should look at, by id, without the runs that others spawned.

        These are finished runs that have not changed since ``ended_before``, and tombstones with
        remaining data that was due before ``due_before``. ``after``: only greater ids.
        """

    def load_head(self, workflow_id: str) -> str | None:
        """What the rows of a run add up to (model/sealing/seal.py); None if it is not sealed."""

    def flaws(self, workflow_id: str, *, thorough: bool = False) -> list[str]:
        """What does not fit in a sealed run, as sentences; empty if everything fits.

        Compares the run's record and its head with the rows. ``thorough`` also checks the seal of
        every row. The id LEDGER means the data that belongs to no run. Without a key the list is
        always empty.
        """

    def adopt(self, workflow_id: str, *, entry: AuditEntry) -> None:
        """Seal a run, or the data that belongs to no run (LEDGER), as it is, and record who did so.

        Durable: when it returns. Raises KeyMissing without a key, UnknownRun, RunBusy.
        """

    def acquire(self, use: LimitUse, *, now: float) -> tuple[float, Meter] | None:
        """Count a call or a run that begins under limits (P311). None: it may begin. Otherwise: in
        how many seconds to look again, and the meter that is full.

        Durable: when it returns None. Raises UsageError if the store keeps no limits.
        """

    def end_use(self, use: LimitUse) -> None:
        """Note that what was counted has ended. Durable: when it returns."""

    def close(self) -> None: ...


CommitMany = Callable[[Sequence[Commit]], Sequence[BaseException | None]]


@runtime_checkable
class ManyFiles(Protocol):
    """A store in which one part can be damaged while the rest is intact."""

    def unreadable(self) -> list[str]:
        """A description of each part that cannot be read."""

    def untrusted_runs(self) -> list[str]:
        """The ids of the runs whose seals do not fit, which no list shows."""


def check_not_removed(known: RunRecord | None, *, location: str | None = None) -> None:
    """Refuse to claim a tombstone. Its receipts are gone, so its effects would happen again.

    ``location``: the ledger that it is in, if the caller knows it.
    """
    if known is not None and known.status is RunStatus.REMOVED:
        raise RunRemoved(removed_text(known, location), run_id=known.workflow_id)


def commit_of(one: ClaimedRun) -> Commit:
    """The commit that would have claimed a run alone."""
    assert one.run is not None
    claim = Claim(one.run, one.found.epoch, one.run.claimed_at)
    return Commit(workflow_id=one.run.workflow_id, claim=claim)
