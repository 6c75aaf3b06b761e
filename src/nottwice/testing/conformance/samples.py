"""Short constructors for all records that a store is tested with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nottwice.model.call import (
    CallIdentity,
    CallRow,
    CallStatus,
    PastAttempt,
    ResultKind,
    StoredResult,
)
from nottwice.model.failure import Failure, FailureClass
from nottwice.model.replay_class import ReplayClass
from nottwice.model.review import (
    AuditEntry,
    Decision,
    Evidence,
    Review,
    ReviewKind,
    ReviewStatus,
    Verb,
)
from nottwice.model.run import (
    CheckpointRecord,
    EventRecord,
    Fence,
    GraphRecord,
    RunRecord,
    RunStatus,
    StepRecord,
    StepStatus,
    Wait,
    WaitKind,
)
from nottwice.store.interface import CallWrite, Claim, Commit, EventWrite, Store

NOW = 1_700_000_000.0
RESULT = StoredResult(ResultKind.PLAIN, '{"id":7}')
FAILURE = Failure(FailureClass.PERMANENT, "ValueError", "no such account")


def identity(
    run: str = "run",
    *,
    node: str = "/",
    at: str = "start",
    tool: str = "send",
    arguments: str = "1",
) -> CallIdentity:
    return CallIdentity(run, node, at, tool, arguments)


def pending(who: CallIdentity | None = None, **changes: Any) -> CallRow:
    """Return an intent, as it is in the ledger before the effect."""
    who = who or identity()
    row = CallRow(
        identity=who,
        call_id=who.call_id,
        status=CallStatus.PENDING,
        replay_class=ReplayClass.UNSAFE_ON_REPLAY,
        attempt=1,
        attempt_id="attempt-1",
        holder_id="holder",
        args_json='{"to":"ann"}',
        created_at=NOW,
        started_at=NOW,
    )
    return row._replace(**changes)


def full_call() -> CallRow:
    """Return a row in which no field is empty."""
    past = PastAttempt(1, "attempt-0", "holder-0", NOW, NOW + 1.5, "unknown")
    return pending(
        status=CallStatus.DONE,
        replay_class=ReplayClass.IDEMPOTENT_WITH_KEY,
        attempt=2,
        created_at=NOW - 9,
        finished_at=NOW + 2.25,
        result=RESULT,
        failure=FAILURE,
        retry_at=NOW + 3.000001,
        ambiguous=True,
        label="second parcel",
        key="refund-7",
        key_since=NOW - 1,
        window_seconds=86_400.5,
        trace_id="4bf92f35",
        settled_by="verify",
        past=(past, replace(past, attempt=2)),
        parent_call_id="0123456789abcdef0123456789abcdef",
    )


def run_record(run: str = "run", **changes: Any) -> RunRecord:
    record = RunRecord(
        workflow_id=run,
        status=RunStatus.RUNNING,
        epoch=1,
        holder_id="holder",
        created_at=NOW,
        updated_at=NOW,
        claimed_at=NOW,
    )
    return replace(record, **changes)


def step(run: str = "run", node: str = "notify", **changes: Any) -> StepRecord:
    record = StepRecord(run, node, "start/", StepStatus.IN_PROGRESS, 1, NOW)
    return replace(record, **changes)


def review(review_id: str = "aaaa0001", run: str = "run", **changes: Any) -> Review:
    who = identity(run)
    record = Review(
        review_id=review_id,
        kind=ReviewKind.IN_DOUBT,
        status=ReviewStatus.OPEN,
        identity=who,
        call_id=who.call_id,
        attempt_id="attempt-1",
        summary="cannot be determined",
        opened_at=NOW,
    )
    return replace(record, **changes)


def decision(verb: Verb = Verb.DID_NOT_HAPPEN, *, by: str = "ann", **changes: Any) -> Decision:
    return replace(Decision(verb=verb, by=by, why="looked", at=NOW + 5), **changes)


def evidence(text: str = "it happened", run: str = "run", **changes: Any) -> Evidence:
    item = Evidence(run, identity(run).call_id, "attempt-1", NOW, "verify", text)
    return replace(item, **changes)


def audit(why: str = "looked", run: str = "run", **changes: Any) -> AuditEntry:
    return replace(AuditEntry(run, NOW, "ann", "decide abort", "review aaaa0001", why), **changes)


def claim(store: Store, run: str = "run", *, after: RunRecord | None = None) -> Fence:
    """Make this store's process the holder of a run."""
    epoch = 1 if after is None else after.epoch + 1
    holder_id = store.holder().holder_id
    record = run_record(run, epoch=epoch, holder_id=holder_id)
    seen = None if after is None else after.epoch
    store.commit(Commit(workflow_id=run, claim=Claim(record, seen)))
    return Fence(holder_id, epoch)


def intent(row: CallRow, fence: Fence, **more: Any) -> Commit:
    """Return the commit that writes a new row to the ledger."""
    run = row.identity.workflow_id
    return Commit(workflow_id=run, fence=fence, calls=(CallWrite(row),), **more)


def follow(row: CallRow, before: CallRow, fence: Fence, **more: Any) -> Commit:
    """Return the commit that replaces ``before`` with ``row``."""
    run = row.identity.workflow_id
    return Commit(workflow_id=run, fence=fence, calls=(CallWrite(row, before.state),), **more)


def note(number: int, run: str = "run", *, weight: int = 0) -> Commit:
    """Return the smallest commit that can be told from others: an audit entry with a number.

    With ``weight``, it has a second entry of that many characters, to reveal half a commit.
    """
    entry = audit(f"note {number}", run, at=NOW + number)
    heavy = replace(entry, action="weigh", why=f"note {number}" + " " * weight)
    return Commit(workflow_id=run, audit=(entry, heavy) if weight else (entry,))


def noted(store: Store, run: str = "run", *, action: str = "decide abort") -> list[int]:
    """Return the numbers of the notes that the store shows."""
    entries = [entry for entry in store.audit(run) if entry.action == action]
    return [int(entry.why.removeprefix("note ")) for entry in entries]


WAITS = (
    Wait(WaitKind.TIMER, "a pause", "sleep", NOW + 60.5),
    Wait(WaitKind.EVENT, "paid", "wait", NOW + 30),
    Wait(WaitKind.REVIEW, "aaaa0001", "ask"),
)


def checkpoint(version: int, snapshot: int, text: str = "{}", **changes: Any) -> CheckpointRecord:
    """Return a version of the run's state. It is whole if it is its own snapshot."""
    record = CheckpointRecord("run", version, snapshot, "plan", text, NOW + version)
    return replace(record, **changes)


def event(event_id: str = "event-1", run: str = "run", **changes: Any) -> EventRecord:
    """Return an event that was sent to a run."""
    record = EventRecord(run, event_id, "paid", '{"cents":4000}', NOW + 1, "ann")
    return replace(record, **changes)


def graph(graph_id: str = "refund@1.0.0", text: str = '{"nodes":[{"name":"plan"}]}') -> GraphRecord:
    """Return a graph definition."""
    return GraphRecord(graph_id, text, NOW)


def told(*events: EventRecord) -> Commit:
    """Return the commit that sends events to a run."""
    return Commit(workflow_id=events[0].workflow_id, events=tuple(map(EventWrite, events)))
