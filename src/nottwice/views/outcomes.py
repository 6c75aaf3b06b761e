"""What did a command do? The documents that it prints with ``--json`` when it has acted."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any

from nottwice.engine.upkeep.retention import RemovalReport, RemovedRun
from nottwice.guard.ledger import Ledger
from nottwice.guard.upkeep.backup import Copy
from nottwice.guard.upkeep.seals import Verified
from nottwice.model.data.records import frozen_record
from nottwice.model.review import AuditEntry
from nottwice.model.run import EventRecord
from nottwice.versions.migrate_plan import Migration
from nottwice.views.people.reviews import CaseView, ReviewView
from nottwice.views.run.agent import AgentView
from nottwice.views.run.graphs import ChangeView, NodeView, change_view
from nottwice.views.runs import RunView
from nottwice.views.shape import LEDGER, Timestamp, moment


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How a run of a graph stands after `run`."""

    ledger: Annotated[str, LEDGER]
    run: Annotated[RunView, "see run"]
    version: Annotated[int | None, "the number of its last checkpoint, or null"]
    state: Annotated[Any, "the state as of that checkpoint, as plain data"]
    nodes: Annotated[tuple[NodeView, ...], "the nodes of its graph; see node"]
    next: Annotated[tuple[str, ...], "what to type next; empty if nothing is left to do"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """The runs that `run --detach` enqueued."""

    ledger: Annotated[str, LEDGER]
    enqueued: Annotated[
        dict[str, Any],
        "the graph that the runs are bound to, and how many are new and were known",
    ]


@frozen_record(frozen=True, slots=True, kw_only=True)
class TalkOutcome:
    """How the run of an agent stands after a message."""

    ledger: Annotated[str, LEDGER]
    run: Annotated[RunView, "see run"]
    version: Annotated[int | None, "the number of its last checkpoint"]
    next: Annotated[tuple[str, ...], "what to type next; empty if it has answered"]
    agent: Annotated[
        AgentView | None,
        "what it said and did; see agent. Without MESSAGE, a document for each message",
    ]


@frozen_record(frozen=True, slots=True, kw_only=True)
class WorkerFigures:
    """What a worker did, in runs."""

    taken: Annotated[int, "how often a run was picked up"]
    completed: Annotated[int, "how often one was completed"]
    waiting: Annotated[int, "how often one came to wait"]
    failed: Annotated[int, "how often one failed"]
    aborted: Annotated[int, "how often one was aborted"]
    handed_back: Annotated[
        int, "how many were released between two nodes, because it was told to stop"
    ]
    put_off: Annotated[int, "how often one could not be advanced and was left for later"]
    at_work: Annotated[tuple[str, ...], "the ids of runs whose node did not end within --drain"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class WorkerStopped:
    """A worker that stopped."""

    ledger: Annotated[str, LEDGER]
    worker: Annotated[WorkerFigures, "what was done, in runs; see worker"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class Locked:
    """The lock file."""

    file: Annotated[str, "the lock file"]
    graphs: Annotated[list[str], "the graphs in it, name@version"]
    changed: Annotated[bool, "whether it was written; false if it was already up to date"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class ClientEdited:
    """The configuration of an MCP client, after its servers were put behind the proxy or back."""

    file: Annotated[str, "the configuration"]
    changed: Annotated[bool, "whether it was written; false if it was already up to date"]
    backup: Annotated[str | None, "the file that holds what it was, or null"]
    servers: Annotated[
        tuple[dict[str, Any], ...],
        "each server, the project it belongs to or null, its state (wrapped, unwrapped, already, "
        "left_alone), and why it was left alone",
    ]


@frozen_record(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """A run that was cancelled."""

    ledger: Annotated[str, LEDGER]
    run: Annotated[RunView, "the run as it is now; see run"]
    stopped: Annotated[bool, "false if a live process drives it, and stops before its next effect"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class Forked:
    """A run that was forked."""

    ledger: Annotated[str, LEDGER]
    run: Annotated[RunView, "the new run; see run"]
    next: Annotated[str, "what advances it"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class Decided:
    """A review that was decided."""

    ledger: Annotated[str, LEDGER]
    review: Annotated[ReviewView, "the review as it is now; see review"]
    changed: Annotated[bool, "false if it was decided like this before"]
    next: Annotated[str, "what resumes the run"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class ShownCase(CaseView):
    """A review that was only shown."""

    ledger: Annotated[str, LEDGER]
    commands: Annotated[tuple[str, ...], "what can be typed to decide"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class RecheckedView(CaseView):
    """A review whose verify hook was asked again."""

    answer: Annotated[str, "what the verify hook says now, or why it was not asked"]
    resolved: Annotated[bool, "whether that decided the review"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class RecheckReport:
    """The reviews whose verify hooks were asked again."""

    ledger: Annotated[str, LEDGER]
    rechecked: Annotated[
        tuple[RecheckedView, ...], "the reviews that were asked about; see rechecked"
    ]
    open: Annotated[int, "how many reviews are undecided, in the whole ledger"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class TrialView:
    """One trial of `check --smoke`."""

    name: Annotated[str, "what was tried"]
    finding: Annotated[str, "what it found"]
    effects: Annotated[
        int | None, "how many more effects the sandbox showed than before; 1 is right"
    ]
    evidence: Annotated[tuple[str, ...], "what was called and seen, as texts"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class SmokeReport:
    """What `check --smoke` found."""

    tool: Annotated[str, "the tool"]
    finding: Annotated[str, "honours the key, races, ignores the key, or is unclear"]
    trials: Annotated[tuple[TrialView, ...], "what was tried; see trial"]
    failed: Annotated[bool, "whether the exit code is 3"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class SentEvent:
    """An event that was sent to a run."""

    event_id: Annotated[str, "its own id; the same one sent twice is one event"]
    run_id: Annotated[str, "the run that was told"]
    name: Annotated[str, "what `nt.receive` asks for"]
    received: Annotated[bool, "whether the run has received it"]
    run_exists: Annotated[bool, "whether the run exists yet"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class SentDocument:
    """What `send` did."""

    ledger: Annotated[str, LEDGER]
    event: Annotated[SentEvent, "the event as the run finds it; see event"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class EntryView:
    """One entry of the audit trail."""

    at: Annotated[Timestamp, "when it was done"]
    run_id: Annotated[str, "to which run"]
    who: Annotated[str, "a person, or `policy` and its name"]
    action: Annotated[str, "what was done: `decide approve`, `deny`, `migrate` and so on"]
    subject: Annotated[str, "what it is about: a review, a call"]
    why: Annotated[str, "the reason that was given"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class AuditTrail:
    """The audit trail of a run or of a ledger."""

    ledger: Annotated[str, LEDGER]
    entries: Annotated[
        tuple[EntryView, ...],
        "what was done, oldest first; see entry, which --lines prints one per line",
    ]


@frozen_record(frozen=True, slots=True, kw_only=True)
class SealReport:
    """What a walk through the seals found."""

    ledger: Annotated[str, LEDGER]
    key: Annotated[str, "the id of the key in use"]
    runs: Annotated[int, "how many runs were looked at"]
    flaws: Annotated[
        list[dict[str, str]],
        "what does not fit: run_id, empty if it belongs to no run, and flaw, in words",
    ]
    heads: Annotated[
        dict[str, str | None],
        "the head of every run, as the log showed it when the run was released",
    ]


@frozen_record(frozen=True, slots=True, kw_only=True)
class Adopted:
    """The runs that were sealed as they are."""

    ledger: Annotated[str, LEDGER]
    adopted: Annotated[int, "how many runs were sealed"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class ErrorView:
    """An error that has a name."""

    type: Annotated[str, "the name of the error"]
    message: Annotated[str, "what happened, what did not, and what to do"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class MigrationView:
    """What became of one run that was to be migrated."""

    run_id: Annotated[str, "the run"]
    outcome: Annotated[str, "migrated, would migrate, already there or refused"]
    from_: Annotated[str | None, "the version that it was bound to, or null"]
    mapped: Annotated[dict[str, str], "the nodes that it was at, and those at which it continues"]
    changes: Annotated[tuple[ChangeView, ...], "what is different in its state; see change"]
    begins_again: Annotated[list[str], "what the new version waits for or asks once more"]
    error: Annotated[ErrorView | None, "why it was refused, or null; see error"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class MigrationReport:
    """What became of the runs that were to be migrated."""

    ledger: Annotated[str, LEDGER]
    to: Annotated[str, "the version, name@version"]
    dry_run: Annotated[bool, "whether nothing was changed"]
    migrations: Annotated[tuple[MigrationView, ...], "what became of each run; see migration"]
    refused: Annotated[int, "how many of them were refused"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class RemovedRunView:
    """One run from which something was removed."""

    run_id: Annotated[str, "its id, which stays taken"]
    ended_as: Annotated[
        str, "completed, failed, aborted, or removed: an earlier sweep took a part of it"
    ]
    ended_at: Annotated[Timestamp | None, "when it ended"]
    calls: Annotated[int, "how many rows of it were removed"]
    calls_left: Annotated[int, "how many rows are kept for longer"]
    due_at: Annotated[Timestamp | None, "when the next of them may go, or null"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class RemovalView:
    """What `gc` removed."""

    ledger: Annotated[str, LEDGER]
    dry_run: Annotated[bool, "whether nothing was removed, and the rest says what would be"]
    families: Annotated[int, "how many runs were looked at, each with those that it has spawned"]
    removed: Annotated[
        dict[str, int],
        "how many `runs` became tombstones, and how many of the other rows were removed",
    ]
    still_open: Annotated[
        int, "how many families are old enough, but have a review, a doubt or a process"
    ]
    unknown_tools: Annotated[
        dict[str, int],
        "rows that are due and were kept, by the name of their tool: its `keep` is not known here",
    ]
    removed_runs: Annotated[
        tuple[RemovedRunView, ...],
        "the runs from which something was removed, at most 1,000; see removed run",
    ]


@frozen_record(frozen=True, slots=True, kw_only=True)
class BackupView:
    """A copy of a ledger, and whether the ledger is one itself."""

    ledger: Annotated[str, LEDGER]
    copy: Annotated[str | None, "the absolute path of the copy, or null if none was made"]
    made_at: Annotated[Timestamp | None, "when it was made, or null"]
    bytes: Annotated[int | None, "how large it is, or null"]
    held_since: Annotated[
        Timestamp | None,
        "if the ledger itself is a copy that is not accounted for: when it was made",
    ]


@frozen_record(frozen=True, slots=True, kw_only=True)
class KeyMade:
    """A new key."""

    id: Annotated[str, "what the ledger will call the key; it says nothing about it"]
    key: Annotated[str, "the key, in base64"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class SettingsWritten:
    """A configuration of an MCP proxy, for a person to correct."""

    path: Annotated[str, "the file that was written"]
    tools: Annotated[list[str], "the tools that the server has"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class NotifyOutcome:
    """What `notify` sent."""

    ledger: Annotated[str, LEDGER]
    sent: Annotated[int, "messages that arrived; a digest is one"]
    notices: Annotated[int, "notices that were told in them"]
    moot: Annotated[int, "notices not worth telling any more: decided or resumed meanwhile"]
    held: Annotated[int, "notices that wait, because there were ten messages in this minute"]
    failed: Annotated[int, "messages that did not arrive, and will be tried again"]
    given_up: Annotated[int, "notices whose last try failed in the last 24 hours, by any sender"]
    again: Annotated[int, "notices that are tried again after their last try, with `--again`"]
    problems: Annotated[tuple[str, ...], "why messages did not arrive"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class Served:
    """Where `serve` has put the operator's page."""

    ledger: Annotated[str, LEDGER]
    ledgers: Annotated[tuple[str, ...], "all ledgers that the page shows; `ledger` is the first"]
    decide: Annotated[str | None, "the link to decide; null if no link allows it"]
    look: Annotated[str, "the link to only look; behind a proxy: the address without a token"]


def shown_case(ledger: Ledger, case: CaseView, commands: Sequence[str]) -> ShownCase:
    """A case with the commands that decide it."""
    return ShownCase(ledger=ledger.location, commands=tuple(commands), **_fields(case))


def rechecked_view(case: CaseView, *, answer: str, resolved: bool) -> RecheckedView:
    """A case with what its verify hook says now."""
    return RecheckedView(answer=answer, resolved=resolved, **_fields(case))


def _fields(case: CaseView) -> dict[str, Any]:
    return {field.name: getattr(case, field.name) for field in dataclasses.fields(case)}


def sent_event(event: EventRecord, *, run_exists: bool) -> SentEvent:
    """An event that was sent, as it is shown."""
    return SentEvent(
        event_id=event.event_id,
        run_id=event.workflow_id,
        name=event.name,
        received=event.received_by is not None,
        run_exists=run_exists,
    )


def entry_view(entry: AuditEntry) -> EntryView:
    """An entry of the audit trail as it is shown."""
    return EntryView(
        at=Timestamp(entry.at),
        run_id=entry.workflow_id,
        who=entry.who,
        action=entry.action,
        subject=entry.subject,
        why=entry.why,
    )


def seal_report(ledger: Ledger, verified: Verified) -> SealReport:
    """What a walk through the seals found, as it is shown."""
    return SealReport(
        ledger=ledger.location,
        key=verified.key_id,
        runs=len(verified.heads),
        flaws=[{"run_id": flaw.run_id, "flaw": flaw.text} for flaw in verified.flaws],
        heads=verified.heads,
    )


def migration_view(done: Migration) -> MigrationView:
    """What became of one run, as it is shown."""
    error = done.error
    return MigrationView(
        run_id=done.run_id,
        outcome=done.outcome,
        from_=done.old,
        mapped=dict(done.nodes),
        changes=tuple(map(change_view, done.changes)),
        begins_again=list(done.begins_again),
        error=None
        if error is None
        else ErrorView(type=type(error).__name__, message=error.message),
    )


def removal_view(ledger: Ledger, removed: RemovalReport) -> RemovalView:
    """What `gc` removed, as it is shown."""
    return RemovalView(
        ledger=ledger.location,
        dry_run=removed.dry_run,
        families=removed.families,
        removed={
            "runs": removed.runs,
            "calls": removed.calls,
            "checkpoints": removed.checkpoints,
            "notices": removed.notices,
        },
        still_open=removed.still_open,
        unknown_tools=dict(sorted(removed.unknown_tools.items())),
        removed_runs=tuple(map(_removed_run, removed.named)),
    )


def backup_view(ledger: Ledger, copy: Copy | None, mark: AuditEntry | None) -> BackupView:
    """A copy as it is shown; ``mark`` says that the ledger is a copy itself."""
    return BackupView(
        ledger=ledger.location,
        copy=None if copy is None else copy.location,
        made_at=moment(None if copy is None else copy.made_at),
        bytes=None if copy is None else copy.bytes,
        held_since=moment(None if mark is None else mark.at),
    )


def _removed_run(run: RemovedRun) -> RemovedRunView:
    return RemovedRunView(
        run_id=run.run_id,
        ended_as=run.ended_as,
        ended_at=moment(run.ended_at),
        calls=run.calls,
        calls_left=run.calls_left,
        due_at=moment(run.due_at),
    )
