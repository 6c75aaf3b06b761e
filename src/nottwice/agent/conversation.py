"""Speaking to a run: a message of the user, and the next round of a conversation that had ended.

A message is an event, so it is on record before a run reacts to it, is taken in once, and may be
sent by any process at any time. A run that had reached its end continues from its beginning, with
all it has: transcript, plan, receipts, money. The same line twice in a row is one message: it
resumes the run, or repeats the answer. After something else was said, it is said anew. A
conversation that had ended continues in the version that is spoken to, whatever version it was in:
the beats are the same in all of them, and an effect that a model asked for is known by its
arguments and not by the version. That it moved is in the audit trail. Promises kept here: P72,
P199, P233.
"""

from __future__ import annotations

from collections.abc import Sequence

from nottwice.agent.hearing import MESSAGE
from nottwice.agent.messages import Spoken, spoken, to_payload
from nottwice.engine import ownership
from nottwice.engine.asks import Doing, Read, Write
from nottwice.engine.host import Host, Seat
from nottwice.engine.session import Session
from nottwice.errors import CommitUnknown, RunAborted, RunBusy
from nottwice.graphs.running import Runnable, fits
from nottwice.guard import registry
from nottwice.guard.sending import telling
from nottwice.model import values
from nottwice.model.graphs import position as positions
from nottwice.model.graphs.position import Position
from nottwice.model.review import MIGRATE, AuditEntry
from nottwice.model.run import (
    CheckpointRecord,
    EventRecord,
    GraphRecord,
    RunRecord,
    RunStatus,
)
from nottwice.model.saving.checkpoint import save
from nottwice.model.saving.image import resume_image
from nottwice.store.interface import Commit, RunUpdate, Store


def send_message(
    seat: Seat,
    run_id: str,
    message: Spoken,
    *,
    message_id: str | None = None,
    by: str = "a program",
) -> Doing[None]:
    """Say something to a run, once.

    Durable: when it returns. Without an id, the same words are the same message until something
    else was said.
    """
    payload = to_payload(spoken(message))
    if message_id is None:
        hashed = values.hash_of(payload)[:16]
        message_id = yield Read(lambda store: _id_of(hashed, store.events(run_id, MESSAGE)))
    yield from telling(seat, run_id, MESSAGE, payload, event_id=message_id, by=by)


def check_hears(run_id: str, run: RunRecord | None) -> None:
    """Refuse to say something to a run that will never read it."""
    if run is not None and run.status is RunStatus.ABORTED:
        raise RunAborted(
            f"Run {run_id!r} was aborted, so it hears nothing more. Your message was not sent. Say "
            "it to a run with another id: agent.run('...', goal='...').",
            run_id=run_id,
        )


def is_on_record(busy: RunBusy) -> RunBusy:
    """The error of a run that another process drives, for the caller who has just spoken to it."""
    text = busy.message.replace(
        "Nothing was done.",
        "Your message is on record, and is heard before the next turn of the run. Nothing else was "
        "done.",
    )
    return RunBusy(text, **busy.facts)


def _id_of(hashed: str, before: Sequence[EventRecord]) -> str:
    """The id of a message: that of the newest one, if it says the same and has an id of ours."""
    if before and before[-1].event_id.startswith("message-"):
        if before[-1].event_id.endswith(f"-{hashed}"):
            return before[-1].event_id
    known, number = {event.event_id for event in before}, len(before) + 1
    while f"message-{number}-{hashed}" in known:
        number += 1
    return f"message-{number}-{hashed}"


def is_spoken_to(run_id: str) -> Read:
    """Ask whether a run has ended and has an unheard message."""

    def look(store: Store) -> bool:
        run = store.load_run(run_id)
        ended = run is not None and run.status is RunStatus.COMPLETED
        return ended and _has_unheard(store, run_id)

    return Read(look)


def reopen(seat: Host, graph: Runnable, run_id: str, *, wait_seconds: float) -> Doing[None]:
    """Let a run that has ended begin its next round, in this version of its agent.

    Durable: when it returns. A second caller finds that it has happened, and changes nothing.
    """
    opening = ownership.Opening(
        host=seat,
        run_id=run_id,
        find_tool=registry.find_tool,
        wait_seconds=wait_seconds,
        # A process that is killed here leaves a run that has ended and can be spoken to again.
        as_it_is=True,
    )
    session = yield from ownership.take(opening)
    chain: list[CheckpointRecord] = yield Read(lambda store: store.checkpoint_chain(run_id))
    unheard = yield Read(lambda store: _has_unheard(store, run_id))
    image, saved = resume_image(chain)
    position = Position.from_plain(image["position"])
    status = RunStatus.RUNNING
    if position.node is None and unheard:
        again = positions.restart(graph.definition(), position)
        moves = not fits(graph, session.run)
        record, _ = save(
            saved,
            workflow_id=run_id,
            node_id=f"/{graph.id}" if moves else "/",
            old=image,
            new={**image, "position": again.to_plain()},
            now=seat.clock.now(),
        )
        if moves:
            yield from _move(session, graph, record)
            return
        session.pending.add_checkpoint(record)
    elif position.node is None:
        # Another process was faster: the message was heard, and answered.
        status = RunStatus.COMPLETED
    yield from ownership.release(session, None, status=status)


def _move(session: Session, graph: Runnable, record: CheckpointRecord) -> Doing[None]:
    """Bind the run to this version and begin the round, in one commit; then let it go."""
    now, run = session.clock.now(), session.run
    moved = AuditEntry(
        run.workflow_id,
        now,
        "nottwice",
        MIGRATE,
        f"{run.graph_id} to {graph.id}",
        "the run had ended and was spoken to",
    )
    commit = Commit(
        workflow_id=run.workflow_id,
        fence=session.fence,
        run=RunUpdate(RunStatus.RUNNING, now, release=True, graph_id=graph.id),
        audit=(moved,),
        checkpoints=(record,),
        graph=GraphRecord(graph.id, graph.record_json, now),
    )
    try:
        yield Write(commit)
    except CommitUnknown:
        # It may be durable, so nothing may be put back. The next claim finds what there is.
        ownership.let_go(session)
        raise
    except BaseException:
        yield from ownership.put_back(session)
        raise
    ownership.let_go(session)


def _has_unheard(store: Store, run_id: str) -> bool:
    return any(event.received_by is None for event in store.events(run_id, MESSAGE))
